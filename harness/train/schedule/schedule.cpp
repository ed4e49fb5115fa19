#include "harness/train/schedule/schedule.h"

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::unique_ptr<Schedule> make_##name##_schedule(const Json& options);
#include "kinds/schedule.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Schedule> make_schedule(const scenario::Choice& choice) {
#define LOCKSTEP_KIND(name) \
  if (choice.kind == #name) return make_##name##_schedule(choice.options);
#include "kinds/schedule.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no schedule of kind " + choice.kind});
}

}  // namespace lockstep::train
