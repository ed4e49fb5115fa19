#include "harness/diagnosis/reduction_causes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>
#include <utility>

#include "harness/base/text.h"
#include "harness/diagnosis/low_precision_causes.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/clip_norm.h"
#include "harness/laws/held.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/collective_record.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Reduction;
using trace::Channel;

/// Weights this near to each other are meant to be equal; a factor of 1 + 2^-10 is none.
constexpr double kNearWeight = 1e-4;

/// A combination that leaves more than this is none, one that leaves less than 16-bit numbers do is exact.
constexpr double kLeastLossy = 0x1p-14;
constexpr double kMostLossy = 0x1p-6;

/// Weights are held against at least this: near 0, a relative distance says nothing.
constexpr double kLeastWeight = 1e-3;

/// A rank whose norm is that far above the threshold is clipped for certain.
constexpr double kClips = 1e-2;

bool near(double a, double b) {
  return std::fabs(a - b) <= kNearWeight * std::max({std::fabs(a), std::fabs(b), kLeastWeight});
}

bool all_near(const std::vector<double>& weights, double value) {
  return std::all_of(weights.begin(), weights.end(), [&](double weight) { return near(weight, value); });
}

/// One step of one run: which ranks hold what was not promised, and how it is made.
struct BrokenStep {
  const trace::RunTrace& run;
  const scenario::Promises& promises;
  std::int64_t step = 0;
  std::map<std::int64_t, Reduction> broken;  ///< by rank

  double ranks() const { return static_cast<double>(run.world_size()); }
};

BrokenStep broken_step_of(const trace::RunTrace& run, const scenario::Promises& promises, std::int64_t step) {
  BrokenStep of_step{.run = run, .promises = promises, .step = step, .broken = {}};
  const laws::ReductionLaw law(run, 1.0 / static_cast<double>(run.world_size()), laws::sent_roundoff(run, promises));
  for (std::int64_t rank = 0; rank < run.world_size(); ++rank) {
    Reduction reduction = law.judge(step, rank);
    if (!reduction.broken.empty()) of_step.broken.emplace(rank, std::move(reduction));
  }
  return of_step;
}

/// What was seen, before what it means.
std::vector<std::string> observations(const BrokenStep& of_step, std::int64_t rank) {
  const Reduction& reduction = of_step.broken.at(rank);
  std::vector<std::string> evidence{
      "step " + std::to_string(of_step.step) + ", rank " + std::to_string(rank) + ": " +
      std::to_string(reduction.broken.size()) + " of " + std::to_string(reduction.judged.size()) +
      " reduced gradients (" + some_of(reduction.broken, 3) + ") are not the mean of the ranks' own gradients; " +
      rounded(reduction.distance, 3) + " apart, rounding explains " + rounded(reduction.bound, 3)};
  if (reduction.weights)
    evidence.push_back("weights of the ranks' own gradients in them: " + laws::to_text(*reduction.weights) +
                       ", instead of " +
                       laws::to_text({.coefficients = std::vector(of_step.run.ranks.size(), 1 / of_step.ranks())}));
  return evidence;
}

/// Whether a rank updates with its own gradients.
bool keeps_own(const Reduction& reduction, std::int64_t rank) {
  if (!reduction.weights || reduction.weights->coefficients.size() < 2) return false;
  for (std::size_t r = 0; r < reduction.weights->coefficients.size(); ++r) {
    if (!near(reduction.weights->coefficients[r], static_cast<std::int64_t>(r) == rank ? 1 : 0)) return false;
  }
  return reduction.weights->residual < kLeastLossy;
}

/// Norm over all of a rank's own gradients.
double total_norm(const BrokenStep& of_step, std::size_t rank) {
  double squares = 0;
  const trace::Step* step = of_step.run.ranks[rank].find(of_step.step);
  if (step == nullptr) return 0;
  for (const trace::Record& record : step->records) {
    if (record.channel == Channel::kGradientLocal && record.norm) squares += *record.norm * *record.norm;
  }
  return std::sqrt(squares);
}

/// The weights that clipping before the reduction gives.
bool clipped_before(const BrokenStep& of_step, const std::vector<double>& weights) {
  const auto& max_norm = of_step.promises.train.gradient.clip_norm;
  if (!max_norm) return false;
  bool clips = false;
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    const double factor = std::min(1.0, *max_norm / (total_norm(of_step, rank) + laws::kNormEpsilon));
    if (std::fabs(weights[rank] * of_step.ranks() / factor - 1) > laws::kNormError) return false;
    clips = clips || factor < 1 - kClips;
  }
  return clips;
}

/// Ranks whose gradients are left out, where the others weigh alike.
std::vector<std::int64_t> left_out(const std::vector<double>& weights) {
  std::vector<std::int64_t> none;
  double rest = 0;
  for (std::size_t rank = 0; rank < weights.size(); ++rank) {
    if (near(weights[rank], 0)) {
      none.push_back(static_cast<std::int64_t>(rank));
    } else if (rest != 0 && !near(weights[rank], rest)) {
      return {};
    } else {
      rest = weights[rank];
    }
  }
  return rest == 0 ? std::vector<std::int64_t>{} : none;
}

/// Whether the ranks that are left out have a group of their own: in one that they are in, they count.
bool are_of_other_groups(const BrokenStep& of_step, const std::vector<std::int64_t>& out) {
  return std::all_of(out.begin(), out.end(), [&](std::int64_t rank) {
    const auto found = of_step.broken.find(rank);
    if (found == of_step.broken.end() || !found->second.weights) return true;
    return !near(found->second.weights->coefficients[static_cast<std::size_t>(rank)], 0);
  });
}

std::vector<std::string> with(std::vector<std::string> evidence, const std::string& more) {
  evidence.push_back(more);
  return evidence;
}

/// Whether the rank issued an all-reduce in the step.
bool reduced_something(const BrokenStep& of_step, std::int64_t rank) {
  const trace::Step* step = of_step.run.ranks[static_cast<std::size_t>(rank)].find(of_step.step);
  return step != nullptr && std::any_of(step->records.begin(), step->records.end(), [](const trace::Record& record) {
           const auto collective = trace::collective_of(record);
           return collective && collective->is_allreduce();
         });
}

/// Ranks that kept their own gradients: of all parameters, of one, or of some.
std::vector<Suspect> suspects_of_own(const BrokenStep& of_step, std::int64_t rank,
                                     const std::vector<std::string>& seen) {
  const Reduction& reduction = of_step.broken.at(rank);
  const auto evidence = with(seen, "rank " + std::to_string(rank) + " updates these parameters with its own gradients");
  const bool whole = reduction.broken.size() == reduction.judged.size();
  if (whole && of_step.promises.train.ddp.gradient_as_bucket_view && reduced_something(of_step, rank))
    return {{"grad.view_detached", with(evidence,
                                        "its all-reduces were issued, into buckets that gradients should be "
                                        "views of (ddp.gradient_as_bucket_view)")},
            {"grad.not_reduced", evidence}};
  if (whole && of_step.broken.size() == of_step.run.ranks.size()) return {{"grad.not_reduced", evidence}};
  if (whole) return {{"grad.not_reduced", evidence}, {"grad.view_detached", evidence}, {"comm.race", evidence}};
  if (reduction.broken.size() == 1) return {{"grad.param_unregistered", evidence}, {"grad.bucket_missing", evidence}};
  return {{"grad.bucket_missing", evidence}, {"grad.param_unregistered", evidence}};
}

std::vector<Suspect> suspects_of_weights(const BrokenStep& of_step, const std::vector<double>& weights,
                                         const std::vector<std::string>& seen, bool of_most) {
  const double ranks = of_step.ranks();
  if (clipped_before(of_step, weights))
    return {{"clip.before_reduce", with(seen, "the weights match clipping each rank's own gradients to " +
                                                  to_decimal(*of_step.promises.train.gradient.clip_norm))}};
  if (!of_most) return {};  // groups and means are those of buckets
  if (all_near(weights, 1)) return {{"grad.reduce_sum", with(seen, "each rank's own gradient counts once: a sum")}};
  if (all_near(weights, 1 / (ranks * ranks)))
    return {{"grad.double_average", with(seen, "the weights are 1/W² for W = " + to_decimal(ranks))}};
  const double divisor = std::round(1 / weights[0]);
  if (divisor >= 2 && divisor != ranks && all_near(weights, 1 / divisor))
    return {{"comm.wrong_group", with(seen, "the sum is divided by " + to_decimal(divisor) + "; there are " +
                                                to_decimal(ranks) + " ranks")}};
  const std::vector<std::int64_t> out = left_out(weights);
  if (!out.empty() && are_of_other_groups(of_step, out))
    return {{"comm.wrong_group", with(seen, "the gradients of rank " + listed(out) + " are left out")}};
  return {};
}

/// Whether most of the gradients that are not the mean have a largest element of 16 bits.
bool are_short(const BrokenStep& of_step, std::int64_t rank) {
  const laws::Held held(of_step.run, static_cast<std::size_t>(rank), of_step.step);
  std::size_t found = 0, of = 0;
  for (const std::string& name : of_step.broken.at(rank).broken) {
    const trace::Record* record = held.find(Channel::kGradient, name);
    if (record == nullptr || !record->max_abs || !(*record->max_abs > 0)) continue;
    ++of;
    found += is_short(*record->max_abs) ? 1 : 0;
  }
  return 2 * found > of;
}

/// Sums that went through 16-bit numbers, and so are some.
std::vector<Suspect> suspects_of_residual(const BrokenStep& of_step, std::int64_t rank,
                                          const laws::Combination& weights, const std::vector<std::string>& seen) {
  auto evidence = with(seen, "the rest is " + rounded(weights.residual, 3) + " of the gradient");
  if (weights.residual > kMostLossy) return {};
  if (!std::all_of(weights.coefficients.begin(), weights.coefficients.end(),
                   [&](double weight) { return std::fabs(weight * of_step.ranks() - 1) < kMostLossy; }))
    return {};
  if (!are_short(of_step, rank)) return {};
  evidence.push_back("the largest elements of most of them fit in 16 bits");
  return {{"fp.lowprec_accumulate", evidence}};
}

}  // namespace

std::optional<double> own_factor(const trace::RunTrace& run, std::size_t rank, std::int64_t step) {
  const trace::Step* own = run.ranks[rank].find(step);
  std::optional<double> factor;
  const trace::Record* handed_out = nullptr;
  if (own == nullptr) return factor;
  for (const trace::Record& record : own->records) {
    if (record.channel != Channel::kGradient || !record.sketch) continue;
    if (laws::is_handed_out(record)) handed_out = &record;
    if (!laws::is_plain(record)) continue;
    if (handed_out == nullptr || !handed_out->name.ends_with(" " + record.name)) return std::nullopt;
    const auto scale = trace::scale_between(*handed_out->sketch, *record.sketch);
    if (!scale) continue;  // both may be zeros
    if (scale->residual > kNearWeight || (factor && !near(*factor, scale->factor))) return std::nullopt;
    factor = scale->factor;
  }
  return factor;
}

std::vector<Suspect> suspects_in_own_average(const Scene& scene) {
  if (!is_between_programs(scene) || scene.at.channel != Channel::kGradient) return {};
  for (const auto& [side, other] : {std::pair(&scene.right, &scene.left), std::pair(&scene.left, &scene.right)}) {
    const trace::RunTrace& run = *side->run;
    const auto ranks = static_cast<double>(run.world_size());
    const auto factor = own_factor(run, 0, scene.at.step);
    if (ranks < 2 || !factor || own_factor(*other->run, 0, scene.at.step)) continue;
    const bool all = [&] {
      for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
        const auto its = own_factor(run, rank, scene.at.step);
        if (!its || !near(*its, *factor)) return false;
      }
      return true;
    }();
    const char* cause = near(*factor, 1 / ranks) ? "grad.double_average"
                        : near(*factor, ranks)   ? "grad.reduce_sum"
                                                 : "";
    if (!all || *cause == 0) continue;
    return {{cause,
             {place_of(run, scene.at.step) + ": the script multiplies all gradients that DDP handed out by " +
              rounded(*factor, 5) + (*factor < 1 ? ", which is 1/W; " : ", which is W; ") + other->run->run +
              " does not"}}};
  }
  return {};
}

std::vector<Suspect> suspects_in_reduction(const trace::RunTrace& run, const scenario::Promises& promises,
                                           std::int64_t step) {
  if (run.world_size() < 2) return {};
  const BrokenStep of_step = broken_step_of(run, promises, step);
  if (of_step.broken.empty()) return {};
  const auto own = std::find_if(of_step.broken.begin(), of_step.broken.end(),
                                [](const auto& entry) { return keeps_own(entry.second, entry.first); });
  const std::int64_t rank = own != of_step.broken.end() ? own->first : of_step.broken.begin()->first;
  const std::vector<std::string> seen = observations(of_step, rank);
  if (laws::hold_alike_shards(*run.ranks[static_cast<std::size_t>(rank)].find(step), of_step.broken.at(rank).broken))
    return {{"grad.shards_reduced", with(seen, "the parts that the ranks hold of these gradients are alike")}};
  if (laws::changed_by_hand(run, step)) return {};
  const std::int64_t passes =
      laws::seen_count(*run.ranks[static_cast<std::size_t>(rank)].find(step), "unreduced_passes");
  if (passes > 0)
    return {{"grad.not_reduced", with(seen, "DDP reduced an earlier backward pass of the update, and not the last " +
                                                (passes == 1 ? "one" : std::to_string(passes)))}};
  for (const auto& [other, reduction] : of_step.broken) {
    if (own == of_step.broken.end() || !reduction.weights || keeps_own(reduction, other)) continue;
    if (reduction.weights->residual > kLeastLossy || left_out(reduction.weights->coefficients).empty()) continue;
    return suspects_of_weights(of_step, reduction.weights->coefficients, observations(of_step, other), true);
  }
  if (own != of_step.broken.end()) return suspects_of_own(of_step, rank, seen);
  const auto& weights = of_step.broken.at(rank).weights;
  if (!weights) return {};
  if (weights->residual > kLeastLossy) return suspects_of_residual(of_step, rank, *weights, seen);
  const Reduction& reduction = of_step.broken.at(rank);
  return suspects_of_weights(of_step, weights->coefficients, seen,
                             2 * reduction.broken.size() >= reduction.judged.size());
}

}  // namespace lockstep::diagnosis
