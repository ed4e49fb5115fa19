#include "harness/judge/run_check.h"

namespace lockstep::checks {

// One function for each kind of check that the schema names: in checks/, and golden/check.cpp for the one that
// needs the store.
#define LOCKSTEP_KIND(name) CheckResult check_##name(const CheckInput& input);
#include "kinds/check.inc"
#undef LOCKSTEP_KIND

}  // namespace lockstep::checks

namespace lockstep::judge {
namespace {

/// In the order of scenario::kCheckKinds, which is that of the schema's branches.
constexpr checks::CheckResult (*kChecks[])(const checks::CheckInput&) = {
#define LOCKSTEP_KIND(name) checks::check_##name,
#include "kinds/check.inc"
#undef LOCKSTEP_KIND
};

}  // namespace

checks::CheckResult run_check(const checks::CheckInput& input) {
  return kChecks[static_cast<std::size_t>(input.spec.that)](input);
}

}  // namespace lockstep::judge
