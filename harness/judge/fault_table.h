#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/judge/judge.h"
#include "harness/plan/part.h"
#include "harness/plan/plan.h"

namespace lockstep::judge {

/// How a planted fault was met by the check that is meant for it.
struct FaultRow {
  std::string scenario;
  std::string check;    ///< kind, and the variants
  std::string reason;   ///< what the scenario's author planted
  std::string planted;  ///< cause by id, "unknown" for a fault that no cause describes, or empty: any will do
  std::optional<scenario::Class> class_;  ///< expected, where the scenario says
  bool inert = false;                     ///< the faulty runs' traces are those of the clean ones, bit for bit
  bool detected = false;
  bool class_right = false;
  std::size_t rank_of_cause = 0;  ///< place of the right cause among those named, from 1; 0: not named
  bool located = false;           ///< step, channel, tensor and rank, as far as the scenario says them
  std::string found;              ///< cause that was named first
  std::string found_by_diff;      ///< the same by `lockstep diff` of the two runs; empty where no two runs part
  std::string at;                 ///< where
  std::string law;                ///< that the faulty runs break by themselves, without a twin; empty: none
  std::string found_alone;        ///< cause that this breach names
};

/// A check that must hold.
struct CleanRow {
  std::string scenario;
  std::string check;
  std::size_t pairs = 0;  ///< of runs that it holds against each other
  Status status = Status::kAgree;
};

/// Result of `lockstep faults`.
struct FaultTable {
  std::vector<FaultRow> faults;
  std::vector<CleanRow> clean;
  std::vector<std::string> broken_clean;  ///< "run: law" of runs without a planted fault that break one
  std::size_t clean_runs = 0;             ///< that were asked all laws
  plan::Part part;                        ///< of the scenarios' checks
};

/// A check with an expectation is of a planted fault, one without is clean.
FaultTable fault_table(const Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence);

/// Whether a fault was met as its scenario expects; an inert one proves nothing.
bool is_right(const FaultRow& row);

/// Whether every figure is perfect.
bool perfect(const FaultTable& table);

/// The faults that are judged as their expectation says: "scenario: check (reason)". They do not
/// belong in a list of faults that are not found yet.
std::vector<std::string> rightly_judged(const FaultTable& table);

}  // namespace lockstep::judge
