#include "harness/train/reduction/reduction.h"

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::unique_ptr<Reduction> make_##name##_reduction();
#include "kinds/reduction.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Reduction> make_reduction(const std::string& name) {
#define LOCKSTEP_KIND(kind) \
  if (name == #kind) return make_##kind##_reduction();
#include "kinds/reduction.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no reduction " + name});
}

}  // namespace lockstep::train
