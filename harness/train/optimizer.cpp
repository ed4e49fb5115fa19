#include "harness/train/optimizer.h"

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) \
  std::unique_ptr<Optimizer> make_##name##_optimizer(const Json& options, const std::vector<NamedTensor>& parameters);
#include "kinds/optimizer.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Optimizer> make_optimizer(const scenario::Choice& choice, const std::vector<NamedTensor>& parameters) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_optimizer(choice.options, parameters);
#include "kinds/optimizer.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no optimizer of kind " + choice.kind});
}

}  // namespace lockstep::train
