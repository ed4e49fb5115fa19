#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

class Constant : public Schedule {
 public:
  double next(const Rate& rate) const override { return rate.current; }
};

}  // namespace

std::unique_ptr<Schedule> make_constant_schedule(const Json&) { return std::make_unique<Constant>(); }

}  // namespace lockstep::train
