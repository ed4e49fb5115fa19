#include "harness/scenario/reading.h"

#include "harness/base/error.h"

namespace lockstep::scenario {

std::optional<std::int64_t> integer_at(const Json& object, const char* key) {
  return object.contains(key) ? std::optional(object[key].get<std::int64_t>()) : std::nullopt;
}

std::optional<double> number_at(const Json& object, const char* key) {
  return object.contains(key) ? std::optional(object[key].get<double>()) : std::nullopt;
}

void require(bool holds, const std::string& origin, const std::string& path, const std::string& what,
             const std::string& expected, const std::string& actual) {
  if (holds) return;
  throw InputError({.what = what, .where = origin + ": " + path, .expected = expected, .actual = actual});
}

}  // namespace lockstep::scenario
