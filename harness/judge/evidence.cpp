#include "harness/judge/evidence.h"

#include <algorithm>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/compare/continuation.h"
#include "harness/judge/implied.h"
#include "harness/laws/seen_facts.h"
#include "harness/scenario/seen_recipe.h"
#include "harness/trace/checkpoint_files.h"
#include "harness/trace/inputs.h"
#include "harness/trace/reader.h"

namespace lockstep::judge {
namespace {

/// A key of a trace's first line that is not as this run would write it, and both values; empty: there is none.
/// Programs that record themselves may not know which repeat they record, nor which part of the channels.
std::string strange_key(const plan::Run& run, const Json& header) {
  const Json expected = header_of(run);
  const bool is_ours = std::holds_alternative<plan::WorkerProgram>(run.program);
  for (const char* key : {"scenario", "variant", "train_digest", "repeat", "record"}) {
    const bool is_optional = !is_ours && (key == std::string_view("repeat") || key == std::string_view("record"));
    if (is_optional && !header.contains(key)) continue;
    const Json actual = header.value(key, Json());
    if (actual != expected[key]) return std::string(key) + " is " + actual.dump() + ", not " + expected[key].dump();
  }
  return "";
}

/// The files that a command names are other ones now than when a trace was recorded, and the run did not write them;
/// empty: they are the same.
std::string changed_inputs(const plan::Run& run, const Json& header, const std::set<std::string>& written) {
  const auto* const program = std::get_if<plan::CommandProgram>(&run.program);
  if (program == nullptr) return "";
  const std::vector<std::string> changed =
      keys_that_differ(trace::inputs_in(header, written), trace::inputs_in(program->header, written));
  return changed.empty() ? "" : "its command names files that had another content then: " + some_of(changed, 3);
}

std::string ranks(std::int64_t count) { return std::to_string(count) + (count == 1 ? " rank" : " ranks"); }

/// Whether a program, which starts its ranks itself, started another number of them than the scenario says.
bool has_other_ranks(const plan::Run& run, const trace::RunTrace& trace) {
  return std::holds_alternative<plan::CommandProgram>(run.program) && trace.world_size() != run.world_size;
}

/// What shows that a trace is not of this run; empty: nothing.
std::string strangeness(const plan::Run& run, const trace::RunTrace& trace) {
  if (trace.world_size() != run.world_size)
    return "it has " + std::to_string(trace.world_size()) + " ranks, not " + std::to_string(run.world_size);
  for (const trace::Trace& rank : trace.ranks) {
    if (std::string strange = strange_key(run, rank.header); !strange.empty()) return strange;
    if (std::string strange = changed_inputs(run, rank.header, trace.written); !strange.empty()) return strange;
  }
  return "";
}

/// The first step that rank 0 or another rank alone recorded; empty where all recorded the same steps. Under DDP's
/// join a rank may end before others.
std::string step_not_recorded(const trace::RunTrace& run) {
  const trace::Trace& first = run.ranks[0];
  const auto same_step = [](const trace::Step& a, const trace::Step& b) { return a.step == b.step; };
  for (const trace::Trace& rank : run.ranks) {
    const auto [its, theirs] =
        std::mismatch(first.steps.begin(), first.steps.end(), rank.steps.begin(), rank.steps.end(), same_step);
    if (its == first.steps.end() && theirs == rank.steps.end()) continue;
    const bool one_ended = its == first.steps.end() || theirs == rank.steps.end();
    const Json ddp = laws::seen_of(run, "ddp");
    if (one_ended && ddp.is_object() && ddp.value("join", Json()) == Json(true)) continue;
    const bool first_lacks = its == first.steps.end() || (theirs != rank.steps.end() && theirs->step < its->step);
    const trace::Trace &lacks = first_lacks ? first : rank, &has = first_lacks ? rank : first;
    return "step " + std::to_string((first_lacks ? theirs : its)->step) + " is missing in " + lacks.origin + ": rank " +
           std::to_string(has.rank) + " recorded it";
  }
  return "";
}

/// The trace of a finished run, if it is whole, and all that the run's recipe makes its ranks record.
void read_trace_of(const plan::Run& run, const scenario::Scenario& scenario, const std::filesystem::path& directory,
                   Evidence& evidence) {
  try {
    trace::RunTrace trace = trace::read_run(directory, run.variant + "/" + std::to_string(run.repeat));
    if (const std::string torn = trace.torn(); !torn.empty()) {
      const std::size_t starts = trace::starts_in(directory).size();
      evidence.problem = "a trace is torn (" + torn + ")";
      if (starts > 1) {
        evidence.problem += ", and the ranks were started again";
        evidence.next = "judge the starts as recordings: lockstep check " + shell_quoted(directory.string()) + " " +
                        shell_quoted(trace::starts_in(directory).back().string());
      }
    } else if (has_other_ranks(run, trace)) {
      const std::string expected = std::to_string(run.world_size), started = std::to_string(trace.world_size());
      evidence.problem = "the scenario expects " + ranks(run.world_size) + " (world_size), the program started " +
                         started + " (" + directory.string() + ")";
      evidence.next = "set world_size to " + started + ", or let the command start " + ranks(run.world_size) +
                      ": {world_size} in it stands for " + expected;
    } else if (const std::string strange = strangeness(run, trace); !strange.empty()) {
      evidence.problem = "the traces in " + directory.string() + " belong to another run: " + strange;
    } else {
      evidence.problem = step_not_recorded(trace);
      if (evidence.problem.empty()) evidence.problem = unlike_recipe(trace, scenario.variant(run.variant), scenario);
      if (evidence.problem.empty()) evidence.trace = std::move(trace);
    }
  } catch (const Error& error) {
    evidence.problem = error.problem().what + " (" + error.problem().where + ")";
  }
}

/// Lets the traces of programs that take checkpoints of others go on from where those were saved.
class Placing {
 public:
  Placing(plan::Plan& plan, std::vector<Evidence>& evidence, const std::filesystem::path& runs_root)
      : plan_(plan), evidence_(evidence), runs_root_(runs_root), placed_(plan.runs.size()) {}

  void place_all() {
    for (std::size_t i = 0; i < plan_.runs.size(); ++i) place(i);
  }

 private:
  /// After the run that it takes from, which may go on from another one itself.
  void place(std::size_t index) {
    if (placed_[index]) return;
    placed_[index] = true;
    const plan::Run& run = plan_.runs[index];
    if (!std::holds_alternative<plan::CommandProgram>(run.program) || run.after.empty()) return;
    const std::size_t source = run.after.front();
    place(source);
    if (evidence_[index].trace && evidence_[source].trace)
      go_on(run, *evidence_[index].trace, plan_.runs[source], *evidence_[source].trace);
  }

  void go_on(const plan::Run& run, trace::RunTrace& trace, const plan::Run& source, trace::RunTrace& before) {
    trace.unplaced = before.unplaced;
    if (!trace.unplaced.empty()) return;
    before.files = files_of(source, before);
    trace.files = files_of(run, trace);
    const compare::Continuation found = compare::continuation_of({before, before.files}, {trace, trace.files});
    trace.unplaced = found.why;
    if (!trace.unplaced.empty()) return;
    auto& number = variant_of(run).train.checkpoint.load->number;
    if (run.repeat == 0) number = *found.saved + 1;
    if (number != *found.saved + 1) {
      trace.unplaced = trace.run + " takes a checkpoint of " + std::to_string(*found.saved + 1) + " updates, and " +
                       run.variant + "/0 one of " + std::to_string(number.value_or(0));
      return;
    }
    compare::count_on(trace, before, *found.begins);
  }

  std::vector<trace::CheckpointFile> files_of(const plan::Run& run, const trace::RunTrace& trace) const {
    return trace::read_checkpoint_files(runs_root_ / run.name, trace.world_size());
  }

  scenario::Variant& variant_of(const plan::Run& run) {
    const auto scenario = std::find_if(plan_.scenarios.begin(), plan_.scenarios.end(),
                                       [&](const auto& one) { return one.name == run.scenario; });
    return *std::find_if(scenario->variants.begin(), scenario->variants.end(),
                         [&](const auto& one) { return one.name == run.variant; });
  }

  plan::Plan& plan_;
  std::vector<Evidence>& evidence_;
  const std::filesystem::path& runs_root_;
  std::vector<bool> placed_;
};

/// A program's recipe is what its first repeat was seen to do.
void complete_recipes(plan::Plan& plan, const std::vector<Evidence>& evidence) {
  for (scenario::Scenario& scenario : plan.scenarios) {
    for (scenario::Variant& variant : scenario.variants) {
      if (!variant.program) continue;
      const auto& first = evidence[plan.runs_of(scenario.name, variant.name).front()].trace;
      if (first) take_seen(variant, *first);
    }
  }
}

}  // namespace

Json header_of(const plan::Run& run) {
  Json header = {
      {"scenario", run.scenario}, {"variant", run.variant}, {"repeat", run.repeat}, {"train_digest", run.train_digest}};
  const auto* const worker = std::get_if<plan::WorkerProgram>(&run.program);
  if (worker != nullptr) {
    const Json& record = worker->spec.at("train").at("record");
    header["record"] = {{"every", record.at("every")}, {"channels", record.at("channels")}};
  } else {
    const recipe::RecordSpec& record = std::get<plan::CommandProgram>(run.program).spec.record;
    Json channels = Json::array();  // in the order of the format, as recorders write them
    for (const trace::Channel channel : trace::all_channels()) {
      if (record.holds(channel)) channels.push_back(trace::name_of(channel));
    }
    header["record"] = {{"every", record.every}, {"channels", channels}};
  }
  return header;
}

std::vector<Evidence> read_evidence(plan::Plan& plan, std::vector<launch::RunOutcome> outcomes,
                                    const std::filesystem::path& runs_root) {
  LOCKSTEP_CHECK(outcomes.size() == plan.runs.size());
  std::vector<Evidence> evidence;
  for (std::size_t i = 0; i < outcomes.size(); ++i) {
    Evidence& entry = evidence.emplace_back();
    entry.outcome = std::move(outcomes[i]);
    if (entry.outcome.status == launch::RunOutcome::Status::kFinished) {
      read_trace_of(plan.runs[i], plan.scenario(plan.runs[i].scenario), runs_root / plan.runs[i].name, entry);
    } else {
      entry.problem = "the run " + plan.runs[i].name + " did not finish: " + entry.outcome.why;
    }
  }
  Placing(plan, evidence, runs_root).place_all();
  complete_recipes(plan, evidence);
  return evidence;
}

void take_seen(scenario::Promises& promises, const trace::RunTrace& run) {
  const trace::Trace& rank = run.ranks.at(0);
  const auto first =
      std::find_if(rank.steps.begin(), rank.steps.end(), [](const auto& step) { return step.step >= 0; });
  std::map<std::string, double> told;
  for (const trace::Record& record : first == rank.steps.end() ? std::vector<trace::Record>{} : first->records) {
    if (record.channel != trace::Channel::kLedger) continue;
    if (record.number) told.emplace(record.name, *record.number);
    if (record.integers.size() == 1) told.emplace(record.name, static_cast<double>(record.integers[0]));
  }
  scenario::take_seen(promises, rank.header.value("seen", Json()), told);
}

}  // namespace lockstep::judge
