#include <cmath>
#include <numbers>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// A linear warm-up, then a cosine that has counted from the start.
class WarmupCosine : public Schedule {
 public:
  explicit WarmupCosine(const Json& options)
      : period_(options.at("period").get<double>()),
        warmup_(options.at("warmup").get<double>()),
        factor_(options.at("factor").get<double>()) {}

  double next(const Rate& rate) const override {
    const auto steps = static_cast<double>(rate.steps);
    const double alpha = steps / warmup_;
    if (alpha < 1) return rate.initial * (factor_ * (1 - alpha) + alpha);
    return rate.initial * ((1 + std::cos(std::numbers::pi * steps / period_)) / 2);
  }

 private:
  double period_, warmup_, factor_;
};

}  // namespace

std::unique_ptr<Schedule> make_warmup_cosine_schedule(const Json& options) {
  return std::make_unique<WarmupCosine>(options);
}

}  // namespace lockstep::train
