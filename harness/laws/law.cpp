#include "harness/laws/law.h"

#include <algorithm>
#include <array>
#include <cmath>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/laws/scales.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// Of float64 a sketch's own sums round, too: its law is as sharp as they are.
constexpr double kSketchRoundoff = 0x1p-44;

/// No rule makes more of them.
constexpr double kMostRoundings = 8;

}  // namespace

std::optional<double> roundoff_of(trace::DType dtype) {
  if (dtype == trace::DType::kFloat32) return trace::unit_roundoff(dtype);
  if (dtype == trace::DType::kFloat64) return kSketchRoundoff;
  return std::nullopt;
}

std::span<const Law> all_laws() {
  static const std::array<Law, 21> kLaws = {{
      {"order",
       "The samples come in the order that the sampler's seed and epoch make.",
       "samples come in another order than the sampler makes",
       {Channel::kSamples},
       judge_order,
       no_order_asked},
      {"data",
       "Each epoch takes every sample as often as the sampler promises; a shuffling sampler gives each epoch a new "
       "order.",
       "samples are not taken as the sampler promises",
       {Channel::kSamples},
       nullptr,
       no_data_asked},
      {"content",
       "A sample has one content, whenever and wherever it is taken.",
       "a sample is not the same each time",
       {Channel::kSamples, Channel::kInput},
       judge_content,
       no_content_asked},
      {"usage",
       "A program clears, clips and uses gradients, and steps schedules, in an order that torch defines.",
       "the program does not use its model, gradients and optimizer as it is meant to",
       {Channel::kLedger},
       judge_usage,
       no_usage_asked},
      {"generators",
       "Each rank's generator has the recipe's seed, which draws the first weights, and draws as often as the other "
       "ranks'.",
       "a generator is not in the state that the recipe gives it",
       {Channel::kRng},
       judge_generators,
       no_generators_asked},
      {"loss",
       "A rank's loss is what its definition says, and the reduced loss is the mean of the ranks' losses.",
       "a loss is not what the recipe defines: look at what is summed, and at what the sum is divided by",
       {Channel::kLoss},
       judge_loss},
      {"reduction",
       "The reduced gradient is the mean (or sum) of the ranks' own gradients.",
       "the reduced gradient does not follow from the ranks' own gradients",
       {Channel::kGradientLocal, Channel::kGradient},
       judge_reduction,
       no_reduction_asked,
       CausesOf::kReduction,
       "the ranks' own gradients"},
      {"unscaling",
       "The unscaled gradient is the reduced gradient divided by the loss scale.",
       "gradients are not divided by the loss scale alone",
       {Channel::kGradient},
       judge_unscaling,
       no_unscaling_asked},
      {"clipping",
       "The clipped gradient is the gradient times min(1, threshold / norm of all gradients).",
       "gradients are not clipped as the recipe says",
       {Channel::kGradient},
       judge_clipping,
       no_clipping_asked,
       CausesOf::kClipping},
      {"scale",
       "A step is skipped if a gradient is infinite, and the loss scale grows and falls as the recipe says.",
       "the loss scale does not follow the steps before",
       {Channel::kGradient, Channel::kLedger},
       judge_scale,
       no_scale_asked},
      {"state",
       "The optimizer's state follows from the state before, the gradient and the hyperparameters.",
       "the optimizer's state does not follow from the step before",
       {Channel::kGradient, Channel::kOptimizer},
       judge_state,
       no_state_asked,
       CausesOf::kBreach,
       "law",
       true},
      {"update",
       "New weights follow from the weights before, the gradient, the optimizer's state and the rate.",
       "the new weights do not follow from the step before",
       {Channel::kGradient, Channel::kWeight},
       judge_update,
       nullptr,
       CausesOf::kBreach,
       "law",
       true},
      {"average",
       "The averaged weights are decay · average before + (1 - decay) · weights.",
       "the averaged weights do not follow from the step before",
       {Channel::kWeight, Channel::kEma},
       judge_average,
       no_average_asked},
      {"buffers",
       "Normalisation layers count each forward pass of the training once.",
       "the buffers of a layer do not follow from the batches that the training took",
       {Channel::kLoss, Channel::kBuffer},
       judge_buffers,
       no_buffers_asked},
      {"evaluation",
       "An evaluation takes the held-out samples as its shares say, and its metrics are the means over what ranks "
       "count.",
       "an evaluation takes other samples, or its metrics are not the means over what the ranks count",
       {Channel::kMetric, Channel::kLedger},
       judge_evaluation,
       no_evaluation_asked},
      {"ledger",
       "Rates, counts and denominators follow the closed form that the recipe gives them.",
       "the ledger does not follow the recipe",
       {Channel::kLedger},
       nullptr,
       no_ledger_asked},
      {"ranks",
       "All ranks begin with equal state, update it alike, and exchange the same tensors.",
       "ranks that should agree do not",
       {Channel::kWeight},
       nullptr,
       no_ranks_asked},
      {"shares",
       "Each rank takes its own samples, and each shuffled epoch has its own order.",
       "samples are split wrongly between ranks, epochs or loader workers",
       {Channel::kSamples},
       judge_shares,
       no_shares_asked},
      {"checkpoint",
       "Loaded tensors equal the saved ones, one by one; parts that are not restored are new.",
       "the state after loading is not the one that was saved",
       {},
       nullptr,
       no_checkpoint_asked},
      {"backward",
       "A rank's own gradient is the derivative of its loss.",
       "the gradients are not the derivative of the recorded loss",
       {Channel::kGradientLocal, Channel::kLedger},
       judge_backward},
      {"finite",
       "Losses, gradients, weights and states are finite, except in a step whose update is skipped.",
       "NaN or infinity hides every later mistake",
       {},
       judge_finite,
       no_finite_asked},
  }};
  return kLaws;
}

const Law& law_named(std::string_view name) {
  for (const Law& law : all_laws()) {
    if (law.name == name) return law;
  }
  throw InternalError({.what = "there is no such law", .where = std::string(name)});
}

Outcome cannot_tell(std::string because, std::string next) {
  return {.broken = {}, .hidden = {}, .because = std::move(because), .next = std::move(next)};
}

Outcome unless_changed_by_hand(Outcome outcome) {
  if (!outcome.broken) return outcome;
  return cannot_tell(outcome.broken->at.text() +
                     " does not follow from the record before: the program may have changed its gradients itself");
}

Outcome ask(const Law& law, const trace::RunTrace& run, const scenario::Promises& promises) {
  std::vector<std::string> lacking;
  bool is_meant = false;  // one of them was not to be recorded; else the missing record may itself be the breach
  for (const Channel channel : law.channels) {
    if (records(run, channel)) continue;
    lacking.push_back("'" + std::string(trace::name_of(channel)) + "'");
    is_meant = is_meant || !promises.train.record.holds(channel);
  }
  Outcome outcome = law.judge(run, promises);
  const bool has_steps =
      std::none_of(run.ranks.begin(), run.ranks.end(), [](const trace::Trace& rank) { return rank.steps.empty(); });
  if (!has_steps && !outcome.broken && !outcome.holds()) return cannot_tell("no step is recorded on every rank");
  if (outcome.broken && is_meant) return cannot_tell("the run does not record " + join(lacking, " and "));
  if (outcome.broken && law.needs_promise && !promises.knows("optimizer"))
    return cannot_tell(outcome.broken->at.text() +
                           " does not follow from the step before: the program may have changed it "
                           "between updates",
                       "if it does not, promise its 'optimizer': then this is a mistake");
  if (outcome.judged == 0 && !outcome.broken && outcome.because.empty())
    outcome.because = lacking.empty() ? "the run records nothing that this law judges"
                                      : "the run does not record " + join(lacking, " and ");
  return outcome;
}

std::string Distance::text() const { return rounded(distance, 3) + " away; rounding explains " + rounded(bound, 3); }

Equation equation_of(const Rule& rule) {
  Equation equation{.target = &*rule.target->sketch, .terms = {}};
  for (const auto& [coefficient, term] : rule.terms)
    equation.terms.push_back(term == nullptr ? nullptr : &*term->sketch);
  return equation;
}

std::optional<Distance> distance_of(const Rule& rule) {
  const auto roundoff = roundoff_of(rule.target->dtype);
  if (!roundoff || !rule.target->sketch || !std::isfinite(rule.target->sketch->norm)) return std::nullopt;
  double sum = kMostRoundings * *roundoff * rule.target->sketch->norm;
  std::vector<double> coefficients;
  for (const auto& [coefficient, term] : rule.terms) {
    coefficients.push_back(coefficient);
    if (term == nullptr) continue;
    if (term->dtype != rule.target->dtype || !term->sketch || !std::isfinite(term->sketch->norm)) return std::nullopt;
    sum += (kMostRoundings * *roundoff + rule.relative) * std::fabs(coefficient) * term->sketch->norm;
  }
  const double error = count_of(*rule.target) > static_cast<double>(trace::Sketch::kBuckets) ? kSketchError : 1;
  return Distance{.distance = distance_to(equation_of(rule), coefficients),
                  .bound = error * (sum + kMostRoundings * kLeastNormal * std::sqrt(count_of(*rule.target)))};
}

bool keeps(Outcome& outcome, const Rule& rule, std::int64_t step, std::int64_t rank) {
  const auto found = distance_of(rule);
  if (!found) return true;
  ++outcome.judged;
  if (!found->is_broken()) return true;
  outcome.broken = Breach{.at = {step, rule.target->channel, rule.target->name, rank}, .actual = found->text()};
  return false;
}

void for_each_state(const trace::RunTrace& run,
                    const std::function<bool(std::int64_t step, std::int64_t rank, const Held& now)>& visit) {
  for (const trace::Step& step : run.ranks[0].steps) {
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      if (!visit(step.step, static_cast<std::int64_t>(rank), Held(run, rank, step.step))) return;
    }
  }
}

}  // namespace lockstep::laws
