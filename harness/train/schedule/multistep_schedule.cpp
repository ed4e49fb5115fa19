#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.MultiStepLR.get_lr, PyTorch 2.11.
class Multistep : public Schedule {
 public:
  explicit Multistep(const Json& options)
      : milestones_(options.at("milestones").get<std::vector<std::int64_t>>()),
        gamma_(options.at("gamma").get<double>()) {}

  double next(const Rate& rate) const override {
    const auto times = std::count(milestones_.begin(), milestones_.end(), rate.steps);
    return times == 0 ? rate.current : rate.current * std::pow(gamma_, static_cast<double>(times));
  }

 private:
  std::vector<std::int64_t> milestones_;
  double gamma_;
};

}  // namespace

std::unique_ptr<Schedule> make_multistep_schedule(const Json& options) { return std::make_unique<Multistep>(options); }

}  // namespace lockstep::train
