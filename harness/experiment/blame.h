#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/experiment/control.h"
#include "harness/experiment/investigation.h"
#include "harness/scenario/changes.h"

namespace lockstep::experiment {

/// Two trainings of one scenario, or one and its golden.
struct Parties {
  std::string left;
  std::string right;  ///< "golden": the accepted trace of `left`
  /// The relation that is to hold between them: equal, rounding or golden.
  scenario::CheckKind that = scenario::CheckKind::kEqual;
};

/// The difference under one control.
struct ControlResult {
  enum class Outcome {
    kStays,         ///< first at the same place
    kMoves,         ///< first at another place
    kVanishes,      ///< the relation holds
    kUndecided,     ///< nothing could be judged
    kDoesNotApply,  ///< the scenario cannot be run so
  };
  NamedControl control;
  Outcome outcome = Outcome::kStays;
  std::string shows;
};
std::string_view name_of(ControlResult::Outcome outcome);

/// The result of `lockstep blame`.
struct Blame {
  plan::Plan plan;          ///< of the two trainings as they are
  report::Verdict verdict;  ///< one check, investigated
  std::vector<ControlResult> controls;
  std::vector<scenario::Change> changes;   ///< all in which the variants differ
  std::vector<scenario::Change> smallest;  ///< with these alone `left` differs from itself; empty: not found, or none
  bool found = false;                      ///< whether `smallest` was confirmed by a run

  const report::CheckReport& check() const { return verdict.checks.at(0); }
};

/// Says what is being tried: "control 3 of 12: isa".
using Progress = std::function<void(const std::string& text)>;

/// Runs two trainings, and if the relation does not hold, what may tell why: each control on both sides, and `left`
/// with fewer and fewer of the changes that make it `right`. *Throws*: InputError for variants that the scenario lacks.
Blame blame(const scenario::Scenario& scenario, const Parties& parties, const std::vector<NamedControl>& controls,
            const std::filesystem::path& golden_root, const std::string& today, const Execute& execute,
            const Progress& progress);

}  // namespace lockstep::experiment
