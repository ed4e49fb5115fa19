#include <algorithm>
#include <cmath>
#include <vector>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: MCG-NJU/STMixer, alphaction/solver/lr_scheduler.py (WarmupMultiStepLR.get_lr).
class WarmupMultistep : public Schedule {
 public:
  explicit WarmupMultistep(const Json& options)
      : milestones_(options.at("milestones").get<std::vector<std::int64_t>>()),
        gamma_(options.at("gamma").get<double>()),
        warmup_(options.at("warmup").get<std::int64_t>()),
        factor_(options.at("factor").get<double>()) {}

  double next(const Rate& rate) const override {
    double warmup = 1;
    if (rate.steps < warmup_) {
      const double alpha = static_cast<double>(rate.steps) / static_cast<double>(warmup_);
      warmup = factor_ * (1 - alpha) + alpha;
    }
    const auto passed =
        std::count_if(milestones_.begin(), milestones_.end(), [&](std::int64_t m) { return m <= rate.steps; });
    return rate.initial * warmup * std::pow(gamma_, static_cast<double>(passed));
  }

 private:
  std::vector<std::int64_t> milestones_;
  double gamma_;
  std::int64_t warmup_;
  double factor_;
};

}  // namespace

std::unique_ptr<Schedule> make_warmup_multistep_schedule(const Json& options) {
  return std::make_unique<WarmupMultistep>(options);
}

}  // namespace lockstep::train
