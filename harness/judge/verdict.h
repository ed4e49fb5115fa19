#pragma once

#include <cstdint>
#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/checks/check.h"
#include "harness/judge/pictures.h"
#include "harness/launch/job.h"

namespace lockstep::judge {

/// Status of a verdict or a part of it. Ordered by severity: the worst wins.
enum class Status {
  kAgree,
  kUnsupported,
  kBaseline,
  kInconclusive,
  kDivergence,
  kInvalid,  ///< a worker refused its RunSpec: nothing was judged
  kInterrupted,
};

std::string_view name_of(Status status);

/// Process exit code: 0 agree, 1 divergence, 2 invalid, 3 baseline, 4 inconclusive, 77 unsupported, 130 interrupted.
int exit_code(Status status);

/// One run that did not end well.
struct RunReport {
  std::string run;
  Status status = Status::kDivergence;                  ///< kAgree where a check expects it to end so
  scenario::Class class_ = scenario::Class::kLiveness;  ///< of a divergence
  std::vector<compare::Suspect> suspects;               ///< causes, the likeliest first
  std::string expected_failure;                         ///< reason, when the author expected it
  std::string outcome;                                  ///< "failed", "hung", …
  std::optional<std::int64_t> culprit;
  std::string why;
  std::string log_tail;
  std::string next;  ///< what to do about it; empty: nothing that we know
  std::string reproduce;
};

/// Result of one control run.
struct Experiment {
  std::string control;  ///< "replay", "float64"
  std::string shows;    ///< in words
};

/// One check, judged.
struct CheckReport {
  std::string scenario;
  std::size_t index = 0;
  scenario::CheckKind that = scenario::CheckKind::kEqual;
  std::vector<std::string> variants;
  Status status = Status::kAgree;
  checks::CheckResult result;
  std::vector<Experiment> experiments;
  std::map<std::string, std::string> goldens;  ///< files that it compared with: their SHA-256
  std::vector<std::string> not_compared;       ///< channels that the check would look at, and a side does not record
  std::string decided_by;        ///< row of the table of docs/rounding.md; empty where nothing differs or is open
  std::string expected_failure;  ///< reason, when the author expected the check to fail
  std::string reproduce;
};

/// All that was judged. Every judgement is in it; presenters only render.
struct Verdict {
  std::vector<RunReport> runs;        ///< those that did not end well
  std::vector<CheckReport> checks;    ///< all
  std::vector<std::string> warnings;  ///< what runs that ended well complained of
  std::size_t runs_finished = 0;
  std::size_t runs_total = 0;
  double wall_s = 0;
  std::vector<Pictures> pictures = {};          ///< one for each scenario, where a report draws (judge/illustrate.h)
  std::filesystem::path temporary_folder = {};  ///< of the runs; empty: the user named one

  /// The worst of all parts; inconclusive when nothing was judged.
  Status status() const;
  /// The worst of one scenario's parts; inconclusive when nothing of it was judged.
  Status status_of(const std::string& scenario) const;
};

}  // namespace lockstep::judge
