#include <cmath>
#include <numbers>
#include <string>
#include <vector>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// One part of the schedule. *Units*: shares of the group's learning rate.
struct RatePhase {
  double begin = 0, steps = 0;  ///< in steps of the schedule
  double from = 0, to = 0;
  std::string curve;
  double power = 1;

  double after(double count) const {
    const double done = (count - begin) / steps;
    if (curve == "cosine") return to + (from - to) / 2.0 * (1 + std::cos(std::numbers::pi * done));
    if (curve == "polynomial") return to + (from - to) * std::pow(1 - done, power);
    if (curve == "sqrt") return from + (to - from) * std::sqrt(done);
    if (curve == "exponential") return from * std::pow(to / from, done);
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
                         .curve = phase.at("curve").get<std::string>(),
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
