#include "harness/diagnosis/random_causes.h"

#include <algorithm>
#include <cmath>

#include "harness/compare/ladder.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/laws/held.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"

namespace lockstep::diagnosis {
namespace {

using compare::Divergence;
using compare::Suspect;
using laws::Held;
using laws::Reduction;
using trace::Channel;

/// Whether both sides hold the same in a channel of a step, and hold something.
bool same(const Scene& scene, std::int64_t step, Channel channel) {
  const auto records = [&](const Side& side) {
    std::vector<trace::Digest> digests;
    const trace::Step* found = side ? side.run->ranks[side.rank].find(step) : nullptr;
    for (const trace::Record& record : found == nullptr ? std::vector<trace::Record>{} : found->records) {
      if (record.channel == channel) digests.push_back(record.digest);
    }
    return digests;
  };
  const auto left = records(scene.left);
  return !left.empty() && left == records(scene.right);
}

/// Whether the first operator that computes something else adds into one place from several threads.
/// *Source*: pytorch.org/docs, torch.use_deterministic_algorithms: operators with a nondeterministic default.
bool accumulates_atomically(const Divergence& at) {
  if (!at.operator_) return false;
  for (const char* name : {"index_put", "put_", "index_add", "scatter_add", "scatter_reduce", "index_copy", "bincount",
                           "embedding_bag", "embedding_dense_backward", "index_backward", "gather_backward"}) {
    if (at.operator_->call.name.find(name) != std::string::npos) return true;
  }
  return false;
}

/// Sums of few elements that come out otherwise once are no race's: that exchanges whole tensors.
bool is_corruption(const Scene& scene) { return !suspects_in_corruption(scene).empty(); }

/// Whether what a rank holds may be sums that lack addends. Of whole tensors they are made of whole addends; of parts
/// of them nothing is known but that an addend is no trifle.
bool may_lack_addends(const Reduction& reduction, const Held& held, double ranks) {
  constexpr double kTrifle = 1.0 / 16;
  if (reduction.weights && reduction.weights->residual < laws::kFits) {
    const std::vector<double>& weights = reduction.weights->coefficients;
    return std::all_of(weights.begin(), weights.end(), [&](double weight) {
      const auto is = [&](double value) { return std::fabs(weight - value) < laws::kFits; };
      return is(0) || is(1 / ranks) || is(1);
    });
  }
  const trace::Record* first = held.find(Channel::kGradient, reduction.broken[0]);
  return first != nullptr && first->norm && reduction.distance > kTrifle * *first->norm;
}

/// Whether all ranks hold one gradient. What each reads before it has arrived is its own.
bool is_the_same_everywhere(const trace::RunTrace& run, std::int64_t step, const std::string& tensor) {
  const trace::Record* first = Held(run, 0, step).find(Channel::kGradient, tensor);
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    if (!trace::same_bits(first, Held(run, rank, step).find(Channel::kGradient, tensor))) return false;
  }
  return run.ranks.size() > 1;
}

/// Sums that come out otherwise in each run, although what is summed does not: too early, or in any order.
std::vector<Suspect> suspects_of_arrival(const std::vector<Side>& sides, std::int64_t step, const std::string& seen) {
  for (const Side& side : sides) {
    const laws::ReductionLaw law(*side.run, *side.promises);
    const auto rank = law.first_broken(step);
    if (!rank) continue;
    const Held held(*side.run, static_cast<std::size_t>(*rank), step);
    const Reduction reduction = law.judge(step, *rank);
    if (!may_lack_addends(reduction, held, static_cast<double>(side.run->world_size()))) return {};
    if (is_the_same_everywhere(*side.run, step, reduction.broken[0])) return {};
    return {{"comm.race",
             {seen, "in " + side.run->run + ", rank " + std::to_string(*rank) +
                        " does not hold the mean, by more than rounding"}}};
  }
  return {{"fp.unordered_threads", {seen, "all of them are the mean of the ranks' own gradients, up to rounding"}}};
}

/// Threads that add up in any order part the sums by rounding, and there must be several.
std::vector<Suspect> suspects_of_threads(const Scene& scene, const std::vector<std::string>& seen) {
  const Divergence& at = scene.at;
  const recipe::DeterminismSpec& asked = scene.right.promises->train.determinism;
  const compare::Location place{.step = at.step,
                                .channel = at.channel,
                                .tensor = at.tensor,
                                .left_rank = scene.left.rank,
                                .right_rank = scene.right.rank};
  if (asked.threads < 2 || !compare::differ_slightly(*scene.left.run, *scene.right.run, place)) return {};
  const Suspect threads{"fp.unordered_threads", seen};
  if (accumulates_atomically(at)) return {{"fp.atomic_op", {seen[0], at.operator_->text}}, threads};
  return asked.algorithms == recipe::Algorithms::kDefault ? std::vector<Suspect>{threads, {"fp.atomic_op", seen}}
                                                          : std::vector{threads};
}

/// The same training, run twice.
std::vector<Suspect> suspects_of_a_repeat(const Scene& scene) {
  const Divergence& at = scene.at;
  if (scene.right.begins_at(at.step) && (at.channel == Channel::kRng || at.channel == Channel::kWeight))
    return {{"rng.unseeded", {"the runs start in different states: " + at.place()}}};
  if (at.operator_ && at.operator_->says == compare::OperatorFinding::Says::kComputes &&
      compare::draws(at.operator_->call))
    return {{"rng.unseeded", {"random draws differ from run to run: " + at.operator_->text}}};
  if (at.channel == Channel::kSamples || at.channel == Channel::kRng)
    return {{"rng.unseeded", {"random draws differ from run to run, first at " + at.place()}}};
  if (trace::info(at.channel).part != trace::Part::kComputed) return {};
  const bool reduces = at.channel == Channel::kGradient;
  const std::vector<std::string> seen{at.place() + ": the runs differ, with equal " +
                                      (reduces ? "own gradients" : "inputs")};
  if (!same(scene, at.step, reduces ? Channel::kGradientLocal : Channel::kInput)) return {};
  if (!reduces) return suspects_of_threads(scene, seen);
  return is_corruption(scene) ? std::vector<Suspect>()
                              : suspects_of_arrival({scene.left, scene.right}, at.step, seen[0]);
}

/// Ranks of one run, another one each time, that part after a reduction.
std::vector<Suspect> suspects_of_parted_ranks(const Scene& scene) {
  if (scene.at.channel != Channel::kGradient || is_corruption(scene)) return {};
  return suspects_of_arrival(
      {scene.right}, scene.at.step,
      scene.at.place() + ": the ranks of " + scene.right.run->run + " differ, and in each run differently");
}

/// No two ranks were to hold the same.
std::vector<Suspect> suspects_of_clones(const Scene& scene) {
  if (scene.at.channel != Channel::kRng || !scene.right) return {};
  const recipe::TrainSpec& train = scene.right.promises->train;
  const std::vector<std::string> seen{scene.at.place() + ": the generators of two ranks are in the same state"};
  std::vector<Suspect> found;
  if (train.augmentation() == recipe::Augmentation::kRank) found.push_back({"rng.augment_rank_clone", seen});
  if (train.drops()) found.push_back({"rng.dropout_clone", seen});
  return found;
}

}  // namespace

std::vector<Suspect> suspects_in_random(const Scene& scene) {
  if (scene.at.class_ == scenario::Class::kNondeterminism && scene.within_one_run())
    return suspects_of_parted_ranks(scene);
  const bool repeats =
      scene.question.traits().sides == scenario::Sides::kRepeats || scene.at.class_ == scenario::Class::kNondeterminism;
  if (repeats && scene.left && scene.right) return suspects_of_a_repeat(scene);
  if (scene.question.traits().wants_different(scenario::Sides::kRanks)) return suspects_of_clones(scene);
  if (scene.at.channel != Channel::kRng || !scene.left || !scene.right) return {};
  const bool alike = same(scene, scene.at.step - 1, Channel::kRng) && same(scene, scene.at.step, Channel::kInput);
  if (!alike || scene.left.run->world_size() != scene.right.run->world_size()) return {};
  // Models that draw otherwise are another recipe, and nothing drew in between.
  const recipe::TrainSpec &left = scene.left.promises->train, &right = scene.right.promises->train;
  if (left.model.kind != right.model.kind || left.model.options != right.model.options) return {};
  const trace::Record *theirs = scene.left.find(scene.at.step, Channel::kRng, scene.at.tensor),
                      *its = scene.right.find(scene.at.step, Channel::kRng, scene.at.tensor);
  if (theirs == nullptr || its == nullptr) return {};
  std::vector<std::string> seen{scene.at.place() + ": the generators differ",
                                "they were equal one step before, and the inputs are equal: "
                                "one side drew more often than the other"};
  if (theirs->integers.size() == 2 && its->integers.size() == 2) {
    const std::int64_t more = (its->integers[1] - theirs->integers[1] + kBlock) % kBlock;
    const std::int64_t numbers = std::min(more, kBlock - more);
    if (theirs->integers[0] != its->integers[0] || numbers == 0 || numbers > kFewNumbers) return {};
    seen.push_back("the difference is " + std::to_string(numbers) + " numbers of the generator");
  }
  return {{"rng.loader_draw", seen}};
}

}  // namespace lockstep::diagnosis
