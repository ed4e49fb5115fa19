#include "harness/audit/quantities.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <numeric>
#include <optional>
#include <utility>

#include "harness/audit/measured.h"
#include "harness/audit/recipe.h"
#include "harness/base/text.h"
#include "harness/laws/promise.h"
#include "harness/laws/rate_curve.h"
#include "harness/laws/seen_facts.h"
#include "harness/recipe/optimizer_rule.h"

namespace lockstep::audit {
namespace {

using recipe::TrainSpec;
using scenario::Variant;

constexpr const char* kNoValue = "-";

/// A number of samples or updates.
std::string count(double value) { return rounded(value, 6); }

/// The recipe at one number of ranks, with what an audit asks of it.
class At {
 public:
  explicit At(const Seen& seen) : seen_(seen) {}

  bool is_training() const { return seen_.variant != nullptr; }
  const Variant& variant() const { return *seen_.variant; }
  const TrainSpec& train() const { return variant().train; }
  std::int64_t ranks() const { return seen_.world_size; }
  double ranks_as_number() const { return static_cast<double>(ranks()); }
  const trace::RunTrace* run() const { return seen_.run; }

  /// Samples in an update over all ranks: as recorded, else as promised.
  std::optional<double> batch() const {
    if (run() != nullptr) {
      if (const auto samples = samples_in_update(*run())) return samples;
    }
    if (variant().knows("batch")) return static_cast<double>(train().batch.global_size(ranks()));
    return std::nullopt;
  }

  std::optional<laws::Promise> promise() const {
    if (run() == nullptr || !variant().knows("sampler")) return std::nullopt;
    const std::int64_t samples = laws::samples_of(*run(), variant());
    if (samples < 1) return std::nullopt;
    auto promise = laws::promise_of(variant(), samples);
    return promise && promise->usable() ? promise : std::nullopt;
  }

  /// Updates in an epoch.
  std::optional<double> updates() const {
    const auto of = promise();
    const auto size = batch();
    if (!of || !size) return std::nullopt;
    const double share = *size / ranks_as_number();
    const double most = static_cast<double>(*std::max_element(of->each.begin(), of->each.end()));
    const bool whole_only = train().batch.drop_last;
    return whole_only ? std::floor(most / share) : std::ceil(most / share);
  }

  /// Recorded learning rates of the first group.
  laws::Rates rates() const {
    return run() == nullptr ? laws::Rates() : laws::rates_of(run()->ranks[0], "learning_rate");
  }

  std::optional<double> largest_rate() const { return run() == nullptr ? std::nullopt : audit::largest_rate(*run()); }

  /// Whether the last recorded rate is the largest, and larger than the one before: where it ends is not seen.
  bool still_warms_up() const {
    const laws::Rates all = rates();
    if (variant().knows("optimizer") || all.size() < 2) return false;
    return std::prev(all.end())->second > std::prev(all.end(), 2)->second &&
           std::prev(all.end())->second == *largest_rate();
  }

  /// Kind of the optimizer: the promised one, else the first that the recorder saw.
  recipe::OptimizerKind optimizer() const {
    if (variant().knows("optimizer") || run() == nullptr) return train().optimizer.kind;
    const Json seen = laws::seen_of(*run(), "optimizer");
    const bool is_there = seen.is_array() && !seen.empty() && seen[0].is_object();
    return recipe::named<recipe::OptimizerKind>(is_there ? seen[0].value("kind", "") : "");
  }

  /// The largest one, or that at the end of a warm-up which is longer than the run.
  std::optional<double> full_rate() const {
    const auto largest = largest_rate();
    const bool warms_up = laws::warmup_of(variant()) >= static_cast<std::int64_t>(rates().size());
    if (!largest || !warms_up || !variant().knows("optimizer")) return largest;
    return std::max(*largest, recipe::base_learning_rates(train(), ranks()).front());
  }

 private:
  const Seen& seen_;
};

/// Verdict on the values of one quantity.
struct Judged {
  Answer answer = Answer::kSame;
  std::string because, instead;
};

/// One quantity of a recipe.
struct Quantity {
  const char* id;
  const char* name;
  /// Its value at one number of ranks; nothing: unknown.
  std::function<std::optional<std::string>(const At&)> value;
  /// Called where values differ.
  std::function<Judged(const At& first, const At& last)> if_changes;
  /// Whether this recipe has it.
  std::function<bool(const At&)> applies = [](const At&) { return true; };
  /// Where it is another one although its values are alike, in words; empty: nowhere.
  std::function<std::string(const At& first, const At& other)> parts = [](const At&, const At&) { return ""; };
};

Judged changes(std::string because, std::string instead) {
  return {Answer::kChanges, std::move(because), std::move(instead)};
}

Judged slip(std::string because, std::string instead) {
  return {Answer::kSlip, std::move(because), std::move(instead)};
}

std::string times(double factor) { return rounded(factor, 4) + " x"; }

Judged judge_batch(const At& first, const At& last) {
  const double factor = *last.batch() / *first.batch();
  const double kept = *first.batch() / last.ranks_as_number();
  return changes("the batch is given for each rank or node, so an update takes " + times(factor) + " as many samples",
                 "divide it: " + rounded(kept, 6) + " samples a rank at " + std::to_string(last.ranks()) + " ranks");
}

std::optional<std::string> rate_text(const At& at) {
  const laws::Rates rates = at.rates();
  if (rates.empty()) return std::nullopt;
  const double first = rates.begin()->second, largest = *at.largest_rate();
  return first == largest ? rounded(largest, 4) : rounded(first, 4) + ".." + rounded(largest, 4);
}

/// The first update whose rate is another one, of those that both have.
std::string rates_part(const At& first, const At& other) {
  const laws::Rates ours = first.rates(), theirs = other.rates();
  for (const auto& [step, rate] : ours) {
    const auto found = theirs.find(step);
    if (found == theirs.end() || found->second == rate) continue;
    return "the rates differ from update " + std::to_string(step) + ": " + rounded(rate, 4) + " on " +
           std::to_string(first.ranks()) + (first.ranks() == 1 ? " rank, " : " ranks, ") + rounded(found->second, 4) +
           " on " + std::to_string(other.ranks());
  }
  return "";
}

Judged judge_rate(const At& first, const At& last) {
  if (last.variant().knows("schedule_every") && last.train().schedule_every == recipe::ScheduleEvery::kRank)
    return slip("the schedule takes a step for each rank, so it runs W times as fast",
                "step it once per update, or prepare it as accelerate expects");
  if (last.train().learning_rate_rule.kind != recipe::RateRuleKind::kNone)
    return changes("the rule '" + text_of(last.train().learning_rate_rule.kind) +
                       "' follows the global batch: a heuristic, not an identity",
                   "call the runs one recipe, not one computation");
  if (rate_text(first) == rate_text(last))
    return changes("the schedule counts epochs or samples, which take another number of updates",
                   "keep the global batch, or count the schedule in updates");
  return changes("the rate itself depends on the number of ranks",
                 "give all of them " + rate_text(first).value_or("one rate"));
}

std::optional<std::string> rate_of_sample(const At& at) {
  const auto rate = at.full_rate();
  const auto batch = at.batch();
  if (!rate || !batch) return std::nullopt;
  return rounded(*rate / *batch, 4);
}

/// Rules for a rate that follows the batch. Heuristics, and none of them for a rate that is not known.
std::string rules_for_rate(const At& first, const At& last, double growth) {
  const std::string keep = "keep the global batch; a rule is a heuristic, not an identity";
  if (last.still_warms_up()) return keep;
  const double rate = *first.full_rate();
  const recipe::OptimizerKind kind = last.optimizer();
  const std::string linear = "linear " + rounded(rate * growth, 4),
                    root = "square root " + rounded(rate * std::sqrt(growth), 4);
  return keep + ": " +
         (recipe::traits_of(kind).is_scale_free
              ? root + " (Malladi et al. 2022); the linear rule is not justified for " + text_of(kind)
              : linear + " (Goyal et al. 2017), " + root);
}

Judged judge_rate_of_sample(const At& first, const At& last) {
  const double growth = *last.batch() / *first.batch();
  const std::string of_rate = times(*last.full_rate() / *first.full_rate()),
                    behind = ": a sample moves the weights by another amount";
  if (growth == 1)
    return changes("the rate grows by " + of_rate + " and the batch does not" + behind,
                   "give all of them " + rate_text(first).value_or("one rate"));
  const std::string open = last.still_warms_up() ? " in a warm-up that these updates do not end" : "";
  return changes("the batch grows by " + times(growth) + ", the rate by " + of_rate + open + behind,
                 rules_for_rate(first, last, growth));
}

std::optional<std::string> warmup(const At& at) {
  const auto batch = at.batch();
  const std::int64_t updates = laws::warmup_of(at.variant());
  if (!batch) return std::nullopt;
  return count(static_cast<double>(updates) * *batch);
}

Judged judge_warmup(const At& first, const At& last) {
  const double factor = *last.batch() / *first.batch();
  return changes(
      "the warm-up is counted in updates, which take " + times(factor) + " as many samples",
      "count it in samples or epochs: " + rounded(static_cast<double>(laws::warmup_of(first.variant())) / factor, 4) +
          " updates at " + std::to_string(last.ranks()) + " ranks");
}

/// First step at which the schedule lowers the rate, in updates or epochs.
std::optional<double> first_drop(const TrainSpec& train) {
  const Json& options = train.schedule.options;
  if (options.contains("milestones") && !options["milestones"].empty()) return options["milestones"][0].get<double>();
  if (train.schedule.kind == recipe::ScheduleKind::kStep) return options.value("every", 0.0);
  if (options.contains("period")) return options["period"].get<double>();
  return std::nullopt;
}

/// Samples that are taken before the schedule lowers the rate, or ends.
std::optional<std::string> drop(const At& at) {
  const auto step = first_drop(at.train());
  if (!step) return std::nullopt;
  if (at.train().schedule_every == recipe::ScheduleEvery::kEpoch)
    return count(*step) + (*step == 1 ? " epoch" : " epochs");
  const auto batch = at.batch();
  if (!batch) return std::nullopt;
  const double each = at.train().schedule_every == recipe::ScheduleEvery::kRank ? at.ranks_as_number() : 1;
  return count(*step * *batch / each);
}

Judged judge_drop(const At&, const At& last) {
  if (last.train().schedule_every == recipe::ScheduleEvery::kRank)
    return slip("the schedule takes a step for each rank: W per update", "count the schedule's steps in updates");
  return changes("the schedule is counted in updates, which take another number of samples",
                 "count it in samples or epochs");
}

/// Part of a weight that its decay takes in one epoch.
std::optional<std::string> decay(const At& at) {
  const auto updates = at.updates();
  const auto rate = at.full_rate();
  if (!updates || !rate) return std::nullopt;
  const double weight_decay = at.train().optimizer.options.value("weight_decay", 0.0);
  return rounded(1 - std::pow(1 - *rate * weight_decay, *updates), 3);
}

Judged judge_decay(const At&, const At&) {
  return changes("an update takes rate x decay of a weight, and an epoch has another number of updates",
                 "keep rate x decay x updates in an epoch");
}

bool has_decay(const At& at) {
  return at.variant().knows("optimizer") && at.train().optimizer.options.value("weight_decay", 0.0) != 0;
}

std::string clipping(const At& at) {
  const recipe::GradientSpec& gradient = at.train().gradient;
  const double threshold = gradient.clip_norm ? *gradient.clip_norm : *gradient.clip_value;
  if (at.train().ddp.average) return rounded(threshold, 4);
  return rounded(threshold / at.ranks_as_number(), 4);
}

/// Number of samples whose statistics batch normalization takes together.
std::string normalized_together(const At& at) {
  const recipe::BatchSpec& batch = at.train().batch;
  const std::int64_t own = batch.micro_size(at.ranks());
  const bool all = at.train().norm() == recipe::Norm::kSyncBatch;
  return std::to_string(all ? own * at.ranks() : own);
}

std::string loss_denominator(const At& at) {
  return at.train().loss_average == recipe::LossAverage::kWorld ? "all ranks' targets" : "each rank's own";
}

bool has_unequal_targets(const At& at) {
  const bool by_line = at.train().has_lines();
  return by_line && !(at.run() != nullptr && has_equal_targets(*at.run()));
}

std::string streams(const At& at) {
  return at.train().seed.policy == recipe::SeedPolicy::kSame || at.ranks() == 1 ? "1" : std::to_string(at.ranks());
}

/// Samples in an epoch's last update, over all ranks, where it is not whole.
std::optional<std::string> last_batch(const At& at) {
  const auto of = at.promise();
  const auto batch = at.batch();
  if (!of || !batch) return std::nullopt;
  const std::int64_t share = std::llround(*batch / at.ranks_as_number());
  std::vector<std::int64_t> rest;
  for (const std::int64_t each : of->each) rest.push_back(share > 0 ? each % share : 0);
  const std::int64_t total = std::accumulate(rest.begin(), rest.end(), std::int64_t{0});
  if (total == 0) return "whole";
  if (at.train().batch.drop_last) return "dropped";
  const bool equal = std::all_of(rest.begin(), rest.end(), [&](std::int64_t one) { return one == rest[0]; });
  return std::to_string(total) + (equal ? "" : " (" + listed(rest) + ")");
}

Judged judge_last_batch(const At&, const At&) {
  return changes("an epoch's last update has another number of samples, but its mean counts as much as a full batch's",
                 "drop it (drop_last), or choose a batch that divides the epoch on every number of ranks");
}

/// How often an epoch takes a sample, over all ranks.
std::optional<std::string> coverage(const At& at) {
  const auto of = at.promise();
  if (!of) return std::nullopt;
  const std::int64_t ranks = of->by_rank ? at.ranks() : 1;
  const std::int64_t least = of->least * ranks, most = of->most * ranks;
  return least == most ? std::to_string(least) : std::to_string(least) + ".." + std::to_string(most);
}

Judged judge_coverage(const At&, const At& last) {
  const auto of = last.promise();
  if (of && of->by_rank)
    return slip("every rank takes every sample: an epoch takes each of them once for each rank",
                "use a distributed sampler");
  return changes("the sampler repeats samples to make equal shares, or leaves some out",
                 "choose a number of ranks that divides the data, or count the repeated ones once");
}

/// Samples that a metric counts.
std::optional<std::string> counted(const At& at) {
  if (!at.train().evaluation) return std::nullopt;
  const recipe::EvaluationSpec& evaluation = *at.train().evaluation;
  const std::int64_t share = (evaluation.samples + at.ranks() - 1) / at.ranks();
  const std::int64_t total = evaluation.shares == recipe::Shares::kPadded ? share * at.ranks() : evaluation.samples;
  const std::string where = evaluation.reduce == recipe::EvaluationReduce::kNone   ? ", on each rank its own"
                            : evaluation.reduce == recipe::EvaluationReduce::kRoot ? ", on rank 0"
                                                                                   : "";
  return std::to_string(total) + where;
}

Judged judge_counted(const At&, const At& last) {
  if (last.train().evaluation->shares == recipe::Shares::kPadded)
    return slip("the sampler's padding is counted: some samples count twice", "trim it, or evaluate leftovers apart");
  return changes("not all ranks have the metric of all samples", "reduce sums and counts to all ranks");
}

bool knows_batch(const At& at) { return at.batch().has_value(); }
bool is_ours(const At& at) { return !at.variant().program.has_value(); }

const std::vector<Quantity>& table() {
  static const std::vector<Quantity> all = {
      {"global-batch", "samples in an update",
       [](const At& at) { return at.batch() ? std::optional(count(*at.batch())) : std::nullopt; }, judge_batch,
       knows_batch},
      {"samples-per-epoch", "samples in an epoch",
       [](const At& at) -> std::optional<std::string> {
         const auto of = at.promise();
         if (!of) return std::nullopt;
         return std::to_string(std::accumulate(of->each.begin(), of->each.end(), std::int64_t{0}));
       },
       judge_coverage},
      {"updates-per-epoch", "updates in an epoch",
       [](const At& at) { return at.updates() ? std::optional(count(*at.updates())) : std::nullopt; },
       [](const At&, const At&) {
         return changes("an update takes another number of samples, so the same epochs take another number of updates",
                        "keep the global batch, or count the training in samples");
       }},
      {"coverage", "times an epoch takes each sample", coverage, judge_coverage},
      {"last-batch", "samples in an epoch's last update", last_batch, judge_last_batch},
      {"rate", "learning rate", rate_text, judge_rate, [](const At&) { return true; }, rates_part},
      {"rate-per-sample", "rate / samples in an update", rate_of_sample, judge_rate_of_sample},
      {"warmup", "samples in the warm-up", warmup, judge_warmup,
       [](const At& at) { return at.variant().knows("schedule") && laws::warmup_of(at.variant()) > 0; }},
      {"first-drop", "samples until the rate falls, or its period ends", drop, judge_drop,
       [](const At& at) { return at.variant().knows("schedule") && first_drop(at.train()).has_value(); }},
      {"decay", "part of a weight that decays in an epoch", decay, judge_decay, has_decay},
      {"clipping", "clipping threshold, of the mean gradient", clipping,
       [](const At&, const At&) {
         return slip("the threshold is compared with a sum, which grows with the ranks", "average before clipping");
       },
       [](const At& at) { return is_ours(at) && (at.train().gradient.clip_norm || at.train().gradient.clip_value); }},
      {"data-sets", "data sets that the ranks draw from",
       [](const At& at) { return std::to_string(at.train().data.options.value("per_rank", false) ? at.ranks() : 1); },
       [](const At&, const At&) {
         return slip("each rank makes its own data set, as scripts that draw one without a seed do",
                     "let all ranks share one data set, and a sampler divide it");
       },
       [](const At& at) { return is_ours(at) && at.train().data.options.contains("per_rank"); }},
      {"denominator", "denominator of the loss", loss_denominator, [](const At&, const At&) { return Judged{}; },
       [](const At& at) { return is_ours(at); }},
      {"batch-norm", "samples that are normalized together", normalized_together,
       [](const At&, const At&) {
         return changes("batch normalization takes the statistics of a rank's own micro-batch",
                        "SyncBatchNorm with the global batch kept, or the per-rank batch kept");
       },
       [](const At& at) { return is_ours(at) && at.train().model.options.contains("norm"); }},
      {"dropout", "streams of dropout masks", streams,
       [](const At&, const At&) {
         return changes("each rank draws its own dropout masks: they depend on the number of ranks",
                        "none is needed: masks are noise; compare with dropout 0");
       },
       [](const At& at) { return is_ours(at) && at.train().drops(); }},
      {"augmentation", "streams of augmentation", streams,
       [](const At&, const At&) {
         return changes("each rank draws its own crops: images depend on the number of ranks",
                        "seed augmentation by epoch and sample");
       },
       [](const At& at) { return is_ours(at) && at.train().augmentation() == recipe::Augmentation::kRank; }},
      {"metric", "samples that the metric counts", counted, judge_counted,
       [](const At& at) { return is_ours(at) && at.train().evaluation.has_value(); }},
  };
  return all;
}

/// What is wrong although the values are alike.
std::optional<Judged> wrong_alike(const Quantity& quantity, const At& last) {
  const std::string id = quantity.id;
  if (last.ranks() == 1) return std::nullopt;
  if (id == "denominator" && has_unequal_targets(last) && last.train().loss_average == recipe::LossAverage::kRank)
    return slip("ranks have unequally many targets: a mean of their means weighs targets unequally",
                "divide by the number of all ranks' targets");
  if ((id == "dropout" || id == "augmentation") && last.train().seed.policy == recipe::SeedPolicy::kSame)
    return changes("all ranks draw the same: other samples, the same masks or crops",
                   "seed each rank by itself (seed + rank)");
  return std::nullopt;
}

Line line_of(const Quantity& quantity, const std::vector<At>& all) {
  Line line{.id = quantity.id, .section = Section::kQuantities, .text = quantity.name};
  const At* first = nullptr;
  const At* last = nullptr;
  std::string parts;  // although the values are alike
  std::vector<std::string> known;
  for (const At& at : all) {
    const auto value = at.is_training() ? quantity.value(at) : std::nullopt;
    line.values.push_back(at.is_training() ? value.value_or(kNoValue) : "refused");
    if (!value) continue;
    known.push_back(*value);
    if (first == nullptr) first = &at;
    last = &at;
    if (parts.empty()) parts = quantity.parts(*first, at);
  }
  if (known.size() < 2) {
    line.because = "it is known on fewer than two numbers of ranks";
    return line;
  }
  line.answer = Answer::kSame;
  const bool alike =
      parts.empty() && std::all_of(known.begin(), known.end(), [&](const std::string& one) { return one == known[0]; });
  const std::optional<Judged> judged = alike ? wrong_alike(quantity, *last) : quantity.if_changes(*first, *last);
  if (judged) {
    line.answer = judged->answer;
    line.because = parts.empty() ? judged->because : parts + "; " + judged->because;
    line.instead = judged->instead;
  }
  return line;
}

/// Batches next to the recipe's that all numbers of ranks divide: "choose a batch that all divide: 28 or 32".
std::string batches_that_divide(const std::vector<Seen>& seen) {
  std::int64_t unit = 1, batch = 0;
  for (const Seen& one : seen) {
    const bool is_global = one.variant != nullptr && one.variant->train.batch.global;
    const std::int64_t passes = is_global ? one.variant->train.batch.accumulation : 1;
    if (is_global) batch = *one.variant->train.batch.global;
    unit = std::lcm(unit, one.world_size * passes);
  }
  if (batch == 0 || batch % unit == 0) return "choose numbers that divide";
  const std::int64_t less = batch / unit * unit;
  return "choose a batch that all of these numbers of ranks divide: " +
         (less > 0 ? std::to_string(less) + " or " : "") + std::to_string(less + unit);
}

}  // namespace

std::vector<std::string> quantity_ids() {
  std::vector<std::string> ids = {"world-size"};
  for (const Quantity& quantity : table()) ids.emplace_back(quantity.id);
  return ids;
}

std::vector<Line> quantities(const std::vector<Seen>& seen) {
  std::vector<At> all(seen.begin(), seen.end());
  std::vector<Line> lines;
  for (const Seen& one : seen) {
    if (one.variant != nullptr) continue;
    lines.push_back({.id = "world-size@" + std::to_string(one.world_size),
                     .section = Section::kQuantities,
                     .text = std::to_string(one.world_size) + " ranks",
                     .answer = Answer::kChanges,
                     .because = "the recipe refuses them: " + one.refusal,
                     .instead = batches_that_divide(seen)});
  }
  const auto training = std::find_if(all.begin(), all.end(), [](const At& at) { return at.is_training(); });
  if (training == all.end()) return lines;
  for (const Quantity& quantity : table()) {
    if (quantity.applies(*training)) lines.push_back(line_of(quantity, all));
  }
  return lines;
}

}  // namespace lockstep::audit
