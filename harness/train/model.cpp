#include "harness/train/model.h"

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::shared_ptr<Model> make_##name##_model(const Json& options, const DataShape& shape);
#include "kinds/model.inc"
#undef LOCKSTEP_KIND

std::shared_ptr<Model> make_model(const scenario::Choice& choice, const DataShape& shape) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_model(choice.options, shape);
#include "kinds/model.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no model of kind " + choice.kind});
}

}  // namespace lockstep::train
