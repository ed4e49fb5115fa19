#include "harness/train/loop/learning_rates.h"

#include <cmath>
#include <limits>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::train {

LearningRates::LearningRates(const recipe::TrainSpec& spec, std::int64_t world_size)
    : spec_(spec), factor_(recipe::rule_factor(spec, world_size)), schedule_(make_schedule(spec.schedule)) {
  for (const double rate : recipe::base_learning_rates(spec, world_size)) {
    rates_.push_back({.initial = rate, .current = rate});
    rates_.back().current = schedule_->next(rates_.back());
  }
}

std::vector<double> LearningRates::now() const {
  std::vector<double> rates;
  const double warmup = recipe::rule_warmup(spec_, factor_, steps_);
  for (const Rate& rate : rates_) {
    rates.push_back(rate.current * warmup);
    if (std::abs(rate.current) <= static_cast<double>(std::numeric_limits<float>::max())) continue;
    throw InputError({.what = "the learning rate has left the range of float32",
                      .where = "step " + std::to_string(steps_) + " of the schedule",
                      .actual = to_decimal(rate.current),
                      .next = "look at train.optimizer.lr, train.learning_rate_rule and train.schedule"});
  }
  return rates;
}

void LearningRates::advance(std::int64_t steps, double loss) {
  for (; steps > 0; --steps) {
    schedule_->see(loss);
    ++steps_;
    for (Rate& rate : rates_) {
      rate.steps = steps_;
      rate.current = schedule_->next(rate);
    }
  }
}

void LearningRates::require_groups(const State& state) const {
  if (state.rates.size() != rates_.size()) {
    throw InputError(
        {.what = "the checkpoint was saved with another number of parameter groups",
         .where = "train.checkpoint.load",
         .expected = std::to_string(rates_.size()),
         .actual = std::to_string(state.rates.size()),
         .next = "give train.optimizer.groups as they were, or leave 'optimizer' and 'schedule' out of restore"});
  }
}

void LearningRates::restore(const State& state) {
  require_groups(state);
  rates_ = state.rates;
  steps_ = state.steps;
  schedule_->restore(state.schedule);
}

void LearningRates::take_current(const State& state) {
  require_groups(state);
  for (std::size_t group = 0; group < rates_.size(); ++group) rates_[group].current = state.rates[group].current;
}

void LearningRates::go_to(const State& state) {
  if (wants_loss()) {
    throw InputError({.what = "this schedule follows losses: its position needs its state",
                      .where = "train.checkpoint.load.schedule",
                      .expected = "saved",
                      .actual = "own"});
  }
  advance(state.steps, 0);
}

}  // namespace lockstep::train
