#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.StepLR.get_lr, PyTorch 2.11.
class Step : public Schedule {
 public:
  explicit Step(const Json& options)
      : every_(options.at("every").get<std::int64_t>()), gamma_(options.at("gamma").get<double>()) {}

  double next(const Rate& rate) const override {
    return rate.steps > 0 && rate.steps % every_ == 0 ? rate.current * gamma_ : rate.current;
  }

 private:
  std::int64_t every_;
  double gamma_;
};

}  // namespace

std::unique_ptr<Schedule> make_step_schedule(const Json& options) { return std::make_unique<Step>(options); }

}  // namespace lockstep::train
