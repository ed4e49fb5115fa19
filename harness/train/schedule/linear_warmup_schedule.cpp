#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.LinearLR.get_lr with end_factor 1, PyTorch 2.11.
class LinearWarmup : public Schedule {
 public:
  explicit LinearWarmup(const Json& options)
      : warmup_(options.at("warmup").get<std::int64_t>()), factor_(options.at("factor").get<double>()) {}

  double next(const Rate& rate) const override {
    if (rate.steps == 0) return rate.current * factor_;
    if (rate.steps > warmup_) return rate.current;
    const auto before = static_cast<double>(rate.steps - 1);
    return rate.current * (1.0 + (1.0 - factor_) / (static_cast<double>(warmup_) * factor_ + before * (1.0 - factor_)));
  }

 private:
  std::int64_t warmup_;
  double factor_;
};

}  // namespace

std::unique_ptr<Schedule> make_linear_warmup_schedule(const Json& options) {
  return std::make_unique<LinearWarmup>(options);
}

}  // namespace lockstep::train
