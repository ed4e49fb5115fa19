#include <cmath>
#include <numbers>
#include <vector>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// One part of the schedule. *Units*: shares of the group's learning rate.
struct RatePhase {
  double begin = 0, steps = 0;  ///< in steps of the schedule
  double from = 0, to = 0;
  recipe::Curve curve = recipe::Curve::kUnknown;
  double power = 1;

  double after(double count) const {
    const double done = (count - begin) / steps;
    switch (curve) {
      case recipe::Curve::kCosine:
        return to + (from - to) / 2.0 * (1 + std::cos(std::numbers::pi * done));
      case recipe::Curve::kPolynomial:
        return to + (from - to) * std::pow(1 - done, power);
      case recipe::Curve::kSqrt:
        return from + (to - from) * std::sqrt(done);
      case recipe::Curve::kExponential:
        return from * std::pow(to / from, done);
      case recipe::Curve::kLinear:
      case recipe::Curve::kUnknown:
        break;
    }
    return from + (to - from) * done;
  }
};

/// Shares of the rate, as a function that torch's LambdaLR calls would give them.
class RatePhases : public Schedule {
 public:
  explicit RatePhases(const Json& options) {
    double begin = 0, from = 1;
    for (const Json& phase : options.at("phases")) {
      phases_.push_back({.begin = begin,
                         .steps = phase.at("steps").get<double>(),
                         .from = phase.value("from", from),
                         .to = phase.at("to").get<double>(),
                         .curve = recipe::kind_at<recipe::Curve>(phase, "curve"),
                         .power = phase.at("power").get<double>()});
      begin += phases_.back().steps;
      from = phases_.back().to;
    }
  }

  double next(const Rate& rate) const override {
    const auto count = static_cast<double>(rate.steps);
    for (const RatePhase& phase : phases_) {
      if (count < phase.begin + phase.steps) return rate.initial * phase.after(count);
    }
    return rate.initial * phases_.back().to;
  }

 private:
  std::vector<RatePhase> phases_;
};

}  // namespace

std::unique_ptr<Schedule> make_phases_schedule(const Json& options) { return std::make_unique<RatePhases>(options); }

}  // namespace lockstep::train
