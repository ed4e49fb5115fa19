#include <string>
#include <vector>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.ChainedScheduler.step, PyTorch 2.11.
class Chained : public Schedule {
 public:
  explicit Chained(const Json& options) {
    for (const Json& one : options.at("of"))
      schedules_.push_back(make_schedule(recipe::choice_from<recipe::ScheduleKind>(one)));
  }

  double next(const Rate& rate) const override {
    Rate now = rate;
    for (const auto& schedule : schedules_) now.current = schedule->next(now);
    return now.current;
  }

 private:
  std::vector<std::unique_ptr<Schedule>> schedules_;
};

}  // namespace

std::unique_ptr<Schedule> make_chained_schedule(const Json& options) { return std::make_unique<Chained>(options); }

}  // namespace lockstep::train
