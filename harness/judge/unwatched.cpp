#include "harness/judge/unwatched.h"

#include <algorithm>
#include <string>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/judge/alone.h"
#include "harness/judge/recorded.h"
#include "harness/launch/outcome.h"
#include "harness/launch/outcome_file.h"
#include "harness/launch/progress.h"
#include "harness/scenario/changes.h"
#include "harness/trace/modules.h"
#include "harness/trace/reader.h"

namespace lockstep::judge {
namespace {

namespace fs = std::filesystem;

using launch::RunOutcome;

/// Keys of a RunSpec that say where its files are and who wrote it, not what is computed or recorded.
constexpr const char* kOfThePlace[] = {"files", "build"};

/// Why a RunSpec is not that of a run of the plan; empty: it is.
std::string other_recipe(const plan::WorkerProgram& program, const fs::path& file) {
  Json expected = program.spec, actual;
  try {
    actual = read_json(file);
  } catch (const Error& error) {
    return error.problem().what + " (" + file.string() + ")";
  }
  if (!actual.is_object()) return file.string() + " is not a RunSpec";
  for (const char* key : kOfThePlace) {
    expected.erase(key);
    actual.erase(key);
  }
  std::vector<std::string> texts;
  for (const scenario::Change& change : scenario::changes_between(expected, actual)) {
    if (change.path() != "train_digest") texts.push_back(change.text());
  }
  if (texts.empty() && expected == actual) return "";
  if (texts.empty()) texts.emplace_back("the data are others (train_digest)");
  return file.string() + " is of another recipe than the scenario's: " + some_of(texts, 3);
}

/// Why the folder of a run cannot be taken for its own; empty: it can.
std::string foreign(const plan::Run& run, const fs::path& directory) {
  if (!is_folder(directory))
    return "there is no folder " + directory.string() + ": it was not started, or its traces are somewhere else";
  const auto* const worker = std::get_if<plan::WorkerProgram>(&run.program);
  const fs::path spec = directory / "run.json";
  return worker != nullptr && is_there(spec) ? other_recipe(*worker, spec) : "";
}

/// The last sign of life of each rank, and its own words if it failed; empty where a run left none.
std::string signs_of_life(const plan::Run& run, const fs::path& directory) {
  std::string text;
  for (std::int64_t rank = 0; rank < run.world_size; ++rank) {
    const launch::Progress progress = launch::read_progress(launch::progress_path(directory, rank));
    const auto failure = launch::read_failure(launch::failure_path(directory, rank));
    if (progress.beats == 0 && !failure) continue;
    text += "; rank " + std::to_string(rank) + " stood " + launch::place_of(progress);
    if (failure) text += " and failed: " + failure->what + (failure->where.empty() ? "" : " (" + failure->where + ")");
  }
  return text;
}

RunOutcome unknown(const plan::Run& run, std::string why) {
  return {.run = run.name, .status = RunOutcome::Status::kUnknown, .why = std::move(why)};
}

/// For a program: its traces may be whole although it failed afterwards.
RunOutcome outcome_of_command(const plan::Run& run, const fs::path& directory) {
  const fs::path file = directory / kCommandFile;
  if (!is_there(file)) return unknown(run, "how the command ended is not known: " + file.string() + " is missing");
  const std::string failure = failure_of_command(file);
  if (failure.empty()) return {.run = run.name};
  return {.run = run.name, .status = RunOutcome::Status::kFailed, .why = failure};
}

/// As its folder says; finished where that says nothing, for its traces to confirm.
RunOutcome outcome_of(const plan::Run& run, const fs::path& directory) {
  if (std::string why = foreign(run, directory); !why.empty()) return unknown(run, std::move(why));
  std::optional<RunOutcome> said = launch::read_outcome(directory);
  if (const fs::path file = launch::outcome_path(directory); !said && is_there(file))
    return unknown(run, file.string() + " is damaged: how the run ended is not known");
  if (!said && !is_there(directory / trace::file_name_of_rank(0)))
    return unknown(run, "rank 0 left no trace in " + directory.string() + signs_of_life(run, directory));
  if (!said && std::holds_alternative<plan::CommandProgram>(run.program)) return outcome_of_command(run, directory);
  if (!said) return {.run = run.name};
  if (said->run != run.name)
    return unknown(run, launch::outcome_path(directory).string() + " is of another run: " + said->run);
  if (said->status == RunOutcome::Status::kInterrupted) return unknown(run, said->why);
  return std::move(*said);
}

/// Whether a recipe may break laws: it holds a planted mistake, or is one, which a check must find.
bool may_break_laws(const Alone& alone, const plan::Plan& plan, std::size_t run) {
  const plan::Run& of = plan.runs[run];
  const bool is_wrong = std::any_of(plan.checks.begin(), plan.checks.end(), [&](const plan::Check& check) {
    const std::vector<std::string>& names = check.spec.variants;
    return check.spec.expect && check.scenario == of.scenario &&
           std::find(names.begin(), names.end(), of.variant) != names.end();
  });
  return is_wrong || alone.holds_fault(run);
}

/// The law that a run of our worker breaks, although its recipe keeps them all: its traces may be another run's.
std::string broken_law(Alone& alone, const plan::Plan& plan, std::size_t run) {
  if (!std::holds_alternative<plan::WorkerProgram>(plan.runs[run].program) || may_break_laws(alone, plan, run))
    return "";
  const std::optional<checks::AskedLaw>& broken = alone.broken_by(run);
  if (!broken) return "";
  const compare::Divergence& at = *broken->result.divergence;
  return "it breaks the law '" + std::string(broken->law->name) + "' of its recipe (" + at.place_and_rank() +
         ": expected " + at.expected + ", there is " + at.actual + "): its traces may be those of another run";
}

/// Modules of a program whose files are not those that it imported; empty: all are, or it is none.
std::string changed_modules(const plan::Run& run, const trace::RunTrace& trace) {
  const auto* const program = std::get_if<plan::CommandProgram>(&run.program);
  if (program == nullptr) return "";
  std::vector<std::string> changed;
  for (const auto& [path, digest] : trace::own_modules(trace)) {
    const fs::path file = (program->directory / path).lexically_normal();
    if (!is_there(file) || sha256(read_file(file)) != digest) changed.push_back(file.string());
  }
  return changed.empty() ? "" : "the program has changed since this run imported it: " + some_of(changed, 3);
}

/// Repeats and variants that no check would judge.
void require_no_more_runs(const plan::Plan& plan, const fs::path& runs_root) {
  for (const scenario::Scenario& scenario : plan.scenarios) {
    if (!is_folder(runs_root / scenario.name)) continue;
    for (const fs::path& variant : entries_of(runs_root / scenario.name)) {
      if (!is_folder(variant)) continue;
      for (const fs::path& repeat : entries_of(variant)) {
        const std::string name = repeat.lexically_relative(runs_root).string();
        const bool is_planned =
            std::any_of(plan.runs.begin(), plan.runs.end(), [&](const plan::Run& run) { return run.name == name; });
        if (is_planned || !is_folder(repeat)) continue;
        throw InputError({.what = "the folder holds a run that the scenario does not have",
                          .where = repeat.string(),
                          .expected = "only runs of " + scenario.file.string(),
                          .next = "add its variant or repeats to the scenario, or take the folder away"});
      }
    }
  }
}

}  // namespace

std::vector<Evidence> read_unwatched(plan::Plan& plan, const fs::path& runs_root) {
  require_no_more_runs(plan, runs_root);
  std::vector<RunOutcome> outcomes;
  for (const plan::Run& run : plan.runs) outcomes.push_back(outcome_of(run, runs_root / run.name));
  std::vector<Evidence> evidence = read_evidence(plan, std::move(outcomes), runs_root);
  for (std::size_t i = 0; i < evidence.size(); ++i) {
    if (evidence[i].trace || evidence[i].outcome.status != RunOutcome::Status::kFinished) continue;
    evidence[i].problem += signs_of_life(plan.runs[i], runs_root / plan.runs[i].name);
  }
  for (std::size_t i = 0; i < evidence.size(); ++i) {
    if (!evidence[i].trace) continue;
    evidence[i].problem = changed_modules(plan.runs[i], *evidence[i].trace);
    if (!evidence[i].problem.empty()) evidence[i].trace.reset();
  }
  Alone alone(plan, evidence);
  for (std::size_t i = 0; i < evidence.size(); ++i) evidence[i].doubt = broken_law(alone, plan, i);
  return evidence;
}

std::vector<std::optional<RunOutcome>> ended_before(const plan::Plan& plan, const fs::path& runs_root) {
  plan::Plan read = plan;  // whose programs' recipes are completed when all runs are there
  std::vector<std::optional<RunOutcome>> ended;
  for (Evidence& evidence : read_unwatched(read, runs_root)) {
    const RunOutcome::Status status = evidence.outcome.status;
    const bool is_final = (evidence.trace && evidence.doubt.empty()) || status == RunOutcome::Status::kFailed ||
                          status == RunOutcome::Status::kHung;
    ended.push_back(is_final ? std::optional(std::move(evidence.outcome)) : std::nullopt);
  }
  return ended;
}

}  // namespace lockstep::judge
