#pragma once

#include <cstddef>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/laws/finite.h"
#include "harness/laws/held.h"
#include "harness/laws/recover.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

/// Laws hold within one run: they find a mistake that every variant shares. docs/laws.md has a section for each.
namespace lockstep::laws {

/// First place where a law is broken.
struct Breach {
  RecordPlace at;
  std::string expected;
  std::string actual;
  std::string relation = {};  ///< how the two relate: "weights 1, 1"
  std::string cause = {};     ///< id of the cause that the numbers prove; empty: none
  std::string evidence = {};  ///< for that cause
};

/// A law against a run. It holds if it judged something and nothing is broken.
struct Outcome {
  std::size_t judged = 0;  ///< records
  std::optional<Breach> broken;
  std::optional<RecordPlace> hidden;  ///< first place from where NaN or infinity hides a breach
  std::string because;                ///< why it cannot judge; empty: it can
  std::string next;                   ///< what to do about that

  bool holds() const { return judged > 0 && !broken && !hidden && because.empty(); }
};

/// Where the causes of a breach are looked for.
enum class CausesOf {
  kBreach,     ///< the law names them
  kReduction,  ///< in the weights of the ranks' own gradients
  kClipping,   ///< in the norms before and after
};

/// *Lifetime*: of the program.
struct Law {
  std::string_view name;
  std::string_view statement;
  std::string_view when_broken;  ///< what a breach shows, in words
  std::vector<trace::Channel> channels;
  /// Null: a check judges one run by it (harness/checks/laws_check.cpp).
  Outcome (*judge)(const trace::RunTrace& run, const scenario::Promises& promises);
  /// Why the recipe has no use for it; empty: it has.
  std::string (*unasked)(const trace::RunTrace& run, const scenario::Promises& promises) = nullptr;
  CausesOf causes = CausesOf::kBreach;
  std::string_view against = "law";  ///< the other side of a breach

  /// A program may change weights and states itself, between updates: its breach counts if it promises its optimizer.
  bool needs_promise = false;
};

/// All laws, in the order in which a step can break them.
std::span<const Law> all_laws();

/// The law of this name. *Throws*: InternalError if there is none.
const Law& law_named(std::string_view name);

/// Asks a law of a run. It cannot tell where the run lacks a channel, or holds nothing to judge.
Outcome ask(const Law& law, const trace::RunTrace& run, const scenario::Promises& promises);

/// The outcome of a law that cannot tell.
Outcome cannot_tell(std::string because, std::string next = "");

/// Turns a program's breach into "cannot check": it may have changed its gradients itself.
Outcome unless_changed_by_hand(Outcome outcome);

/// The laws, each in a file of its own, <name>_law.cpp.
std::string no_data_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_order_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_scale_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_buffers_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_ledger_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_ranks_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_checkpoint_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_generators_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_evaluation_asked(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_evaluation(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_order(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_scale(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_buffers(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_generators(const trace::RunTrace& run, const scenario::Promises& promises);
/// The law `loss` of one step.
Outcome judge_reduced_loss(const trace::RunTrace& run, std::int64_t step);
Outcome judge_loss(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_content(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_content_asked(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_reduction(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_reduction_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_unscaling_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_clipping_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_state_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_average_asked(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_unscaling(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_clipping(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_state(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_update(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_average(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_backward(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_usage(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_usage_asked(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_shares(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_shares_asked(const trace::RunTrace& run, const scenario::Promises& promises);
std::string no_finite_asked(const trace::RunTrace& run, const scenario::Promises& promises);
Outcome judge_finite(const trace::RunTrace& run, const scenario::Promises& promises);

/// A linear rule for one record: target = Σ coefficient · term.
struct Rule {
  const trace::Record* target = nullptr;
  std::vector<std::pair<double, const trace::Record*>> terms;  ///< null: zero
  double relative = 0;  ///< relative error of the coefficients themselves, beyond rounding
};

/// How far a record is from its rule, and how far rounding can take it.
struct Distance {
  double distance = 0;
  double bound = 0;

  bool is_broken() const { return !(distance <= bound); }
  /// "0.3 away; rounding explains 1e-7".
  std::string text() const;
};

/// Unit roundoff that laws grant float32 and float64, sums in float64 with it. Nothing for others.
std::optional<double> roundoff_of(trace::DType dtype);

/// Distance of a record from its rule; nothing if a sketch is missing, an element is not finite, or the dtype is
/// neither float32 nor float64.
///
/// Each operation of a rule rounds once, relative to its result, and so do the coefficients that a kernel takes in
/// float32: no rule here has more than eight of these, so 8u·Σ|coefficient|·‖term‖ bounds the sum. Sketches give the
/// distance within a factor of 2. *Source*: Higham 2002, section 3.1.
std::optional<Distance> distance_of(const Rule& rule);

/// Judges the record that a rule makes, if it can. False if it breaks the rule: place and distance stand in the
/// outcome then.
bool keeps(Outcome& outcome, const Rule& rule, std::int64_t step, std::int64_t rank);

/// Calls `visit` with what each rank holds after each recorded step, until it returns false.
void for_each_state(const trace::RunTrace& run,
                    const std::function<bool(std::int64_t step, std::int64_t rank, const Held& now)>& visit);

/// Equation of a rule, for `recover`.
Equation equation_of(const Rule& rule);

}  // namespace lockstep::laws
