#include "harness/train/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.StepLR.get_lr, PyTorch 2.11.
class Step : public Schedule {
 public:
  Step(std::int64_t every, double gamma) : every_(every), gamma_(gamma) {}

  double next(double learning_rate, std::int64_t updates) const override {
    return updates % every_ == 0 ? learning_rate * gamma_ : learning_rate;
  }

 private:
  std::int64_t every_;
  double gamma_;
};

}  // namespace

std::unique_ptr<Schedule> make_step_schedule(const Json& options) {
  return std::make_unique<Step>(options.at("every").get<std::int64_t>(), options.at("gamma").get<double>());
}

}  // namespace lockstep::train
