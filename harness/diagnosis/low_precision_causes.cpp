#include "harness/diagnosis/low_precision_causes.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <optional>

#include "harness/base/text.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using laws::Made;
using laws::OwnGradients;
using trace::Channel;

/// Farther apart than this is another function, nearer is float32.
constexpr double kMost = 0x1p-5;
constexpr double kLeast = 0x1p-15;

/// The largest element of a gradient is one that can be read.
struct Short {
  std::size_t numbers = 0, of = 0;

  bool most() const { return 2 * numbers > of; }
};

Short short_numbers(const std::vector<const trace::Record*>& gradients) {
  Short found;
  for (const trace::Record* record : gradients) {
    if (!record->max_abs || !(*record->max_abs > 0) || record->dtype != trace::DType::kFloat32) continue;
    ++found.of;
    found.numbers += is_short(*record->max_abs) ? 1 : 0;
  }
  return found;
}

/// A side's ranks whose gradients are short, and one whose are not.
struct RanksInShort {
  std::vector<std::string> in_short;
  Short example;
  std::size_t others = 0;
};

RanksInShort ranks_of(const OwnGradients& own) {
  RanksInShort ranks;
  for (std::size_t rank = 0; rank < own.ranks(); ++rank) {
    const Short numbers = short_numbers(own.records(rank));
    if (numbers.most()) {
      ranks.in_short.push_back(std::to_string(rank));
      ranks.example = numbers;
    } else {
      ++ranks.others;
    }
  }
  return ranks;
}

/// Whether the one is a multiple of the other, which no rounding of many numbers makes.
bool is_multiple(const Made& one, const Made& other) {
  const auto fitted = laws::fit(one, {&other});
  return fitted && fitted->residual < laws::kMultipleRest * std::fabs(fitted->coefficients[0] - 1);
}

/// Nothing where a side did not record its loss.
std::optional<bool> losses_differ(const Scene& scene) {
  const auto loss = [&](const Side& side) {
    const Held held(*side.run, side.rank, scene.at.step);
    const bool is_reduced =
        held.find(Channel::kLoss, trace::entry::kReduced) != nullptr;  // not by a program's recorder
    return laws::number_at(held, Channel::kLoss, is_reduced ? trace::entry::kReduced : "local");
  };
  const double theirs = loss(scene.left), its = loss(scene.right);
  if (!std::isfinite(theirs) || !std::isfinite(its)) return std::nullopt;
  return std::fabs(its - theirs) > kLeast * std::fabs(theirs);
}

std::vector<Suspect> named(const Scene& scene, const Side& side, const RanksInShort& ranks, double distance) {
  std::vector<std::string> evidence{"step " + std::to_string(scene.at.step) + ", " + side.run->run + ": on rank " +
                                    join(ranks.in_short, ", ") + " the largest elements of " +
                                    std::to_string(ranks.example.numbers) + " of " + std::to_string(ranks.example.of) +
                                    " own gradients fit in 16 bits; the other side's do not"};
  evidence.push_back("the gradients of the two sides are " + rounded(distance, 3) + " of their norm apart");
  const auto losses = losses_differ(scene);
  const bool forward = losses.value_or(false);
  if (losses)
    evidence.push_back(forward ? "the losses differ, too: the forward pass was rounded"
                               : "the losses do not differ by as much: only the gradients were rounded");
  if (side.promises->train.coarsest_arithmetic())
    evidence.push_back("the scenario asks for " + *side.promises->train.coarsest_arithmetic());
  if (ranks.others > 0) evidence.push_back("the other ranks compute in full precision");
  const Suspect mode{"fp.precision_mode", evidence}, sums{"fp.lowprec_accumulate", evidence};
  return forward || ranks.others > 0 ? std::vector{mode, sums} : std::vector{sums, mode};
}

/// What FSDP2 is told on each side, where that differs; empty where a side has none, or both are told the same.
std::vector<std::string> told_otherwise(const Scene& scene, const char* what) {
  std::vector<std::string> told;
  for (const Side* side : {&scene.left, &scene.right}) {
    const Json fsdp = laws::fsdp_of(*side->run);
    if (!fsdp.contains(what)) return {};
    told.push_back(fsdp[what].get<std::string>());
  }
  return told[0] == told[1] ? std::vector<std::string>{} : told;
}

/// Two programs whose FSDP2 computes in other dtypes, or reduces the same gradients in others.
std::vector<Suspect> suspects_in_policies(const Scene& scene) {
  const auto said = [&](const std::vector<std::string>& told, const char* does) {
    return std::vector<std::string>{"FSDP2 of " + scene.left.run->run + " " + does + " in " + told[0] + ", that of " +
                                    scene.right.run->run + " in " + told[1]};
  };
  if (const auto told = told_otherwise(scene, "param_dtype"); !told.empty())
    return {{"fp.precision_mode", said(told, "computes")}};
  const auto told = told_otherwise(scene, "reduce_dtype");
  if (told.empty() || scene.at.channel != Channel::kGradient) return {};
  const OwnGradients left(*scene.left.run, scene.at.step), right(*scene.right.run, scene.at.step);
  if (!left.complete() || !right.complete() || laws::apart(right.mean(), left.mean()) > kLeast) return {};
  auto evidence = said(told, "reduces gradients");
  evidence.push_back("the ranks' own gradients agree");
  return {{"comm.lossy", evidence}};
}

}  // namespace

bool is_short(double value) {
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(value));
  return (bits & 0x1fffU) == 0;
}

std::vector<Suspect> suspects_in_precision(const Scene& scene) {
  const auto as_asked = [](const Side& side) {
    return side && laws::sent_roundoff(*side.run, *side.promises) > trace::unit_roundoff(trace::DType::kFloat32);
  };
  if (scene.at.detour && !as_asked(scene.left) && !as_asked(scene.right))
    return {{"fp.lowprec_accumulate",
             {scene.at.place() + ": every element follows from the ranks' own gradients, " + scene.at.detour->text()}}};
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  if (auto found = suspects_in_policies(scene); !found.empty()) return found;
  const OwnGradients left(*scene.left.run, scene.at.step), right(*scene.right.run, scene.at.step);
  if (!left.complete() || !right.complete()) return {};
  const double distance = laws::apart(right.mean(), left.mean());
  if (!(distance > kLeast) || !(distance < kMost) || is_multiple(right.mean(), left.mean())) return {};
  const RanksInShort theirs = ranks_of(left), its = ranks_of(right);
  if (theirs.in_short.empty() && !its.in_short.empty()) return named(scene, scene.right, its, distance);
  if (its.in_short.empty() && !theirs.in_short.empty()) return named(scene, scene.left, theirs, distance);
  return {};
}

}  // namespace lockstep::diagnosis
