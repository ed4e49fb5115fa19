#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/compare/runs.h"
#include "harness/compare/suspect.h"
#include "harness/scenario/scenario.h"

namespace lockstep::diagnosis {

/// How a divergence was come upon: the relation that was asked for, and all runs that can tell something of it.
/// *Lifetime*: of the traces and the promises.
struct Question {
  scenario::CheckKind that = scenario::CheckKind::kEqual;
  std::string straight;  ///< of a resumption: the variant that never stopped
  std::map<std::string, std::vector<const trace::RunTrace*>> traces;  ///< repeats, by variant
  std::map<std::string, const scenario::Promises*> promises;          ///< of each variant, those without a trace, too

  const scenario::CheckTraits& traits() const { return scenario::traits_of(that); }
};

/// One side of a divergence, as far as a trace holds it.
struct Side {
  const trace::RunTrace* run = nullptr;  ///< null: a golden, a closed form or a checkpoint
  const scenario::Promises* promises = nullptr;
  std::size_t rank = 0;

  explicit operator bool() const { return run != nullptr; }

  /// Whether its trace begins with this step.
  bool begins_at(std::int64_t step) const;

  /// The record at a place of this side; null where there is none.
  const trace::Record* find(std::int64_t step, trace::Channel channel, const std::string& name) const;
};

/// A divergence, and all that its runs say about it. *Lifetime*: of question and divergence.
struct Scene {
  const Question& question;
  const compare::Divergence& at;
  Side left, right;

  Scene(const Question& question, const compare::Divergence& at);

  /// Whether the sides are ranks of one run.
  bool within_one_run() const { return left.run != nullptr && left.run == right.run; }
};

/// What speaks against the right side only, else what speaks against the left side only: what both have in common
/// makes no difference between them. Of one run, what speaks against it.
template <typename SuspectsOf>
std::vector<compare::Suspect> between(const Scene& scene, SuspectsOf suspects_of);

/// Whether some suspect is this cause.
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
