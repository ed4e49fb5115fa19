#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/compare/scope.h"
#include "harness/compare/suspect.h"
#include "harness/scenario/scenario.h"

namespace lockstep::diagnosis {

/// Context of a divergence: the check's relation and all runs that may serve as evidence.
/// *Lifetime*: of the traces and the promises.
struct Question {
  scenario::CheckKind that = scenario::CheckKind::kEqual;
  std::string straight;  ///< for a resumption: the variant that never stopped
  std::map<std::string, std::vector<const trace::RunTrace*>> traces;  ///< repeats, by variant
  std::map<std::string, const scenario::Promises*> promises;          ///< by variant, also of variants without a trace

  const scenario::CheckTraits& traits() const { return scenario::traits_of(that); }
};

/// One side of a divergence.
struct Side {
  const trace::RunTrace* run = nullptr;  ///< null: a golden, a closed form or a checkpoint
  const scenario::Promises* promises = nullptr;
  std::size_t rank = 0;

  explicit operator bool() const { return run != nullptr; }

  /// Whether its trace begins with this step.
  bool begins_at(std::int64_t step) const;

  /// The record at a place of this side; null if there is none.
  const trace::Record* find(std::int64_t step, trace::Channel channel, const std::string& name) const;
};

/// A divergence, its context and its two sides. *Lifetime*: of question and divergence.
struct Scene {
  const Question& question;
  const compare::Divergence& at;
  Side left, right;

  Scene(const Question& question, const compare::Divergence& at);

  /// Whether the sides are ranks of one run.
  bool within_one_run() const { return left.run != nullptr && left.run == right.run; }
};

/// Suspects of one side only, the right side's first: a cause that both sides share does not explain a difference.
/// Within one run: all its suspects.
template <typename SuspectsOf>
std::vector<compare::Suspect> between(const Scene& scene, SuspectsOf suspects_of);

/// "step 3, runs/b"
std::string place_of(const trace::RunTrace& run, std::int64_t step);

/// Whether a cause is among the suspects.
bool accuses(const std::vector<compare::Suspect>& suspects, const std::string& cause);

template <typename SuspectsOf>
std::vector<compare::Suspect> between(const Scene& scene, SuspectsOf suspects_of) {
  const auto of = [&](const Side& side) { return side ? suspects_of(side) : std::vector<compare::Suspect>{}; };
  const std::vector<compare::Suspect> theirs = of(scene.left);
  if (scene.within_one_run()) return theirs;
  const std::vector<compare::Suspect> its = of(scene.right);
  std::vector<compare::Suspect> found;
  for (const compare::Suspect& suspect : its) {
    if (!accuses(theirs, suspect.cause)) found.push_back(suspect);
  }
  for (const compare::Suspect& suspect : theirs) {
    if (!accuses(its, suspect.cause)) found.push_back(suspect);
  }
  return found;
}

}  // namespace lockstep::diagnosis
