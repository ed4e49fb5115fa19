#include "harness/diagnosis/diagnose.h"

#include "harness/compare/pattern.h"
#include "harness/diagnosis/causes.h"
#include "harness/diagnosis/data.h"
#include "harness/diagnosis/environment.h"
#include "harness/diagnosis/gradients.h"
#include "harness/diagnosis/layout.h"
#include "harness/diagnosis/random.h"
#include "harness/diagnosis/ranks.h"
#include "harness/diagnosis/rates.h"
#include "harness/diagnosis/resumption.h"
#include "harness/diagnosis/rounding.h"
#include "harness/diagnosis/shares.h"
#include "harness/diagnosis/update.h"

namespace lockstep::diagnosis {
namespace {

using compare::Again;
using compare::Divergence;
using compare::Suspect;
using scenario::Class;

/// The first that knows a cause is believed. What is known to be random, or to come from the machines, is no matter of
/// the recipe; the rest in the order in which a training meets it.
constexpr std::vector<Suspect> (*kDiagnosers[])(const Scene&) = {
    suspects_in_random, suspects_in_environment, suspects_in_resumption, suspects_in_data,
    suspects_in_rates,  suspects_in_layout,      suspects_in_shares,     suspects_in_gradients,
    suspects_in_update, suspects_in_ranks,       suspects_in_rounding,
};

/// Rounding that is coarser than float32's, on purpose, and so is in float64, too.
bool is_coarse(const std::string& cause) { return cause == "fp.lowprec_accumulate" || cause == "fp.precision_mode"; }

/// Whether the first operator that parts was told to do something else, by a number or a flag, or draws: then nothing
/// that arrives in any order is why.
bool is_told_otherwise(const Divergence& at) {
  return at.operator_ && (at.operator_->by_value || (at.operator_->says == compare::OperatorFinding::Says::kComputes &&
                                                     compare::draws(at.operator_->call)));
}

/// Whether control runs have shown that it cannot be the cause. Memory that fails does so once; what comes out
/// otherwise each time is random; what stays in float64 is no rounding.
bool is_refuted(const Suspect& suspect, const Divergence& at) {
  const Class class_ = find_cause(suspect.cause)->class_;
  if (suspect.cause == "hw.sdc_rank") return at.again == Again::kSame || at.again == Again::kEachTimeOtherwise;
  const bool is_order = suspect.cause.starts_with("fp.") && suspect.cause != "fp.rounding";
  const bool of_arrival = suspect.cause == "comm.race" || (is_order && !is_coarse(suspect.cause));
  if (of_arrival && is_told_otherwise(at)) return true;
  if (suspect.cause == "comm.noncontiguous" && at.element && !at.element->is_other_layout) return true;
  const bool of_draws = suspect.cause == "rng.loader_draw" || suspect.cause == "ckpt.rng_order";
  if (of_draws && at.operator_ && at.operator_->by_value) return true;
  if (at.class_ == Class::kNondeterminism && class_ != Class::kNondeterminism) return true;
  return at.is_no_rounding && class_ == Class::kRounding && !is_coarse(suspect.cause);
}

}  // namespace

void diagnose(const Question& question, Divergence& at) {
  if (!at.phase.empty()) return;
  const Scene scene(question, at);
  if (scene.left && scene.right && !scene.within_one_run())
    at.patterns =
        compare::patterns_of(*scene.left.run, *scene.right.run, at, scene.right.promises->train.batch.accumulation);
  const auto refuted = [&](const Suspect& suspect) { return is_refuted(suspect, at); };
  std::erase_if(at.suspects, refuted);
  for (const auto suspects_of : kDiagnosers) {
    if (at.suspects.empty()) at.suspects = suspects_of(scene);
    std::erase_if(at.suspects, refuted);
  }
  if (!at.suspects.empty()) at.class_ = find_cause(at.suspects[0].cause)->class_;
}

}  // namespace lockstep::diagnosis
