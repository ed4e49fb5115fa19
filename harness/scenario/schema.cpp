#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

constexpr const char* kSchemaText =
#include "schema_text.inc"
    ;

/// What of a completed document says something: values that are not the schema's own defaults.
Json stripped(const Json& document, const Json& reference) {
  const Json& rule = resolved(reference);
  if (!branches_of(rule).empty()) {
    for (const Json& branch : branches_of(rule)) {
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
    const Json& definition = resolved(property);
    if (!definition.contains("default") || says != stripped(definition["default"], property)) result[key] = says;
  }
  return result;
}

}  // namespace

const Json& schema() {
  static const Json parsed = Json::parse(kSchemaText);
  return parsed;
}

const Json& resolved(const Json& rule) {
  if (!rule.contains("$ref")) return rule;
  return resolved(schema().at(Json::json_pointer(rule["$ref"].get<std::string>().substr(1))));
}

const Json& branches_of(const Json& rule) {
  static const Json kNone = Json::array();
  for (const char* key : {"oneOf", "anyOf"}) {
    if (rule.contains(key)) return rule[key];
  }
  return kNone;
}

Json complete(const Json& document, const std::string& definition, const Origin& origin) {
  return complete_by(schema()["definitions"].at(definition), document, origin);
}

Json without_defaults(const Json& completed, const std::string& definition) {
  return stripped(completed, schema()["definitions"].at(definition));
}

}  // namespace lockstep::scenario
