#include "harness/train/schedule.h"

namespace lockstep::train {
namespace {

class Constant : public Schedule {
 public:
  double next(double learning_rate, std::int64_t) const override { return learning_rate; }
};

}  // namespace

std::unique_ptr<Schedule> make_constant_schedule(const Json&) { return std::make_unique<Constant>(); }

}  // namespace lockstep::train
