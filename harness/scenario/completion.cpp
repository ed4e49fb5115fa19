#include <optional>
#include <utility>
#include <vector>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "harness/base/problems.h"
#include "harness/base/text.h"
#include "harness/scenario/rule_words.h"
#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

/// "train.optimizer" and "lr" make "train.optimizer.lr".
std::string below(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

/// A rule without what stands inside its value: its own demands only.
Json without_inside(Json rule) {
  for (const char* key : {"default", "properties", "propertyNames", "additionalProperties", "items"}) rule.erase(key);
  return rule;
}

/// Takes anything: for a value that is told to be wrong already.
Json anything() { return Json::object(); }

bool is_valid(const Json& document, const Json& plain) {
  valijson::Schema compiled;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(plain), compiled);
  const valijson::adapters::NlohmannJsonAdapter target(document);
  return valijson::Validator().validate(compiled, target, nullptr);
}

/// Patterns take stack, and the search for equal items time, by the size of what they look at: these are no larger than
/// the schema allows.
bool is_too_large(const Json& document, const Json& rule) {
  constexpr std::size_t kBytesOfCharacter = 4;
  const auto most = [&](const char* key) { return rule.value(key, std::size_t{1} << 40); };
  if (document.is_string())
    return document.get_ref<const std::string&>().size() > kBytesOfCharacter * most("maxLength");
  if (document.is_array()) return document.size() > most("maxItems");
  return document.is_object() && document.size() > most("maxProperties");
}

/// Walks document and schema together: picks the branch of every "kind", refuses unknown keys, fills defaults, and
/// writes down the plain schema of exactly this document, which the validator then judges.
class Completion {
 public:
  explicit Completion(const Origin& origin) : origin_(origin) {}

  /// Completes `document` in place, and finds all its errors.
  void run(Json& document, const Json& rule) {
    const Json plain = complete(document, rule, origin_.path);
    if (is_valid(document, plain)) return;
    judge(document, plain, origin_.path);
    LOCKSTEP_CHECK(!problems_.all().empty());
  }

  const Problems& problems() const { return problems_; }

 private:
  /// Returns the plain schema that the completed document must satisfy.
  Json complete(Json& document, const Json& reference, const std::string& path) {
    const Json& rule = resolved(reference);
    if (is_too_large(document, rule)) {
      add(fault_of(document, rule), path, expectation(without_inside(rule)), shortened(document));
      return anything();
    }
    if (!branches_of(rule).empty()) {
      add_usual_kind(document, rule);
      const std::optional<Json> branch = branch_of(document, rule, path);
      return branch ? complete(document, *branch, path) : anything();
    }
    if (document.is_object() && (rule.contains("properties") || rule.contains("additionalProperties")))
      return complete_object(document, rule, path);
    if (document.is_array() && rule.contains("items")) return complete_array(document, rule, path);
    Json plain = without_inside(rule);
    if (!document.is_object()) plain.erase("required");  // the wrong type says it all
    return plain;
  }

  /// Key that tells the branches apart, and its value in each.
  static std::pair<std::string, std::vector<std::string>> kinds_of(const Json& rule) {
    std::pair<std::string, std::vector<std::string>> kinds;
    for (const Json& branch : branches_of(rule)) {
      for (const auto& [name, property] : branch["properties"].items()) {
        if (!property.contains("const")) continue;
        kinds.first = name;
        kinds.second.push_back(property["const"].get<std::string>());
      }
    }
    return kinds;
  }

  /// An object that leaves its kind out is of the kind that a missing object would be of.
  static void add_usual_kind(Json& document, const Json& rule) {
    const std::string key = kinds_of(rule).first;
    if (document.is_object() && !document.contains(key) && rule.contains("default") && rule["default"].contains(key))
      document[key] = rule["default"][key];
  }

  std::optional<Json> branch_of(const Json& document, const Json& rule, const std::string& path) {
    const auto [key, kinds] = kinds_of(rule);
    if (!document.is_object()) {
      add("wrong type", path, "an object with the key '" + key + "'", shortened(document));
    } else if (!document.contains(key)) {
      add("a required key is missing", path, "'" + key + "', one of: " + join(kinds, ", "),
          document.empty() ? "no keys" : "the keys " + some_of(keys_of(document), 20));
    } else {
      for (std::size_t i = 0; i < kinds.size(); ++i) {
        if (document[key] != kinds[i]) continue;
        Json branch = branches_of(rule)[i];
        branch["type"] = "object";
        return branch;
      }
      const std::string given = document[key].is_string() ? document[key].get<std::string>() : shortened(document[key]);
      add("unknown " + key, below(path, key), "one of: " + join(kinds, ", "), "'" + given + "'", suggest(given, kinds));
    }
    return std::nullopt;
  }

  Json complete_object(Json& document, const Json& rule, const std::string& path) {
    static const Json kNone = Json::object();
    const Json& properties = rule.contains("properties") ? rule["properties"] : kNone;
    Json plain = rule;
    for (const char* key : {"default", "propertyNames", "needs"}) plain.erase(key);
    if (rule.contains("needs")) plain["required"] = rule["needs"];
    plain["properties"] = Json::object();
    // A key that is misspelt is not missing, too.
    if (refuse_unknown_keys(document, rule, path)) plain.erase("required");
    for (const auto& [key, property] : properties.items()) {
      const Json& definition = resolved(property);
      if (!document.contains(key) && definition.contains("default")) document[key] = definition["default"];
      if (document.contains(key)) plain["properties"][key] = complete(document[key], property, below(path, key));
    }
    if (!rule.contains("additionalProperties") || !rule["additionalProperties"].is_object()) return plain;
    plain.erase("additionalProperties");
    for (const std::string& key : keys_of(document)) {
      if (!properties.contains(key))
        plain["properties"][key] = complete(document[key], rule["additionalProperties"], below(path, key));
    }
    return plain;
  }

  /// Whether there are any.
  bool refuse_unknown_keys(const Json& document, const Json& rule, const std::string& path) {
    if (rule.value("additionalProperties", Json(true)) != Json(false)) return false;
    bool found = false;
    const std::vector<std::string> known = keys_of(rule["properties"]);
    for (const std::string& key : keys_of(document)) {
      if (rule["properties"].contains(key)) continue;
      found = true;
      if (problems_.is_over()) break;
      add("unknown key '" + key + "'", path, "one of: " + join(known, ", "), "'" + key + "'", suggest(key, known));
    }
    return found;
  }

  Json complete_array(Json& document, const Json& rule, const std::string& path) {
    Json plain = rule;
    plain.erase("default");
    plain["items"] = Json::array();
    for (std::size_t i = 0; i < document.size(); ++i) {
      plain["items"].push_back(complete(document[i], rule["items"], below(path, std::to_string(i))));
    }
    if (plain["items"].empty()) plain.erase("items");
    return plain;
  }

  /// Finds each value that breaks its own rule: a whole document that is not valid does not say where.
  void judge(const Json& value, const Json& plain, const std::string& path) {
    const Json own = without_inside(plain);
    if (!is_valid(value, own)) add(fault_of(value, own), path, expectation(own), shortened(value));
    if (value.is_object() && plain.contains("properties")) {
      for (const auto& [key, rule] : plain["properties"].items()) {
        if (value.contains(key)) judge(value[key], rule, below(path, key));
      }
    }
    if (value.is_array() && plain.contains("items")) {
      for (std::size_t i = 0; i < value.size(); ++i) judge(value[i], plain["items"][i], below(path, std::to_string(i)));
    }
  }

  void add(const std::string& what, const std::string& path, const std::string& expected, const std::string& actual,
           const std::string& next = "") {
    std::string where = origin_.file;
    if (!path.empty()) where += ": " + path;
    if (!origin_.within.empty()) where += " (" + origin_.within + ")";
    problems_.add({.what = what, .where = where, .expected = expected, .actual = actual, .next = next});
  }

  const Origin& origin_;
  Problems problems_;
};

}  // namespace

Json complete_by(const Json& rule, const Json& document, const Origin& origin) {
  Json result = document;
  Completion completion(origin);
  completion.run(result, rule);
  completion.problems().throw_if_any();
  return result;
}

}  // namespace lockstep::scenario
