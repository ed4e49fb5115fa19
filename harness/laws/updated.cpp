#include "harness/laws/updated.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/laws/replicas.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

/// States of all optimizers, and the count of updates.
const std::vector<std::string_view>& known_states() {
  static const std::vector<std::string_view> kAll = [] {
    std::vector<std::string_view> all = {"step"};
    for (const std::string_view name : recipe::kNames<recipe::OptimizerKind>) {
      for (const recipe::KeptState& state : recipe::traits_of(recipe::named<recipe::OptimizerKind>(name)).states) {
        if (std::find(all.begin(), all.end(), state.name) == all.end()) all.push_back(state.name);
      }
    }
    return all;
  }();
  return kAll;
}

bool is_skipped(const Held& before, const Held& now) {
  const auto skipped = [](const Held& held) {
    const Record* record = held.find(Channel::kLedger, trace::entry::kSkipped);
    return record == nullptr || record->integers.empty() ? 0 : record->integers[0];
  };
  return skipped(now) > skipped(before);
}

/// Elements of a state, as many as the parameter has.
std::vector<double> elements_of(const Record* record, std::size_t count) {
  if (record == nullptr || (record->elements.size() != 1 && record->elements.size() != count)) return {};
  return record->elements.size() == count ? record->elements : std::vector(count, record->elements[0]);
}

bool are_finite(const Element& element) {
  const auto finite = [](const auto& state) { return std::isfinite(state.second); };
  return std::isfinite(element.gradient) && std::isfinite(element.weight) &&
         std::all_of(element.before.begin(), element.before.end(), finite) &&
         std::all_of(element.after.begin(), element.after.end(), finite);
}

}  // namespace

const Record* Updated::state_before(const std::string& state) const {
  return before.find(Channel::kOptimizer, name + "." + state);
}

const Record* Updated::state(const std::string& state) const {
  return now.find(Channel::kOptimizer, name + "." + state);
}

std::string linear_state(const Hyperparameters& optimizer) {
  const auto average = recipe::average_of(optimizer.kind, optimizer.options);
  return average ? std::string(average->state) : "";
}

Sampled sampled_of(const Updated& of) {
  Sampled sampled;
  if (of.weight_before == nullptr || of.weight == nullptr) return sampled;
  const std::size_t count = of.weight->elements.size();
  const trace::DType dtype = of.weight->dtype;
  if (of.weight_before->elements.size() != count || of.gradient->elements.size() != count) return sampled;
  if ((dtype != trace::DType::kFloat32 && dtype != trace::DType::kFloat64) || of.gradient->dtype != dtype)
    return sampled;
  const double unit = trace::unit_roundoff(dtype);
  sampled.elements.resize(count, Element{.unit = unit});
  sampled.weights = of.weight->elements;
  for (std::size_t i = 0; i < count; ++i) {
    sampled.elements[i].gradient = of.gradient->elements[i];
    sampled.elements[i].weight = of.weight_before->elements[i];
  }
  for (const std::string_view name : known_states()) {
    const std::string state(name);
    const std::vector<double> after = elements_of(of.state(state), count);
    if (after.empty()) continue;
    const std::vector<double> before = elements_of(of.state_before(state), count);
    for (std::size_t i = 0; i < count; ++i) {
      if (!before.empty()) sampled.elements[i].before.set(name, before[i]);
      sampled.elements[i].after.set(name, after[i]);
    }
  }
  for (Element& element : sampled.elements) {
    const double* step = element.after.find("step");
    element.step = step == nullptr ? 0 : *step;
  }
  return std::all_of(sampled.elements.begin(), sampled.elements.end(), are_finite) ? sampled : Sampled{};
}

void for_each_update(const trace::RunTrace& run, Optimizers& optimizers, Outcome& outcome,
                     const std::function<bool(const RecordPlace&, const Updated&)>& visit) {
  for_each_own_state(run, outcome, [&](std::int64_t step, std::int64_t rank) {
    const Held last(run, static_cast<std::size_t>(rank), step - 1), now(run, static_cast<std::size_t>(rank), step);
    if (rank == 0) optimizers.go_to(now);
    if (last.empty()) return true;
    const auto gradients = final_gradients(now);
    if (!std::isfinite(total_norm(gradients)) || is_skipped(last, now)) return true;
    for (const auto& [name, gradient] : gradients) {
      const Hyperparameters* optimizer = optimizers.of(name);
      if (optimizer == nullptr) continue;
      const Updated updated{.optimizer = *optimizer,
                            .rate = number_at(now, Channel::kLedger, optimizer->rate),
                            .gradient = gradient,
                            .weight_before = last.find(Channel::kWeight, name),
                            .weight = now.find(Channel::kWeight, name),
                            .before = last,
                            .now = now,
                            .name = name};
      if (!visit({.step = step, .channel = Channel::kWeight, .tensor = name, .rank = rank}, updated)) return false;
    }
    return true;
  });
}

}  // namespace lockstep::laws
