#include "harness/train/schedule/schedule.h"

#include "harness/base/error.h"

namespace lockstep::train {

#define LOCKSTEP_KIND(name) std::unique_ptr<Schedule> make_##name##_schedule(const Json& options);
#include "kinds/schedule.inc"
#undef LOCKSTEP_KIND

std::unique_ptr<Schedule> make_schedule(const recipe::ScheduleChoice& choice) {
#define LOCKSTEP_KIND(name) \
  if (name_of(choice.kind) == #name) return make_##name##_schedule(choice.options);
#include "kinds/schedule.inc"
#undef LOCKSTEP_KIND
  throw InternalError({.what = "no schedule of kind " + text_of(choice.kind)});
}

}  // namespace lockstep::train
