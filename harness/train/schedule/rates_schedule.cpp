#include <algorithm>
#include <vector>

#include "harness/train/schedule/schedule.h"

namespace lockstep::train {
namespace {

/// A list of learning rates; the last one stays.
class ListedRates : public Schedule {
 public:
  explicit ListedRates(const Json& options) : rates_(options.at("rates").get<std::vector<double>>()) {}

  double next(const Rate& rate) const override {
    return rates_[std::min(static_cast<std::size_t>(rate.steps), rates_.size() - 1)];
  }

 private:
  std::vector<double> rates_;
};

}  // namespace

std::unique_ptr<Schedule> make_rates_schedule(const Json& options) { return std::make_unique<ListedRates>(options); }

}  // namespace lockstep::train
