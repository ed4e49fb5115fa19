#include "harness/scenario/check_kind.h"

#include <iterator>

namespace lockstep::scenario {
namespace {

constexpr std::string_view kBranches[] = {
#define LOCKSTEP_KIND(name) #name,
#include "kinds/check.inc"
#undef LOCKSTEP_KIND
};

/// Whether row, enumerator and branch of the schema stand at the same place.
constexpr bool rows_fit_branches() {
  if (std::size(kBranches) != kCheckKinds.size()) return false;
  for (std::size_t i = 0; i < kCheckKinds.size(); ++i) {
    if (kCheckKinds[i].kind != static_cast<CheckKind>(i) || kCheckKinds[i].name != kBranches[i]) return false;
  }
  return true;
}
static_assert(rows_fit_branches(),
              "kCheckKinds needs one row for each branch of definitions.check in scenario.schema.json, in its order");

}  // namespace

std::optional<CheckKind> check_kind_named(std::string_view name) {
  for (const CheckTraits& row : kCheckKinds) {
    if (row.name == name) return row.kind;
  }
  return std::nullopt;
}

}  // namespace lockstep::scenario
