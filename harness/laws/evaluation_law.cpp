#include <algorithm>
#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/promise.h"

/// Which samples each rank evaluates, and how their counts become metrics.
namespace lockstep::laws {
namespace {

using trace::Channel;
using Ids = std::vector<std::int64_t>;

/// Names of what the worker notes in its ledger, without the last word.
const std::string kOwn = "seen.evaluated ", kRest = "seen.evaluated_rest ";

/// What one rank evaluates.
struct Share {
  Ids own;   ///< sample ids, padding too; its sums are reduced
  Ids rest;  ///< evaluated on every rank, and added without reduction
};

/// *Source*: torch.utils.data.DistributedSampler without shuffling, PyTorch 2.11; accelerate's gather_for_metrics;
/// pytorch/examples imagenet.
Share share_of(const recipe::EvaluationSpec& spec, std::int64_t first, std::int64_t rank, std::int64_t world) {
  Share share;
  if (spec.shares == recipe::Shares::kAll) {
    for (std::int64_t i = 0; i < spec.samples; ++i) share.own.push_back(first + i);
    return share;
  }
  const std::int64_t rounds =
      spec.shares == recipe::Shares::kLeftovers ? spec.samples / world : (spec.samples + world - 1) / world;
  for (std::int64_t round = 0; round < rounds; ++round) {
    share.own.push_back(first + (round * world + rank) % spec.samples);
  }
  for (std::int64_t i = rounds * world; i < spec.samples; ++i) share.rest.push_back(first + i);
  return share;
}

/// Sums that a rank adds to the metrics; nothing where they are not recorded.
struct Sums {
  double loss = 0;
  double correct = 0;
  double targets = 0;
};

std::optional<double> count_at(const Held& held, const std::string& name) {
  const trace::Record* record = held.find(Channel::kLedger, name);
  if (record == nullptr || record->integers.size() != 1) return std::nullopt;
  return static_cast<double>(record->integers[0]);
}

std::optional<Sums> sums_at(const Held& held, const std::string& whose) {
  const auto correct = count_at(held, whose + "correct"), targets = count_at(held, whose + "targets");
  if (!correct || !targets || held.find(Channel::kLedger, whose + "loss") == nullptr) return std::nullopt;
  return Sums{.loss = number_at(held, Channel::kLedger, whose + "loss"), .correct = *correct, .targets = *targets};
}

class Evaluations {
 public:
  Evaluations(const trace::RunTrace& run, const scenario::Promises& promises)
      : run_(run), spec_(*promises.train.evaluation), world_(promises.world_size), first_(samples_of(run, promises)) {}

  /// Whether any rank notes what it evaluates.
  bool are_noted() const {
    return std::any_of(run_.ranks.begin(), run_.ranks.end(), [](const trace::Trace& rank) {
      return std::any_of(rank.steps.begin(), rank.steps.end(),
                         [](const trace::Step& step) { return step.find(Channel::kLedger, kOwn + "ids") != nullptr; });
    });
  }

  Outcome judge() {
    for (const trace::Step& step : run_.ranks[0].steps) {
      if (outcome_.broken) break;
      if (step.step < 0 || (step.step + 1) % spec_.every != 0) continue;
      std::vector<Held> ranks;
      for (std::size_t rank = 0; rank < run_.ranks.size(); ++rank) ranks.emplace_back(run_, rank, step.step);
      for (std::size_t rank = 0; rank < ranks.size() && !outcome_.broken; ++rank) {
        if (ranks[rank].all(Channel::kMetric).empty()) continue;
        const auto which = static_cast<std::int64_t>(rank);
        if (judge_ids(step.step, which, ranks[rank])) judge_metrics(step.step, which, ranks);
      }
    }
    return std::move(outcome_);
  }

 private:
  bool fail(std::int64_t step, std::int64_t rank, const std::string& name, std::string expected, std::string actual) {
    const Channel channel = name.starts_with("seen.") ? Channel::kLedger : Channel::kMetric;
    outcome_.broken =
        Breach{.at = {step, channel, name, rank}, .expected = std::move(expected), .actual = std::move(actual)};
    return false;
  }

  bool judge_ids(std::int64_t step, std::int64_t rank, const Held& now) {
    const Share share = share_of(spec_, first_, rank, world_);
    return judge_ids(step, rank, now, kOwn + "ids", share.own) && judge_ids(step, rank, now, kRest + "ids", share.rest);
  }

  bool judge_ids(std::int64_t step, std::int64_t rank, const Held& now, const std::string& name, const Ids& expected) {
    const trace::Record* record = now.find(Channel::kLedger, name);
    const Ids taken = record == nullptr ? Ids() : record->integers;
    ++outcome_.judged;
    if (taken == expected) return true;
    const auto both = static_cast<std::ptrdiff_t>(std::min(taken.size(), expected.size()));
    const auto at = static_cast<std::size_t>(
        std::mismatch(taken.begin(), taken.begin() + both, expected.begin()).first - taken.begin());
    const auto said = [at](const Ids& ids) {
      return at < ids.size() ? "sample " + std::to_string(ids[at]) : "no sample";
    };
    return fail(step, rank, name, said(expected) + " at place " + std::to_string(at) + " of the evaluation",
                said(taken));
  }

  /// Whether a rank's metrics are those of its own samples alone.
  bool is_of_one_rank() const {
    return spec_.shares == recipe::Shares::kAll || spec_.reduce == recipe::EvaluationReduce::kNone;
  }

  bool judge_metrics(std::int64_t step, std::int64_t rank, const std::vector<Held>& ranks) {
    if (spec_.reduce == recipe::EvaluationReduce::kRoot && spec_.shares != recipe::Shares::kAll && rank != 0)
      return true;  // what they hold is no metric
    const Held& now = ranks[static_cast<std::size_t>(rank)];
    std::vector<Sums> all;
    for (std::size_t other = 0; other < ranks.size(); ++other) {
      if (is_of_one_rank() && static_cast<std::int64_t>(other) != rank) continue;
      const auto sums = sums_at(ranks[other], kOwn);
      if (!sums)
        return fail(step, static_cast<std::int64_t>(other), kOwn + "targets", "what the rank adds to the metrics",
                    "a part of it, or nothing");
      all.push_back(*sums);
    }
    if (const auto rest = sums_at(now, kRest); rest && spec_.average == recipe::EvaluationAverage::kSamples)
      all.push_back(*rest);
    return judge_mean(step, rank, now, "loss", all, &Sums::loss) &&
           judge_mean(step, rank, now, "accuracy", all, &Sums::correct);
  }

  /// A mean over samples is summed in float64, one over ranks in float32.
  bool judge_mean(std::int64_t step, std::int64_t rank, const Held& now, const std::string& name,
                  const std::vector<Sums>& all, double Sums::*part) {
    double sum = 0, magnitude = 0, targets = 0;
    for (const Sums& one : all) {
      const double own = spec_.average == recipe::EvaluationAverage::kRanks ? one.*part / one.targets : one.*part;
      sum += own;
      magnitude += std::fabs(own);
      targets += one.targets;
    }
    const double divisor =
        spec_.average == recipe::EvaluationAverage::kRanks ? static_cast<double>(all.size()) : targets;
    const auto dtype =
        spec_.average == recipe::EvaluationAverage::kRanks ? trace::DType::kFloat32 : trace::DType::kFloat64;
    const double bound = (static_cast<double>(all.size()) + 2) * 2 * trace::unit_roundoff(dtype) * magnitude / divisor;
    const double actual = number_at(now, Channel::kMetric, name);
    if (!std::isfinite(sum)) return true;  // the law `finite` judges that
    ++outcome_.judged;
    if (std::fabs(actual - sum / divisor) <= bound) return true;
    return fail(step, rank, name,
                to_decimal(sum / divisor) + ", the mean over " +
                    (spec_.average == recipe::EvaluationAverage::kRanks ? to_decimal(divisor) + " ranks"
                                                                        : to_decimal(targets) + " targets"),
                to_decimal(actual));
  }

  const trace::RunTrace& run_;
  const recipe::EvaluationSpec& spec_;
  std::int64_t world_;
  std::int64_t first_;  ///< of the held-out samples: they follow those of the training
  Outcome outcome_;
};

}  // namespace

std::string no_evaluation_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  if (promises.known) return "the recipe of a program does not say what it evaluates";
  return promises.train.evaluation ? "" : "the recipe evaluates nothing";
}

Outcome judge_evaluation(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (samples_of(run, promises) < 1) return cannot_tell("the run does not record the number of samples");
  Evaluations evaluations(run, promises);
  return evaluations.are_noted() ? evaluations.judge() : cannot_tell("the run does not record what its ranks evaluate");
}

}  // namespace lockstep::laws
