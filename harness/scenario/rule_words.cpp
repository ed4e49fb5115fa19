#include "harness/scenario/rule_words.h"

#include <algorithm>
#include <utility>
#include <vector>

#include "harness/base/text.h"

namespace lockstep::scenario {
namespace {

/// Types that a rule takes; empty: any.
std::vector<std::string> types_of(const Json& rule) {
  if (!rule.contains("type")) return {};
  if (rule["type"].is_string()) return {rule["type"].get<std::string>()};
  return rule["type"].get<std::vector<std::string>>();
}

bool is_of(const std::string& type, const Json& value) {
  if (type == "number") return value.is_number();
  if (type == "integer") return value.is_number_integer();
  return type == value.type_name();
}

}  // namespace

std::string shortened(const Json& value) {
  std::string text = value.dump(-1, ' ', false, Json::error_handler_t::replace);
  constexpr std::size_t kMost = 60;
  if (text.size() <= kMost) return text;
  text.resize(kMost - 3);
  return text.append("...");
}

std::string expectation(const Json& rule) {
  std::vector<std::string> parts;
  if (const std::vector<std::string> types = types_of(rule); !types.empty()) parts.push_back(join(types, " or "));
  if (rule.contains("enum")) {
    std::vector<std::string> values;
    for (const Json& value : rule["enum"])
      values.push_back(value.is_string() ? value.get<std::string>() : value.dump());
    parts.push_back("one of: " + join(values, ", "));
  }
  const std::vector<std::pair<const char*, const char*>> words = {{"minimum", "at least "},
                                                                  {"exclusiveMinimum", "more than "},
                                                                  {"maximum", "at most "},
                                                                  {"exclusiveMaximum", "less than "},
                                                                  {"pattern", "matching "},
                                                                  {"minItems", "number of items: at least "},
                                                                  {"maxItems", "number of items: at most "},
                                                                  {"minLength", "number of characters: at least "},
                                                                  {"maxLength", "number of characters: at most "},
                                                                  {"minProperties", "number of keys: at least "},
                                                                  {"maxProperties", "number of keys: at most "}};
  for (const auto& [key, word] : words) {
    if (rule.contains(key))
      parts.push_back(word + (rule[key].is_string() ? rule[key].get<std::string>() : rule[key].dump()));
  }
  if (rule.value("uniqueItems", false)) parts.push_back("no item twice");
  if (rule.contains("required"))
    parts.push_back("with the keys " + join(rule["required"].get<std::vector<std::string>>(), ", "));
  return join(parts, ", ");
}

std::string fault_of(const Json& value, const Json& rule) {
  const std::vector<std::string> types = types_of(rule);
  const bool fits = types.empty() || std::any_of(types.begin(), types.end(),
                                                 [&](const std::string& type) { return is_of(type, value); });
  if (!fits) return "wrong type";
  if (value.is_number()) return "the number is out of range";
  if (value.is_string()) return rule.contains("enum") ? "unknown value" : "the text has the wrong form";
  if (value.is_array()) return "the list has the wrong form";
  std::vector<std::string> missing;
  for (const Json& key : rule.value("required", Json::array())) {
    if (!value.contains(key.get<std::string>())) missing.push_back("'" + key.get<std::string>() + "'");
  }
  return missing.empty() ? "the object has the wrong form" : "a required key is missing: " + join(missing, ", ");
}

}  // namespace lockstep::scenario
