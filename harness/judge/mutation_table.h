#pragma once

#include <string>
#include <vector>

#include "harness/judge/verdict.h"
#include "harness/plan/mutations.h"

namespace lockstep::judge {

/// A mutation, tried.
struct MutationRow {
  enum class Outcome {
    kRed,    ///< a check of the practice finds it
    kGreen,  ///< all of them hold
    kOpen,   ///< a run failed, or no check could be decided
  };
  std::string name;
  Outcome outcome = Outcome::kOpen;
  std::vector<std::string> red;  ///< checks that find it
  std::string why;               ///< where it is open
};

struct PracticeRow {
  std::string scenario;
  std::string file;
  std::string name;
  std::vector<std::string> proven_by;  ///< names of checks
  std::vector<MutationRow> mutations;  ///< those of the part that was tried
};

/// Result of `lockstep run --mutations`.
struct MutationTable {
  std::vector<PracticeRow> practices;  ///< with a mutation that was tried
  Status unmutated = Status::kAgree;   ///< of the scenarios as they are
  plan::Part part = {};

  /// Status of the scenarios as they are, if they do not agree; else a divergence if a mutation is not red.
  Status status() const;
  /// Mutations that ended so.
  std::size_t count(MutationRow::Outcome outcome) const;
};

/// Whether a check's report is red whatever control runs show: not where rounding may explain a difference, or where
/// the scenario expects another cause.
bool is_surely_red(const CheckReport& report, const scenario::Scenario& scenario, const scenario::CheckSpec& spec);

/// `trials`, `unmutated`: the verdicts on the checks and runs of the mutations, and on those of the scenarios.
MutationTable mutation_table(const std::vector<plan::Mutated>& scenarios, const Verdict& trials,
                             const Verdict& unmutated);

}  // namespace lockstep::judge
