#include "harness/laws/own_gradients.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>

#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {

using trace::Channel;

std::optional<double> loss_scale_of(const Held& held) {
  const double scale = number_at(held, Channel::kLedger, trace::entry::kLossScale);
  return std::isfinite(scale) && scale > 0 ? std::optional(scale) : std::nullopt;
}

OwnGradients::OwnGradients(const trace::RunTrace& run, std::int64_t step) {
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    held_.emplace_back(run, rank, step);
    if (trace::batch_shares_of(run) == 1 && held_.back().all(Channel::kGradientLocal).empty())
      channel_ = Channel::kGradient;
    const auto own = records(rank);
    const bool any = std::any_of(own.begin(), own.end(), [](const auto* record) { return record->sketch.has_value(); });
    complete_ = complete_ && any;
  }
  complete_ = complete_ && !held_.empty();
  if (complete_) scale_ = loss_scale_of(held_[0]).value_or(1);
}

std::vector<const trace::Record*> OwnGradients::records(std::size_t rank) const {
  auto records = held_[rank].all(channel_);
  std::erase_if(records, [](const trace::Record* record) { return !is_plain(*record); });
  return records;
}

Made OwnGradients::weighted(const std::vector<double>& weights) const {
  Made sum;
  for (std::size_t rank = 0; rank < held_.size(); ++rank) {
    for (const trace::Record* record : records(rank)) {
      if (!record->sketch) continue;
      trace::Sketch& total = sum[record->name];
      total = sum_of({{1, &total}, {weights[rank] / scale_, &*record->sketch}});
    }
  }
  return sum;
}

Made OwnGradients::mean() const {
  return weighted(std::vector<double>(held_.size(), 1 / static_cast<double>(held_.size())));
}

Made OwnGradients::of(std::size_t rank) const {
  std::vector<double> weights(held_.size());
  weights[rank] = 1;
  return weighted(weights);
}

Made made_of(const std::vector<const trace::Record*>& records) {
  Made made;
  for (const trace::Record* record : records) {
    if (record->sketch) made.emplace(record->name, *record->sketch);
  }
  return made;
}

std::optional<Combination> fit(const Made& target, const std::vector<const Made*>& terms) {
  std::vector<Equation> equations;
  for (const auto& [name, sketch] : target) {
    Equation equation{.target = &sketch, .terms = {}};
    for (const Made* term : terms) {
      const auto found = term->find(name);
      equation.terms.push_back(found == term->end() ? nullptr : &found->second);
    }
    equations.push_back(std::move(equation));
  }
  return recover(equations);
}

double apart(const Made& a, const Made& b) {
  double distance = 0, size = 0;
  std::set<std::string> names;
  for (const Made* made : {&a, &b}) {
    for (const auto& [name, sketch] : *made) names.insert(name);
  }
  for (const std::string& name : names) {
    const auto of_a = a.find(name), of_b = b.find(name);
    const trace::Sketch difference =
        sum_of({{1, of_a == a.end() ? nullptr : &of_a->second}, {-1, of_b == b.end() ? nullptr : &of_b->second}});
    distance += difference.norm * difference.norm;
    if (of_b != b.end()) size += of_b->second.norm * of_b->second.norm;
  }
  return size > 0 ? std::sqrt(distance / size) : std::numeric_limits<double>::quiet_NaN();
}

}  // namespace lockstep::laws
