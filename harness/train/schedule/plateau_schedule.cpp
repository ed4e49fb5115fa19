#include <algorithm>
#include <bit>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// *Source*: torch.optim.lr_scheduler.ReduceLROnPlateau (mode min, relative threshold), PyTorch 2.11.
class Plateau : public Schedule {
 public:
  explicit Plateau(const Json& options)
      : factor_(options.at("factor").get<double>()),
        patience_(options.at("patience").get<std::int64_t>()),
        threshold_(options.at("threshold").get<double>()),
        cooldown_(options.at("cooldown").get<std::int64_t>()),
        least_(options.at("least").get<double>()) {}

  bool wants_loss() const override { return true; }

  void see(double loss) override {
    if (loss < best_ * (1.0 - threshold_)) {
      best_ = loss;
      bad_steps_ = 0;
    } else {
      ++bad_steps_;
    }
    if (cooling_ > 0) {
      --cooling_;
      bad_steps_ = 0;
    }
    reduces_ = bad_steps_ > patience_;
    if (!reduces_) return;
    cooling_ = cooldown_;
    bad_steps_ = 0;
  }

  double next(const Rate& rate) const override {
    if (rate.steps == 0 || !reduces_) return rate.current;
    const double reduced = std::max(rate.current * factor_, least_);
    return rate.current - reduced > kLeastChange ? reduced : rate.current;
  }

  Json state() const override {
    return {
        {"best_bits", to_hex(std::bit_cast<std::uint64_t>(best_))}, {"bad_steps", bad_steps_}, {"cooling", cooling_}};
  }

  void restore(const Json& state) override {
    if (state.empty())
      throw InputError({.what = "the checkpoint was saved under a schedule that does not follow losses",
                        .where = "train.schedule",
                        .expected = "plateau",
                        .next = "use the schedule that saved, or leave 'schedule' out of restore"});
    best_ = std::bit_cast<double>(from_hex(state.at("best_bits").get<std::string>()).value());
    bad_steps_ = state.at("bad_steps").get<std::int64_t>();
    cooling_ = state.at("cooling").get<std::int64_t>();
  }

 private:
  static constexpr double kLeastChange = 1e-8;

  double factor_;
  std::int64_t patience_;
  double threshold_;
  std::int64_t cooldown_;
  double least_;
  double best_ = std::numeric_limits<double>::infinity();
  std::int64_t bad_steps_ = 0, cooling_ = 0;
  bool reduces_ = false;
};

}  // namespace

std::unique_ptr<Schedule> make_plateau_schedule(const Json& options) { return std::make_unique<Plateau>(options); }

}  // namespace lockstep::train
