#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/compare/causes.h"
#include "harness/compare/check.h"

namespace lockstep::compare {

/// One side of a divergence, as far as the check's runs hold it.
struct Side {
  const trace::RunTrace* run = nullptr;  ///< null: a golden, a closed form or a checkpoint
  const scenario::Variant* variant = nullptr;
  std::size_t rank = 0;

  explicit operator bool() const { return run != nullptr; }

  /// Whether its trace begins with this step.
  bool begins_at(std::int64_t step) const;

  /// The record at a place of this side; null where there is none.
  const trace::Record* find(std::int64_t step, trace::Channel channel, const std::string& name) const;
};

/// A divergence, and all that its runs say about it. *Lifetime*: of the check's input.
struct Scene {
  const CheckInput& input;
  const Divergence& at;
  Side left, right;

  Scene(const CheckInput& input, const Divergence& at);

  /// Whether the sides are ranks of one run.
  bool within_one_run() const { return left.run != nullptr && left.run == right.run; }
};

/// What speaks against the right side only, else what speaks against the left side only: what both have in common
/// makes no difference between them. Of one run, what speaks against it.
template <typename SuspectsOf>
std::vector<Suspect> between(const Scene& scene, SuspectsOf suspects_of);

/// Whether some suspect is this cause.
bool accuses(const std::vector<Suspect>& suspects, const std::string& cause);

template <typename SuspectsOf>
std::vector<Suspect> between(const Scene& scene, SuspectsOf suspects_of) {
  const auto of = [&](const Side& side) { return side ? suspects_of(side) : std::vector<Suspect>{}; };
  const std::vector<Suspect> theirs = of(scene.left);
  if (scene.within_one_run()) return theirs;
  const std::vector<Suspect> its = of(scene.right);
  std::vector<Suspect> found;
  for (const Suspect& suspect : its) {
    if (!accuses(theirs, suspect.cause)) found.push_back(suspect);
  }
  for (const Suspect& suspect : theirs) {
    if (!accuses(its, suspect.cause)) found.push_back(suspect);
  }
  return found;
}

}  // namespace lockstep::compare
