#include "harness/diagnosis/diagnose.h"

#include <set>

#include "harness/compare/pattern.h"
#include "harness/compare/scope.h"
#include "harness/diagnosis/causes.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/diagnosis/random_causes.h"

namespace lockstep::diagnosis {
namespace {

using compare::Divergence;
using compare::Suspect;

/// The first that knows a cause is believed. A program's hyperparameters and modes are told, and nothing is left to
/// explain. What is known to be random, or to come from the machines, is no matter of
/// the recipe; the rest in the order in which a training meets it.
constexpr std::vector<Suspect> (*kDiagnosers[])(const Scene&) = {
    suspects_in_hyperparameters, suspects_in_left_overs, suspects_in_random,          suspects_in_seeds,
    suspects_in_environment,     suspects_in_resumption, suspects_in_loaded_programs, suspects_in_data,
    suspects_in_rates,           suspects_in_layout,     suspects_in_shares,          suspects_in_gradients,
    suspects_in_update,          suspects_in_ranks,      suspects_in_broken_laws,     suspects_in_rounding,
};

/// Whether the first operator that parts was told to do something else, by a number or a flag, or draws: then nothing
/// that arrives in any order is why.
bool is_told_otherwise(const Divergence& at) {
  return at.operator_ && (at.operator_->by_value || (at.operator_->says == compare::OperatorFinding::Says::kComputes &&
                                                     compare::draws(at.operator_->call)));
}

/// What is known of a finding that refutes causes.
unsigned shown_of(const Divergence& at, const Tried& tried) {
  unsigned shown = 0;
  if (tried.again == Again::kSame || tried.again == Again::kEachTimeOtherwise) shown |= kNoSingleEvent;
  if (at.class_ == scenario::Class::kNondeterminism) shown |= kVaries;
  if (tried.is_no_rounding) shown |= kNoRounding;
  if (is_told_otherwise(at)) shown |= kToldOtherwise;
  if (at.operator_ && at.operator_->by_value) shown |= kOtherValue;
  if (at.element && !at.element->is_other_layout) shown |= kSameLayout;
  return shown;
}

using Channels = std::set<trace::Channel>;

void diagnose_behind(const Question& question, Divergence& at, const Tried& tried, const Channels& seen);

/// Two programs whose generators or ledgers differ before the first update: a sampler may have drawn its order,
/// somebody seeds otherwise, or schedules are made for other rates. Or two whose collectives differ, or of which one
/// recorded what the other did not. The first difference of another channel tells more.
std::vector<Suspect> suspects_behind(const Question& question, const Scene& scene, Channels seen) {
  const trace::Channel channel = scene.at.channel;
  const bool of_start = channel == trace::Channel::kRng || channel == trace::Channel::kLedger;
  const bool is_followed = channel == trace::Channel::kCollective || scene.at.lacks(compare::Missing::kRecord) ||
                           (of_start && scene.at.step == trace::kInitialStep);
  if (!is_followed || !is_between_programs(scene) || !seen.insert(channel).second) return {};
  std::vector<trace::Channel> others =
      trace::channels_that([&](const trace::ChannelInfo& row) { return !seen.contains(row.channel); });
  auto next = compare::compare_runs(*scene.left.run, *scene.right.run, others, compare::bitwise).first;
  if (!next) return {};
  diagnose_behind(question, *next, {}, seen);
  for (Suspect& suspect : next->suspects)
    suspect.evidence.push_back("outside of the channel " + std::string(name_of(channel)) +
                               ", the first difference is at " + next->place_and_rank());
  return next->suspects;
}

/// `seen`: channels whose differences came before this one.
void diagnose_behind(const Question& question, Divergence& at, const Tried& tried, const Channels& seen) {
  if (!at.phase.empty()) return;
  const Scene scene(question, at);
  if (scene.left && scene.right && !scene.within_one_run())
    at.patterns =
        compare::patterns_of(*scene.left.run, *scene.right.run, at, scene.right.promises->train.batch.accumulation);
  const unsigned shown = shown_of(at, tried);
  const auto refuted = [&](const Suspect& suspect) { return (find_cause(suspect.cause)->refuted_by & shown) != 0; };
  std::erase_if(at.suspects, refuted);
  for (const auto suspects_of : kDiagnosers) {
    if (at.suspects.empty()) at.suspects = suspects_of(scene);
    std::erase_if(at.suspects, refuted);
  }
  if (at.suspects.empty()) at.suspects = suspects_behind(question, scene, seen);
  if (!at.suspects.empty()) at.class_ = find_cause(at.suspects[0].cause)->class_;
}

}  // namespace

void diagnose(const Question& question, Divergence& at, const Tried& tried) {
  diagnose_behind(question, at, tried, {});
}

}  // namespace lockstep::diagnosis
