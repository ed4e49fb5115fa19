#include "harness/laws/seen.h"

#include <utility>

namespace lockstep::laws {

Json seen_of(const trace::RunTrace& run, const char* part) {
  if (run.ranks.empty() || !run.ranks[0].header.is_object()) return {};
  const Json seen = run.ranks[0].header.value("seen", Json());
  return seen.is_object() ? seen.value(part, Json()) : Json();
}

Breach seen_breach(RecordPlace at, std::string expected, const std::string& actual, std::string cause) {
  return {.at = std::move(at),
          .expected = std::move(expected),
          .actual = actual,
          .cause = std::move(cause),
          .evidence = actual};
}

}  // namespace lockstep::laws
