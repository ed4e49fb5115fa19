#include "harness/scenario/schema.h"

#include <optional>
#include <utility>
#include <vector>

#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::scenario {
namespace {

constexpr const char* kSchemaText =
#include "schema_text.inc"
    ;

std::string shortened(const Json& value) {
  std::string text = value.dump();
  if (text.size() > 60) text = text.substr(0, 57) + "...";
  return text;
}

[[noreturn]] void fail(const std::string& what, const std::string& path, const Origin& origin,
                       const std::string& expected, const std::string& actual, const std::string& next) {
  std::string where = origin.file;
  if (!path.empty()) where += ": " + path;
  if (!origin.within.empty()) where += " (" + origin.within + ")";
  throw InputError({.what = what, .where = where, .expected = expected, .actual = actual, .next = next});
}

/// "train.optimizer" and "lr" make "train.optimizer.lr".
std::string below(const std::string& path, const std::string& key) { return path.empty() ? key : path + "." + key; }

/// The rule for a value that is not even of its type: nothing of what would stand inside.
Json without_inside(Json rule) {
  for (const char* key : {"default", "properties", "additionalProperties", "required", "items"}) rule.erase(key);
  return rule;
}

/// Walks document and schema together: picks the branch of every "kind", refuses unknown keys, fills defaults, and
/// writes down the plain schema of exactly this document, which the validator then judges.
class Completion {
 public:
  explicit Completion(const Origin& origin) : origin_(origin) {}

  /// Completes `document` in place; returns the plain schema that it must satisfy.
  Json complete(Json& document, const Json& rule, const std::string& path) {
    if (rule.contains("$ref")) return complete(document, resolve(rule), path);
    if (rule.contains("oneOf")) {
      add_usual_kind(document, rule);
      return complete(document, branch_of(document, rule, path), path);
    }
    if (document.is_object() && (rule.contains("properties") || rule.contains("additionalProperties"))) {
      return complete_object(document, rule, path);
    }
    if (document.is_array() && rule.contains("items")) return complete_array(document, rule, path);
    return without_inside(rule);
  }

 private:
  static const Json& resolve(const Json& rule) {
    const std::string reference = rule["$ref"].get<std::string>();
    return schema().at(Json::json_pointer(reference.substr(1)));
  }

  /// Key that tells the branches apart, and its value in each.
  static std::pair<std::string, std::vector<std::string>> kinds_of(const Json& rule) {
    std::pair<std::string, std::vector<std::string>> kinds;
    for (const Json& branch : rule["oneOf"]) {
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

  Json branch_of(const Json& document, const Json& rule, const std::string& path) const {
    const auto [key, kinds] = kinds_of(rule);
    if (!document.is_object()) {
      fail("wrong type", path, origin_, "an object with the key '" + key + "'", shortened(document), "");
    }
    if (!document.contains(key)) {
      fail("a required key is missing", path, origin_, "'" + key + "', one of: " + join(kinds, ", "),
           document.empty() ? "no keys" : "the keys " + join(keys_of(document), ", "), "");
    }
    for (std::size_t i = 0; i < kinds.size(); ++i) {
      if (document[key] != kinds[i]) continue;
      Json branch = rule["oneOf"][i];
      branch["type"] = "object";
      return branch;
    }
    const std::string given = document[key].is_string() ? document[key].get<std::string>() : shortened(document[key]);
    fail("unknown " + key, below(path, key), origin_, "one of: " + join(kinds, ", "), "'" + given + "'",
         suggest(given, kinds));
  }

  Json complete_object(Json& document, const Json& rule, const std::string& path) {
    static const Json kNone = Json::object();
    const Json& properties = rule.contains("properties") ? rule["properties"] : kNone;
    const Json additional = rule.value("additionalProperties", Json(true));
    Json plain = rule;
    plain.erase("default");
    plain["properties"] = Json::object();
    for (const auto& [key, property] : properties.items()) {
      const std::optional<Json> fallback = default_of(property);
      if (!document.contains(key) && fallback) document[key] = *fallback;
      if (document.contains(key)) plain["properties"][key] = complete(document[key], property, below(path, key));
    }
    for (const std::string& key : keys_of(document)) {
      if (properties.contains(key)) continue;
      if (additional == Json(false)) {
        fail("unknown key '" + key + "'", path, origin_, "one of: " + join(keys_of(properties), ", "), "'" + key + "'",
             suggest(key, keys_of(properties)));
      }
      if (additional.is_object()) plain["properties"][key] = complete(document[key], additional, below(path, key));
    }
    return plain;
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

  static std::optional<Json> default_of(const Json& property) {
    if (property.contains("default")) return property["default"];
    if (property.contains("$ref")) return default_of(resolve(property));
    return std::nullopt;
  }

  const Origin& origin_;
};

/// What of a completed document says something: values that are not the schema's own defaults.
Json stripped(const Json& document, const Json& rule) {
  if (rule.contains("$ref"))
    return stripped(document, schema().at(Json::json_pointer(rule["$ref"].get<std::string>().substr(1))));
  if (rule.contains("oneOf")) {
    for (const Json& branch : rule["oneOf"]) {
      for (const auto& [name, property] : branch["properties"].items()) {
        if (property.contains("const") && document.value(name, Json()) == property["const"])
          return stripped(document, branch);
      }
    }
    return document;
  }
  if (!document.is_object() || !rule.contains("properties")) return document;
  Json result = Json::object();
  for (const auto& [key, value] : document.items()) {
    const Json property = rule["properties"].value(key, Json::object());
    const Json says = stripped(value, property);
    const Json& definition = property.contains("$ref")
                                 ? schema().at(Json::json_pointer(property["$ref"].get<std::string>().substr(1)))
                                 : property;
    if (!definition.contains("default") || says != stripped(definition["default"], property)) result[key] = says;
  }
  return result;
}

/// What the schema asks for at one place, in words.
std::string expectation(const Json& rule) {
  std::vector<std::string> parts;
  if (rule.contains("type")) parts.push_back(rule["type"].get<std::string>());
  if (rule.contains("enum")) {
    std::vector<std::string> values;
    for (const Json& value : rule["enum"])
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    parts.push_back("one of: " + join(values, ", "));
  }
  const std::vector<std::pair<const char*, const char*>> words = {{"minimum", "at least "},
                                                                  {"exclusiveMinimum", "more than "},
                                                                  {"maximum", "at most "},
                                                                  {"pattern", "matching "},
                                                                  {"minItems", "items at least "},
                                                                  {"maxItems", "items at most "},
                                                                  {"minLength", "characters at least "},
                                                                  {"maxLength", "characters at most "},
                                                                  {"minProperties", "keys at least "}};
  for (const auto& [key, word] : words) {
    if (rule.contains(key))
      parts.push_back(word + (rule[key].is_string() ? rule[key].get<std::string>() : rule[key].dump()));
  }
  if (rule.value("uniqueItems", false)) parts.push_back("no item twice");
  if (rule.contains("required"))
    parts.push_back("with the keys " + join(rule["required"].get<std::vector<std::string>>(), ", "));
  return join(parts, ", ");
}

/// What is wrong with the value at `pointer`, in words.
std::string fault_of(const Json& document, const Json::json_pointer& pointer, const Json& rule) {
  if (!document.contains(pointer)) return "a value is missing";
  const Json& value = document.at(pointer);
  const std::string type = rule.value("type", "");
  const bool fits = type.empty() || type == value.type_name() || (type == "number" && value.is_number()) ||
                    (type == "integer" && value.is_number_integer());
  if (!fits) return "wrong type";
  if (value.is_number()) return "the number is out of range";
  if (value.is_string()) return rule.contains("enum") ? "unknown value" : "the text is not as it must be";
  if (value.is_array()) return "the list is not as it must be";
  std::vector<std::string> missing;
  for (const Json& key : rule.value("required", Json::array())) {
    if (!value.contains(key.get<std::string>())) missing.push_back("'" + key.get<std::string>() + "'");
  }
  return missing.empty() ? "the object is not as it must be" : "a required key is missing: " + join(missing, ", ");
}

/// The rule for the value at `steps` of the plain schema, as far down as it goes.
const Json& rule_at(const Json& plain, const std::vector<std::string>& steps) {
  const Json* rule = &plain;
  for (const std::string& step : steps) {
    if (rule->contains("properties") && (*rule)["properties"].contains(step)) {
      rule = &(*rule)["properties"][step];
    } else if (rule->contains("items") && (*rule)["items"].is_array() && std::stoul(step) < (*rule)["items"].size()) {
      rule = &(*rule)["items"][std::stoul(step)];
    }
  }
  return *rule;
}

/// "/train/optimizer" for valijson's context <root>, ["train"], ["optimizer"].
std::vector<std::string> steps_of(const std::vector<std::string>& context) {
  std::vector<std::string> steps;
  for (const std::string& part : context) {
    if (part.size() < 3 || part.front() != '[') continue;
    const std::string inner = part.substr(1, part.size() - 2);
    steps.push_back(inner.front() == '"' ? inner.substr(1, inner.size() - 2) : inner);
  }
  return steps;
}

void validate(const Json& document, const Json& plain, const Origin& origin) {
  valijson::Schema compiled;
  valijson::SchemaParser(valijson::SchemaParser::kDraft7)
      .populateSchema(valijson::adapters::NlohmannJsonAdapter(plain), compiled);
  valijson::ValidationResults results;
  const valijson::adapters::NlohmannJsonAdapter target(document);
  if (valijson::Validator().validate(compiled, target, &results)) return;

  // The deepest error is the cause; valijson repeats it on the way up.
  valijson::ValidationResults::Error error, deepest;
  while (results.popError(error)) {
    if (error.context.size() >= deepest.context.size() &&
        (deepest.description.empty() || error.context.size() > deepest.context.size())) {
      deepest = error;
    }
  }
  const std::vector<std::string> steps = steps_of(deepest.context);
  std::string path;
  Json::json_pointer pointer;
  for (const std::string& step : steps) {
    path = below(path, step);
    pointer /= step;
  }
  const Json& rule = rule_at(plain, steps);
  fail(fault_of(document, pointer, rule), path, origin, expectation(rule),
       document.contains(pointer) ? shortened(document.at(pointer)) : "", "");
}

/// The schema of what surrounds the runs. A variant may supply what "train" leaves out, so that and its companions are
/// judged once a variant has been merged, by definition "run".
Json shell() {
  Json rule = schema();
  rule["properties"]["train"] = {{"type", "object"}};
  rule["properties"]["launch"] = Json::object();
  rule["properties"]["world_size"] = Json::object();
  return rule;
}

}  // namespace

const Json& schema() {
  static const Json parsed = Json::parse(kSchemaText);
  return parsed;
}

Json without_defaults(const Json& completed, const std::string& definition) {
  return stripped(completed, schema()["definitions"].at(definition));
}

Json complete(const Json& document, const std::string& definition, const Origin& origin) {
  Json result = document;
  const Json rule = definition.empty() ? shell() : schema()["definitions"].at(definition);
  if (!result.is_object()) fail("wrong type", "", origin, "an object", shortened(document), "");
  Json plain = Completion(origin).complete(result, rule, "");
  plain.erase("$schema");
  plain.erase("definitions");
  validate(result, plain, origin);
  return result;
}

}  // namespace lockstep::scenario
