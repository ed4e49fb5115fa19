#include <cmath>
#include <numbers>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.CosineAnnealingLR.get_lr, PyTorch 2.11.
class Cosine : public Schedule {
 public:
  explicit Cosine(const Json& options)
      : period_(options.at("period").get<std::int64_t>()), least_(options.at("least").get<double>()) {}

  double next(const Rate& rate) const override {
    if (rate.steps == 0) return rate.current;
    const auto period = static_cast<double>(period_);
    const auto steps = static_cast<double>(rate.steps);
    // The recursion below would divide by zero on the way up again.
    if ((rate.steps - 1 - period_) % (2 * period_) == 0)
      return rate.current + (rate.initial - least_) * (1 - std::cos(std::numbers::pi / period)) / 2;
    return (1 + std::cos(std::numbers::pi * steps / period)) / (1 + std::cos(std::numbers::pi * (steps - 1) / period)) *
               (rate.current - least_) +
           least_;
  }

 private:
  std::int64_t period_;
  double least_;
};

}  // namespace

std::unique_ptr<Schedule> make_cosine_schedule(const Json& options) { return std::make_unique<Cosine>(options); }

}  // namespace lockstep::train
