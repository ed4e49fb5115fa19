#include "harness/checks/steep_updates.h"

#include <cmath>

#include "harness/laws/law.h"
#include "harness/laws/scales.h"

namespace lockstep::checks {
namespace {

using trace::Channel;
using trace::Record;

/// The parameter that a record belongs to: "fc.weight" for its state "fc.weight.exp_avg".
std::string owner_of(const Record& record) {
  return record.channel == Channel::kOptimizer ? laws::layer_of(record.name) : record.name;
}

bool is_finite(const Record& record) { return std::isfinite(record.number.value_or(record.norm.value_or(NAN))); }

}  // namespace

SteepUpdates::SteepUpdates(const trace::RunTrace& left, const trace::RunTrace& right, const CheckInput& input)
    : left_run_(left), right_run_(right), input_(input) {}

SteepUpdates::Side SteepUpdates::side_of(const trace::RunTrace& run, const CheckInput& input) {
  const scenario::Promises& promises = input.promises_of(run);
  const auto holds = [&](const char* law) { return laws::ask(laws::law_named(law), run, promises).holds(); };
  Side side{.updates_hold = holds("update"), .states_hold = holds("state"), .averages_hold = holds("average")};
  laws::Optimizers optimizers(run, promises);
  laws::Outcome unused;
  laws::for_each_update(run, optimizers, unused, [&](const laws::RecordPlace& place, const laws::Updated& of) {
    // What sketches cannot prove divides by a root.
    if (place.rank == 0 && recipe::traits_of(of.optimizer.kind).form >= recipe::UpdateForm::kElements)
      side.updates[{place.step, of.name}] = {of.optimizer.kind, of.options(), of.rate, of.gradient};
    return true;
  });
  return side;
}

bool SteepUpdates::is_steep(const compare::RoundingBound& bound, const std::string& weight, std::int64_t step) const {
  if (!left_->updates_hold || !right_->updates_hold || !left_->states_hold || !right_->states_hold) return false;
  const auto a = left_->updates.find({step, weight}), b = right_->updates.find({step, weight});
  if (a == left_->updates.end() || b == right_->updates.end()) return false;
  const Update &one = a->second, &other = b->second;
  if (one.kind != other.kind || one.options != other.options || one.rate != other.rate) return false;
  if (trace::same_bits(one.gradient, other.gradient)) return false;
  const auto gradients = bound.judge(*one.gradient, *other.gradient, step, 0);
  return gradients && gradients->explained();
}

bool SteepUpdates::explain(const compare::RoundingBound& bound, const Record& left, const Record& right,
                           std::int64_t step) {
  if (!is_finite(left) || !is_finite(right)) return false;
  if (!left_) {
    left_ = side_of(left_run_, input_);
    right_ = side_of(right_run_, input_);
  }
  if (left.channel != Channel::kWeight) return left_out(left);
  if (!is_steep(bound, left.name, step)) return false;
  explained_.insert(left.name);
  return true;
}

bool SteepUpdates::left_out(const Record& record) const {
  if (!explained_.contains(owner_of(record))) return false;
  const bool is_average = record.channel == Channel::kEma;
  return record.channel == Channel::kWeight || record.channel == Channel::kOptimizer ||
         (is_average && left_->averages_hold && right_->averages_hold);
}

std::string SteepUpdates::says() const {
  if (explained_.empty()) return "";
  return "the updates of " + std::to_string(explained_.size()) + " " + (explained_.size() > 1 ? "weights" : "weight") +
         " (" + *explained_.begin() + (explained_.size() > 1 ? ", …" : "") +
         ") were not compared: they divide by the root of gradients, which makes much of rounding where gradients are "
         "small; the laws state and update hold";
}

}  // namespace lockstep::checks
