#include <cmath>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: transformers.optimization.get_inverse_sqrt_schedule with its default time scale, under LambdaLR.
class InverseSqrt : public Schedule {
 public:
  explicit InverseSqrt(const Json& options) : warmup_(options.at("warmup").get<std::int64_t>()) {}

  double next(const Rate& rate) const override {
    const auto steps = static_cast<double>(rate.steps), warmup = static_cast<double>(warmup_);
    return rate.initial * (rate.steps < warmup_ ? steps / warmup : 1.0 / std::sqrt(steps / warmup));
  }

 private:
  std::int64_t warmup_;
};

}  // namespace

std::unique_ptr<Schedule> make_inverse_sqrt_schedule(const Json& options) {
  return std::make_unique<InverseSqrt>(options);
}

}  // namespace lockstep::train
