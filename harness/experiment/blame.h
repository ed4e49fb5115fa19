#pragma once

#include <functional>
#include <string>
#include <vector>

#include "harness/experiment/controls.h"
#include "harness/experiment/investigation.h"
#include "harness/scenario/changes.h"

namespace lockstep::blaming {

/// Two trainings of one scenario, or a training and its golden.
struct Parties {
  std::string left;
  std::string right;  ///< "golden": the accepted trace of `left`
  /// Relation that should hold between them: equal, rounding or golden.
  scenario::CheckKind that = scenario::CheckKind::kEqual;
};

/// Result of one control.
struct ControlResult {
  enum class Outcome {
    kStays,         ///< the first difference is at the same place
    kMoves,         ///< the first difference is at another place
    kVanishes,      ///< the relation holds
    kUndecided,     ///< nothing could be judged
    kDoesNotApply,  ///< the scenario cannot run under this control
  };
  NamedControl control;
  Outcome outcome = Outcome::kStays;
  std::string shows;
};
std::string_view name_of(ControlResult::Outcome outcome);

/// The result of `lockstep blame`.
struct Blame {
  plan::Plan plan;         ///< the two trainings without controls
  judge::Verdict verdict;  ///< one check, investigated
  std::vector<ControlResult> controls;
  std::vector<scenario::Change> changes;   ///< all settings in which the variants differ
  std::vector<scenario::Change> smallest;  ///< fewest changes that make `left` differ from itself; empty: none found
  bool found = false;                      ///< whether `smallest` was confirmed by a run

  const judge::CheckReport& check() const { return verdict.checks.at(0); }
};

/// Called before each trial: "control 3 of 12: isa".
using Progress = std::function<void(const std::string& text)>;

/// Runs two trainings. If the relation does not hold, it looks for the reason: it runs each control on both sides, and
/// `left` with fewer and fewer of the changes that turn it into `right`. *Throws*: InputError for variants that the
/// scenario lacks.
Blame blame(const scenario::Scenario& scenario, const Parties& parties, const std::vector<NamedControl>& controls,
            const std::filesystem::path& golden_root, const std::string& today, const experiment::Execute& execute,
            const Progress& progress);

}  // namespace lockstep::blaming
