#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <string>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/update.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;
using trace::Record;
using trace::Step;

/// Rates that differ by less change weights by too little to be told from the fit.
constexpr double kOtherRate = 10 * laws::kFactorFits;

/// Rates of both sides, by their name in the ledger.
using Pairs = std::map<std::string, std::pair<double, double>>;

bool is_rate(const std::string& name) { return name.find(trace::entry::kLearningRate) != std::string::npos; }

/// A step of both sides.
struct Both {
  const Step* left = nullptr;
  const Step* right = nullptr;

  Both(const Scene& scene, std::int64_t step)
      : left(scene.left.run->ranks[scene.left.rank].find(step)),
        right(scene.right.run->ranks[scene.right.rank].find(step)) {}

  explicit operator bool() const { return left != nullptr && right != nullptr; }
};

/// Whether both hold records of the channel, the same ones. `leaves_out`: names that do not count.
template <typename LeavesOut>
bool same(const Both& at, Channel channel, LeavesOut leaves_out) {
  std::size_t count = 0, theirs = 0;
  const auto counts = [&](const Record& record) { return record.channel == channel && !leaves_out(record.name); };
  for (const Record& record : at.left->records) {
    if (!counts(record)) continue;
    ++count;
    if (!trace::same_bits(&record, at.right->find(channel, record.name))) return false;
  }
  for (const Record& record : at.right->records) theirs += counts(record) ? 1 : 0;
  return count == theirs;
}

bool has(const Step& step, Channel channel) {
  return std::any_of(step.records.begin(), step.records.end(),
                     [&](const Record& record) { return record.channel == channel; });
}

/// Whether the update began with equal weights, and got equal gradients, states and hyperparameters.
bool rates_alone_differ(const Both& before, const Both& at) {
  const auto none = [](const std::string&) { return false; };
  // Schedules change their own entries ("max_lr"); calls are notes.
  const auto is_of_schedule = [](const std::string& name) {
    return is_rate(name) || name.ends_with("lr") || name.starts_with("seen.");
  };
  return has(*at.left, Channel::kGradient) && has(*before.left, Channel::kWeight) &&
         same(before, Channel::kWeight, none) && same(at, Channel::kGradient, none) &&
         same(at, Channel::kOptimizer, none) && same(at, Channel::kLedger, is_of_schedule);
}

Pairs rates_of(const Both& at) {
  Pairs rates;
  for (const Record& record : at.left->records) {
    const Record* theirs = at.right->find(record.channel, record.name);
    if (record.channel == Channel::kLedger && is_rate(record.name) && record.number && theirs && theirs->number)
      rates[record.name] = {*record.number, *theirs->number};
  }
  return rates;
}

/// The rate that a parameter is updated with, as the header tells; empty where no optimizer holds it, or several do.
std::string rate_of(const trace::RunTrace& run, const Pairs& rates, const std::string& parameter) {
  if (rates.size() == 1) return rates.begin()->first;
  const Json optimizers = seen_of(run, "optimizer");
  std::string found;
  for (std::size_t i = 0; optimizers.is_array() && i < optimizers.size(); ++i) {
    const Json groups = optimizers[i].is_object() ? optimizers[i].value("groups", Json()) : Json();
    for (std::size_t group = 0; groups.is_array() && group < groups.size(); ++group) {
      const Json parameters = groups[group].is_object() ? groups[group].value("parameters", Json()) : Json();
      if (!parameters.is_array() ||
          std::find(parameters.begin(), parameters.end(), Json(parameter)) == parameters.end())
        continue;
      if (!found.empty()) return "";
      found = (optimizers.size() > 1 ? "optimizer" + std::to_string(i) + "." : "") + "learning_rate" +
              (group > 0 ? "." + std::to_string(group) : "");
    }
  }
  return found;
}

/// Whether a weight's change is so many times as large on the right.
bool changes_by(double factor, const Record& before, const Record& left, const Record& right) {
  if (!before.sketch || !left.sketch || !right.sketch) return false;
  const auto scale = trace::scale_between(trace::difference(*left.sketch, *before.sketch),
                                          trace::difference(*right.sketch, *before.sketch));
  return scale && std::fabs(scale->factor / factor - 1) < laws::kFactorFits && scale->residual < laws::kFactorFits;
}

}  // namespace

std::vector<Suspect> suspects_in_rates_alone(const Scene& scene) {
  if (!is_between_programs(scene) || scene.at.channel != Channel::kWeight ||
      scene.left.run->world_size() != scene.right.run->world_size())
    return {};
  const Both before(scene, scene.at.step - 1), at(scene, scene.at.step);
  if (!before || !at || !rates_alone_differ(before, at)) return {};
  const Pairs rates = rates_of(at);
  bool any_differs = false;
  for (const Record& left : at.left->records) {
    if (left.channel != Channel::kWeight) continue;
    const Record* right = at.right->find(Channel::kWeight, left.name);
    if (right == nullptr) return {};
    if (trace::same_bits(&left, right)) continue;
    any_differs = true;
    const auto rate = rates.find(rate_of(*scene.right.run, rates, left.name));
    if (rate == rates.end()) return {};
    const auto [theirs, its] = rate->second;
    const double factor = its / theirs;
    if (!std::isfinite(factor) || factor == 0 || std::fabs(factor - 1) < kOtherRate) return {};
    if (!changes_by(factor, *before.left->find(Channel::kWeight, left.name), left, *right)) return {};
  }
  std::vector<std::string> evidence;
  for (const auto& [name, pair] : rates) {
    if (pair.first != pair.second)
      evidence.push_back("step " + std::to_string(scene.at.step) + ", " + scene.right.run->run + ": " + name + " is " +
                         to_decimal(pair.second) + ", of " + scene.left.run->run + " " + to_decimal(pair.first));
  }
  if (!any_differs || evidence.empty()) return {};
  evidence.push_back(
      "weights before, gradients and optimizer states are equal; each change of a weight differs by the "
      "factor between the rates");
  return {{"lr.differs", evidence}};
}

}  // namespace lockstep::diagnosis
