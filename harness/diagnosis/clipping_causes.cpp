#include "harness/diagnosis/clipping_causes.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <optional>

#include "harness/base/text.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/clip_norm.h"
#include "harness/laws/held.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/trace/batch_share.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;

/// One rank's gradients of a step, reduced and as it updates with them.
struct Clipped {
  double reduced = 0;  ///< norm, without the loss scale
  double last = 0;     ///< norm of what it updates with
};

double norm_of_reduced(const Held& held) {
  std::map<std::string, const trace::Record*> reduced;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    if (laws::is_plain(*record)) reduced.emplace(record->name, record);
  }
  return laws::total_norm(reduced);
}

bool same_norm(double a, double b) { return std::fabs(a - b) <= laws::kNormError * std::fabs(b); }

std::string text_of(std::size_t rank, const Clipped& clipped) {
  return "rank " + std::to_string(rank) + " updates with gradients of norm " + rounded(clipped.last, 5) +
         ", before clipping " + rounded(clipped.reduced, 5);
}

/// The ranks' gradients against the norm that is asked for.
struct Clipping {
  const trace::RunTrace& run;
  std::int64_t step;
  double most, loss_scale;
  std::vector<Clipped> of;

  std::vector<std::string> evidence(std::size_t rank) const {
    return {place_of(run, step) + ": " + text_of(rank, of[rank]) + "; the recipe clips to " + to_decimal(most)};
  }
  bool escaped(std::size_t rank) const {
    return of[rank].last > most * (1 + laws::kNormError) && same_norm(of[rank].last, of[rank].reduced);
  }
  bool kept(std::size_t rank) const { return same_norm(of[rank].last, std::min(most, of[rank].reduced)); }
};

/// One step's gradients of all ranks; empty where a norm is not known.
std::vector<Clipped> clipped_at(const trace::RunTrace& run, std::int64_t step, double loss_scale) {
  std::vector<Clipped> of;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Held held(run, rank, step);
    of.push_back({norm_of_reduced(held) / loss_scale, laws::total_norm(laws::final_gradients(held))});
    if (!std::isfinite(of.back().reduced) || !std::isfinite(of.back().last) || of.back().reduced == 0) return {};
  }
  return of;
}

/// Whether a later step clips, and not to the threshold: clipping has an effect then, and a wrong one.
bool clips_otherwise(const Clipping& at) {
  return std::any_of(at.run.ranks[0].steps.begin(), at.run.ranks[0].steps.end(), [&](const trace::Step& later) {
    if (later.step <= at.step) return false;
    const auto scale = laws::loss_scale_of(Held(at.run, 0, later.step));
    const Clipping then{.run = at.run,
                        .step = later.step,
                        .most = at.most,
                        .loss_scale = scale.value_or(at.loss_scale),
                        .of = clipped_at(at.run, later.step, scale.value_or(at.loss_scale))};
    return !then.of.empty() && !then.kept(0) && !then.escaped(0);
  });
}

std::vector<Suspect> not_clipped(const Clipping& at) {
  std::vector<std::size_t> escaped, kept;
  for (std::size_t rank = 0; rank < at.of.size(); ++rank) {
    if (at.escaped(rank)) escaped.push_back(rank);
    if (at.kept(rank)) kept.push_back(rank);
  }
  if (escaped.empty() || escaped.size() + kept.size() != at.of.size()) return {};
  std::vector<std::string> evidence = at.evidence(escaped[0]);
  if (clips_otherwise(at)) return {};
  if (kept.empty()) return {{"clip.no_effect", evidence}};
  evidence.push_back(text_of(kept[0], at.of[kept[0]]));
  evidence.push_back(std::to_string(escaped.size()) + " of " + std::to_string(at.of.size()) + " ranks do not clip");
  return {{"clip.rank_subset", evidence}};
}

/// The threshold was held against gradients that are still scaled: too small by the scale afterwards.
std::vector<Suspect> before_unscale(const Clipping& at) {
  if (at.loss_scale == 1) return {};
  for (std::size_t rank = 0; rank < at.of.size(); ++rank) {
    const double wrong = std::min(at.of[rank].reduced, at.most / at.loss_scale);
    if (!same_norm(at.of[rank].last, wrong) || at.kept(rank)) return {};
  }
  std::vector<std::string> evidence = at.evidence(0);
  evidence.push_back("that is the threshold divided by the loss scale, " + to_decimal(at.loss_scale));
  return {{"clip.before_unscale", evidence}};
}

}  // namespace

std::vector<Suspect> suspects_in_clipping(const trace::RunTrace& run, const scenario::Promises& promises,
                                          std::int64_t step) {
  const recipe::GradientSpec& recipe = promises.train.gradient;
  if (!recipe.clip_norm || recipe.clip_value || run.ranks.empty()) return {};
  // A dynamic scale is another one in each step.
  const auto scale = laws::loss_scale_of(Held(run, 0, step));
  Clipping at{.run = run,
              .step = step,
              .most = *recipe.clip_norm,
              .loss_scale = scale.value_or(recipe.loss_scale.value_or(1)),
              .of = {}};
  at.of = clipped_at(run, step, at.loss_scale);
  if (at.of.empty()) return {};
  if (auto found = not_clipped(at); !found.empty()) return found;
  return before_unscale(at);
}

namespace {

double final_norm(const Side& side, std::int64_t step) {
  return laws::total_norm(laws::final_gradients(Held(*side.run, side.rank, step)));
}

/// Gradients that were clipped are named so where they are unscaled afterwards.
bool unscales_after_clipping(const Side& side, std::int64_t step) {
  bool clipped = false;
  for (const trace::Record* record : Held(*side.run, side.rank, step).all(Channel::kGradient)) {
    clipped = clipped || record->name.starts_with("clipped ");
    if (record->name.starts_with("unscaled ")) return clipped;
  }
  return false;
}

/// Whether a script was seen to change gradients itself after they were reduced.
bool changes_by_hand(const Side& side, std::int64_t step) {
  if (laws::changed_by_hand(*side.run, step)) return true;
  const auto gradients = Held(*side.run, side.rank, step).all(Channel::kGradient);
  return std::any_of(gradients.begin(), gradients.end(),
                     [](const trace::Record* gradient) { return laws::is_handed_out(*gradient); });
}

std::vector<Suspect> of_calls(const Side& side, const Side& other, std::int64_t step) {
  const double its = told_in(side, step, "seen.clips").value_or(0),
               others = told_in(other, step, "seen.clips").value_or(0);
  const double passes = told_in(side, step, "micro_batches").value_or(1);
  const std::string seen = place_of(*side.run, step) + ": gradients were clipped ";
  const bool got_some = told_in(side, step, "seen.clipped").value_or(1) > 0;
  if (its > 0 && got_some && unscales_after_clipping(side, step) && !unscales_after_clipping(other, step))
    return {{"clip.before_unscale", {seen + "before they were unscaled; " + other.run->run + " unscales first"}}};
  if (passes > 1 && others > 0 && its == passes * others)
    return {{"clip.before_reduce",
             {seen + to_decimal(its) + " times, once for each of " + to_decimal(passes) + " micro-batches; " +
              other.run->run + " clips " + to_decimal(others) + (others == 1 ? " time" : " times")}}};
  const auto most = told_in(other, step, "seen.clip_norm");
  if (changes_by_hand(side, step)) return {};
  if (its > 0 || others == 0 || !most || !(final_norm(side, step) > *most * (1 + laws::kNormError))) return {};
  return {
      {"clip.missing",
       {place_of(*side.run, step) + ": no gradient was clipped; " + other.run->run + " clips to " + to_decimal(*most),
        "the update takes gradients of norm " + rounded(final_norm(side, step), 5) + ", that of " + other.run->run +
            " " + rounded(final_norm(other, step), 5)}}};
}

}  // namespace

std::vector<Suspect> suspects_in_calls_of_clipping(const Scene& scene) {
  if (!is_between_programs(scene)) return {};
  auto found = of_calls(scene.right, scene.left, scene.at.step);
  return found.empty() ? of_calls(scene.left, scene.right, scene.at.step) : found;
}

namespace {

/// Norm of the gradients that a rank's clipping begins with, whether a call of torch clips them or the script itself.
double norm_before_clipping(const Held& held) {
  std::map<std::string, const trace::Record*> before;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    const std::string parameter = laws::parameter_of(record->name);
    const bool is_changed = before.contains(parameter) && laws::is_handed_out(*before[parameter]);
    if (!record->name.starts_with("clipped ") && !is_changed) before[parameter] = record;
  }
  return laws::total_norm(before);
}

/// The norm to which one side clips, by what it makes of its gradients: the same in all steps that clip, of which there
/// are several, and no step goes beyond it.
std::optional<double> threshold_of(const Side& side) {
  std::optional<double> threshold;
  std::size_t clipped = 0;
  double most = 0;
  for (const trace::Step& step : side.run->ranks[side.rank].steps) {
    if (step.step < 0) continue;
    const Held held(*side.run, side.rank, step.step);
    const double before = norm_before_clipping(held), after = laws::total_norm(laws::final_gradients(held));
    if (!std::isfinite(before) || !std::isfinite(after)) return std::nullopt;
    most = std::max(most, after);
    if (same_norm(after, before)) continue;
    if (after > before || (threshold && !same_norm(after, *threshold))) return std::nullopt;
    threshold = after;
    ++clipped;
  }
  return clipped > 1 && most <= *threshold * (1 + laws::kNormError) ? threshold : std::nullopt;
}

/// Elements that both sides clip, to other values.
std::vector<Suspect> other_values(const Scene& scene) {
  const auto left = told_in(scene.left, scene.at.step, "seen.clip_value"),
             right = told_in(scene.right, scene.at.step, "seen.clip_value");
  if (!left || !right || *left == *right) return {};
  return {{"clip.threshold",
           {place_of(*scene.right.run, scene.at.step) + ": elements are clipped to " + to_decimal(*right) + ", in " +
            scene.left.run->run + " to " + to_decimal(*left)}}};
}

}  // namespace

std::vector<Suspect> suspects_in_thresholds(const Scene& scene) {
  if (!is_between_programs(scene)) return {};
  if (auto found = other_values(scene); !found.empty()) return found;
  const auto left = threshold_of(scene.left), right = threshold_of(scene.right);
  if (!left || !right || same_norm(*left, *right)) return {};
  const auto told_left = told_in(scene.left, scene.at.step, "seen.clip_norm"),
             told_right = told_in(scene.right, scene.at.step, "seen.clip_norm");
  const auto evidence_of = [&](const std::string& more) {
    std::vector<std::string> evidence{"in all steps that clip, gradients of " + scene.right.run->run +
                                      " have the norm " + rounded(*right, 5) + " afterwards, those of " +
                                      scene.left.run->run + " " + rounded(*left, 5)};
    if (!more.empty()) evidence.push_back(more);
    return evidence;
  };
  const double root = std::sqrt(static_cast<double>(scene.right.run->world_size()));
  const bool both_told = told_left && told_right, told_apart = both_told && *told_left != *told_right;
  const bool is_root = root > 1 && (same_norm(*left, *right * root) || same_norm(*right, *left * root));
  std::vector<Suspect> found;
  const bool are_whole = trace::mesh_of(*scene.left.run).empty() && trace::mesh_of(*scene.right.run).empty();
  if (is_root && !told_apart && are_whole)  // the norm of a part of the gradients may be too small by it, too
    found.push_back(
        {"clip.norm_over_ranks", evidence_of("the ratio is the root of the number of ranks, " + rounded(root, 5))});
  if (told_apart)
    found.push_back({"clip.threshold", evidence_of("they are asked to clip to " + to_decimal(*told_right) + " and " +
                                                   to_decimal(*told_left))});
  else if (!both_told && (!is_root || std::round(root) == root))
    found.push_back({"clip.threshold", evidence_of("")});
  return found;
}

}  // namespace lockstep::diagnosis
