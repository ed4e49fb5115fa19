#include "harness/laws/seen.h"

namespace lockstep::laws {

Json seen_of(const trace::RunTrace& run, const char* part) {
  if (run.ranks.empty() || !run.ranks[0].header.is_object()) return {};
  const Json seen = run.ranks[0].header.value("seen", Json());
  return seen.is_object() ? seen.value(part, Json()) : Json();
}

}  // namespace lockstep::laws
