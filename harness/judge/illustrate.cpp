#include "harness/judge/illustrate.h"

#include <algorithm>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/compare/rounding.h"
#include "harness/compare/scope.h"
#include "harness/golden/golden_check.h"
#include "harness/judge/holdings.h"
#include "harness/laws/finite.h"
#include "harness/laws/scales.h"

namespace lockstep::judge {
namespace {

using scenario::Sides;
using scenario::Wanted;
using trace::Channel;
using trace::Record;
using trace::RunTrace;

/// Columns of a map. Steps of longer runs share some.
constexpr std::size_t kMostColumns = 96;

/// Curves of a scenario's runs, in their order. Runs with the same points share one.
std::vector<Curve> curves_of(const plan::Plan& plan, const std::vector<Evidence>& evidence,
                             const std::string& scenario) {
  std::vector<Curve> curves;
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    if (plan.runs[i].scenario != scenario || !evidence[i].trace) continue;
    Curve curve{.runs = {evidence[i].trace->run}, .points = golden::points_of(*evidence[i].trace)};
    const auto same =
        std::find_if(curves.begin(), curves.end(), [&](const Curve& other) { return other.points == curve.points; });
    if (same == curves.end()) {
      curves.push_back(std::move(curve));
    } else {
      same->runs.push_back(curve.runs[0]);
    }
  }
  return curves;
}

/// How two records relate, by the bound that the check itself uses.
Cell cell_of(const compare::Looked& looked, const compare::RoundingBound& bound) {
  Cell cell{.relates = Relates::kMissing, .rank = looked.at.rank, .distance = {}, .bound = {}};
  if (looked.same) {
    cell.relates = *looked.same ? Relates::kEqual : Relates::kBeyond;
    return cell;
  }
  if (looked.left == nullptr || looked.right == nullptr) return cell;
  const Record &left = *looked.left, &right = *looked.right;
  if (trace::same_bits(&left, &right)) {
    cell.relates = laws::is_finite(left) ? Relates::kEqual : Relates::kHidden;
    return cell;
  }
  if (const auto rounding = bound.judge(left, right, looked.at.step, looked.at.rank)) {
    cell.distance = rounding->distance;
    cell.bound = rounding->bound;
    cell.relates = rounding->explained() ? Relates::kRounding : Relates::kBeyond;
  } else if (laws::differ_harmlessly(left, right)) {
    cell.relates = Relates::kRounding;
  } else {
    const bool could_round = trace::is_floating(left.dtype) && trace::info(left.channel).can_round();
    cell.relates = could_round && left.dtype == right.dtype ? Relates::kUnmeasured : Relates::kBeyond;
  }
  return cell;
}

double share_of_bound(const Cell& cell) {
  return cell.distance && cell.bound && *cell.bound > 0 ? *cell.distance / *cell.bound : 0;
}

bool is_worse(const Cell& one, const Cell& other) {
  return std::pair(one.relates, share_of_bound(one)) > std::pair(other.relates, share_of_bound(other));
}

/// Draws a map of what a comparison looks at.
class MapOf {
 public:
  MapOf(const RunTrace& left, const RunTrace& right, std::int64_t first_step)
      : bound_(left, right), map_{.left = left.run, .right = right.run} {
    std::set<std::int64_t> steps;
    for (const RunTrace* run : {&left, &right}) {
      for (const trace::Step& step : run->ranks[0].steps) {
        if (step.step >= first_step) steps.insert(step.step);
      }
    }
    const std::size_t most = std::min(steps.size(), kMostColumns);
    std::size_t i = 0;
    for (const std::int64_t step : steps) {
      const std::size_t column = i++ * most / steps.size();
      column_[step] = column;
      if (column == map_.columns.size()) map_.columns.push_back({step, step});
      map_.columns[column].last = step;
    }
  }

  compare::Watch watch() {
    return [this](const compare::Looked& looked) { take(looked); };
  }

  /// The map, with the check's own finding in it.
  Map finished(const checks::CheckResult& result, bool rounding_is_allowed) {
    std::stable_sort(map_.rows.begin(), map_.rows.end(),
                     [](const Row& a, const Row& b) { return a.channel < b.channel; });
    if (result.divergence) mark(*result.divergence, result.is_no_rounding || rounding_is_allowed);
    return std::move(map_);
  }

 private:
  void take(const compare::Looked& looked) {
    const auto column = column_.find(looked.at.step);
    if (column == column_.end()) return;
    const auto [found, is_new] = row_.try_emplace({looked.at.channel, looked.at.tensor}, map_.rows.size());
    if (is_new) map_.rows.push_back({looked.at.channel, looked.at.tensor, std::vector<Cell>(map_.columns.size())});
    auto& of_rank = map_.ranks[looked.at.rank];
    of_rank.resize(map_.columns.size());
    const Cell seen = cell_of(looked, bound_);
    for (Cell* cell : {&map_.rows[found->second].cells[column->second], &of_rank[column->second]}) {
      if (is_worse(seen, *cell)) *cell = seen;
    }
  }

  /// A check may know more than the bound: from float64, or from the ranks' own gradients.
  void mark(const compare::Divergence& at, bool is_beyond) {
    const auto column = column_.find(at.step);
    const auto row = std::find_if(map_.rows.begin(), map_.rows.end(), [&](const Row& one) {
      return one.channel == at.channel && (one.tensor == at.tensor || at.tensor.empty());
    });
    if (!at.phase.empty() || column == column_.end() || row == map_.rows.end()) return;
    map_.first = {static_cast<std::size_t>(row - map_.rows.begin()), column->second};
    Cell& cell = row->cells[column->second];
    if (is_beyond && cell.relates < Relates::kBeyond) cell.relates = Relates::kBeyond;
  }

  compare::RoundingBound bound_;
  Map map_;
  std::map<std::int64_t, std::size_t> column_;
  std::map<std::pair<Channel, std::string>, std::size_t> row_;
};

/// Two sides of a check.
using Pair = std::pair<const RunTrace*, const RunTrace*>;

/// All pairs of runs that a check compares.
std::vector<Pair> pairs_of(const checks::CheckInput& input) {
  const scenario::CheckSpec& spec = input.spec;
  const auto& first = input.of(spec.variants.at(0));
  std::vector<Pair> pairs;
  switch (spec.traits().sides) {
    case Sides::kVariants:
      for (std::size_t i = 1; i < spec.variants.size(); ++i) {
        const auto& others = input.of(spec.variants[i]);
        for (std::size_t k = 0; k < std::max(first.size(), others.size()); ++k)
          pairs.emplace_back(first[std::min(k, first.size() - 1)], others[std::min(k, others.size() - 1)]);
      }
      break;
    case Sides::kResumption:
      for (std::size_t k = 0; k < input.of(spec.interrupted).size(); ++k)
        pairs.emplace_back(input.of(spec.straight)[std::min(k, input.of(spec.straight).size() - 1)],
                           input.of(spec.interrupted)[k]);
      break;
    case Sides::kRepeats:
      for (const std::string& variant : spec.variants) {
        for (std::size_t i = 1; i < input.of(variant).size(); ++i)
          pairs.emplace_back(input.of(variant)[0], input.of(variant)[i]);
      }
      break;
    case Sides::kRanks:
      for (const std::string& variant : spec.variants) {
        for (const RunTrace* run : input.of(variant)) {
          if (run->world_size() > 1) pairs.emplace_back(run, run);
        }
      }
      break;
    case Sides::kGolden:
    case Sides::kLaw:
      break;
  }
  return pairs;
}

/// The pair in which a check found its difference, else the first.
const Pair& pair_to_draw(const std::vector<Pair>& pairs, const checks::CheckResult& result) {
  if (!result.divergence) return pairs[0];
  const auto found = std::find_if(pairs.begin(), pairs.end(), [&](const Pair& pair) {
    return pair.first->run == result.divergence->left.run && pair.second->run == result.divergence->right.run;
  });
  return found == pairs.end() ? pairs[0] : *found;
}

Map map_of(const checks::CheckInput& input, const Pair& pair, const checks::CheckResult& result) {
  const scenario::CheckSpec& spec = input.spec;
  const auto& [left, right] = pair;
  if (spec.traits().sides == Sides::kRanks) {
    MapOf map(*left, *right, trace::kInitialStep);
    checks::compare_ranks(*left, input.promises_of(*left), spec.channels, compare::kNoStep, map.watch());
    return map.finished(result, false);
  }
  const bool resumes = spec.traits().sides == Sides::kResumption;
  const bool rounds =
      spec.traits().wanted == Wanted::kUpToRounding || checks::resumes_at_another_world_size(input.scenario, spec);
  std::vector<Channel> channels = checks::channels_of(input, *left, *right);
  if (rounds) channels = checks::rounding_channels(spec, std::move(channels), *left, *right);
  if (resumes && spec.channels.empty()) std::erase(channels, Channel::kCollective);
  compare::Scope scope = resumes ? checks::after_loading(input.scenario, spec, *right) : compare::Scope();
  MapOf map(*left, *right, scope.first_step);
  scope.watch = map.watch();
  compare::compare_runs(*left, *right, channels, compare::bitwise, scope);
  return map.finished(result, rounds && result.status == checks::CheckResult::Status::kDivergence);
}

/// Map of the run in which a check found a difference from its golden.
std::optional<Map> map_of_golden(const checks::CheckInput& input, const checks::CheckResult& result) {
  for (const std::string& variant : input.spec.variants) {
    for (const RunTrace* run : input.of(variant)) {
      if (!result.divergence || result.divergence->right.run != run->run) continue;
      const auto golden = golden::golden_of(input, variant);
      if (!golden) return std::nullopt;
      MapOf map(*golden, *run, trace::kInitialStep);
      compare::compare_runs(*golden, *run, checks::channels_of(input, *run), compare::bitwise, {.watch = map.watch()});
      return map.finished(result, false);
    }
  }
  return std::nullopt;
}

/// Whether a check compares records, and there is more to see than that all are equal.
bool is_worth_a_map(const CheckReport& report, const scenario::CheckTraits& traits) {
  const bool compares = traits.looks_at == scenario::LooksAt::kRecords && traits.wanted != Wanted::kDifferent;
  const bool may_differ = traits.wanted == Wanted::kUpToRounding || traits.sides == Sides::kResumption;
  return compares && (report.status != Status::kAgree || report.result.divergence || may_differ);
}

std::optional<Map> map_of(const CheckReport& report, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                          const plan::Check& check, const std::filesystem::path& golden_root) {
  if (!is_worth_a_map(report, check.spec.traits())) return std::nullopt;
  const Holdings holdings = holdings_of(plan, evidence, check);
  if (!holdings.missing.empty() || !unplaced(holdings).empty()) return std::nullopt;
  const checks::CheckInput input = holdings.input(plan.scenario(check.scenario), check.spec, golden_root);
  if (check.spec.traits().sides == Sides::kGolden) return map_of_golden(input, report.result);
  const std::vector<Pair> pairs = pairs_of(input);
  if (pairs.empty()) return std::nullopt;
  const Pair& pair = pair_to_draw(pairs, report.result);
  for (const RunTrace* run : {pair.first, pair.second}) {
    if (run->ranks[0].steps.empty()) return std::nullopt;
  }
  return map_of(input, pair, report.result);
}

}  // namespace

std::string_view name_of(Relates relates) {
  switch (relates) {
    case Relates::kNotCompared:
      return "not compared";
    case Relates::kEqual:
      return "equal";
    case Relates::kHidden:
      return "hidden by NaN";
    case Relates::kRounding:
      return "rounding";
    case Relates::kUnmeasured:
      return "differs";
    case Relates::kBeyond:
      return "beyond rounding";
    case Relates::kMissing:
      return "missing";
  }
  return "not compared";
}

void draw_curves(Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence) {
  LOCKSTEP_CHECK(evidence.size() == plan.runs.size());
  for (const scenario::Scenario& scenario : plan.scenarios)
    verdict.pictures.push_back({.scenario = scenario.name, .curves = curves_of(plan, evidence, scenario.name)});
}

void draw_maps(Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence,
               const std::filesystem::path& golden_root) {
  LOCKSTEP_CHECK(verdict.checks.size() == plan.checks.size() && evidence.size() == plan.runs.size());
  for (Pictures& pictures : verdict.pictures) {
    for (std::size_t i = 0; i < plan.checks.size(); ++i) {
      if (plan.checks[i].scenario != pictures.scenario) continue;
      if (auto map = map_of(verdict.checks[i], plan, evidence, plan.checks[i], golden_root))
        pictures.maps.emplace(plan.checks[i].index, std::move(*map));
    }
  }
}

}  // namespace lockstep::judge
