#include "harness/judge/recorded.h"

#include <algorithm>
#include <numeric>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/checks/numbers.h"
#include "harness/compare/continuation.h"
#include "harness/compare/environments.h"
#include "harness/compare/rounding.h"
#include "harness/diagnosis/diagnose.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/judge/evidence.h"
#include "harness/judge/run_check.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/train_reading.h"
#include "harness/trace/checkpoint_files.h"
#include "harness/trace/inputs.h"
#include "harness/trace/reader.h"

namespace lockstep::judge {
namespace {

using checks::CheckInput;
using checks::CheckResult;

namespace fs = std::filesystem;

/// Channels that a recorder was asked for. All, where it does not say so: those it has are the ones of the library.
std::vector<std::string> channels_of_header(const Json& header) {
  const Json record = header.is_object() ? header.value("record", Json()) : Json();
  const Json channels = record.is_object() ? record.value("channels", Json()) : Json();
  const bool are_names = channels.is_array() && !channels.empty() &&
                         std::all_of(channels.begin(), channels.end(), [](const Json& one) { return one.is_string(); });
  return are_names ? channels.get<std::vector<std::string>>() : trace::channel_names();
}

/// A program that is not ours promises nothing: its recorder saw some of the recipe.
scenario::Promises promises_seen(const trace::RunTrace& run) {
  scenario::Promises promises{.name = fs::path(run.run).filename().string(), .world_size = run.world_size()};
  promises.known.emplace();
  promises.train = scenario::train_spec_from_promises(Json::object(), *promises.known);
  promises.train.record.channels = channels_of_header(run.ranks[0].header);
  take_seen(promises, run);
  return promises;
}

/// Folder of the run whose checkpoint another one takes, from its run.json; empty: none, or it is gone.
fs::path source_of(const fs::path& file, const Json& spec) {
  const std::string checkpoint = spec.at("files").value("checkpoint", "");
  if (checkpoint.empty()) return {};
  fs::path source = (fs::absolute(file).parent_path() / checkpoint).lexically_normal().parent_path();
  return is_there(source / trace::file_name_of_rank(0)) ? source : fs::path();
}

/// The optimizer that a run holds: its own, or the one that its checkpoint holds; nothing where that is gone.
std::optional<recipe::OptimizerChoice> optimizer_of(const fs::path& file) {
  if (!is_there(file)) return std::nullopt;
  const Json spec = read_json(file);
  const recipe::TrainSpec train =
      scenario::train_spec_from(scenario::complete(spec.at("train"), "train", {.file = file.string(), .within = ""}));
  if (!train.checkpoint.load || !train.checkpoint.load->restores("optimizer")) return train.optimizer;
  const fs::path source = source_of(file, spec);
  return source.empty() ? std::nullopt : optimizer_of(source / file.filename());
}

void read_promises(const fs::path& file, Recording& recording) {
  const Json& first_line = recording.trace.ranks[0].header;
  if (!is_there(file) && first_line.is_object() && first_line.contains("seen")) {
    recording.promises = promises_seen(recording.trace);
    return;
  }
  if (!is_there(file)) {
    recording.no_promises = file.string() + " is missing";
    return;
  }
  try {
    const Json spec = read_json(file);
    const Json& header = recording.trace.ranks[0].header;
    if (header.is_object() && spec.value("train_digest", "") != header.value("train_digest", "")) {
      recording.no_promises = file.string() + " is of another run than the traces beside it";
      return;
    }
    recording.promises = scenario::Promises{.name = spec.at("variant").get<std::string>(),
                                            .world_size = spec.at("world_size").get<std::int64_t>(),
                                            .train = scenario::train_spec_from(scenario::complete(
                                                spec.at("train"), "train", {.file = file.string(), .within = ""}))};
    recording.loaded_from = source_of(file, spec);
    const auto& load = recording.promises->train.checkpoint.load;
    if (load && load->restores("optimizer")) recording.promises->loaded_optimizer = optimizer_of(file);
  } catch (const Error& error) {
    recording.no_promises = file.string() + ": " + error.problem().what;
  } catch (const Json::exception& error) {
    recording.no_promises = file.string() + " is not a RunSpec";
  }
}

bool is_resumed(const Recorded& run) {
  const auto& load = run.promises->train.checkpoint.load;
  return load && !load->from.empty();
}

/// Whether both are runs of one training, on machines that do not differ: whatever differs, nothing was changed.
bool are_repeats(const Recorded& left, const Recorded& right) {
  if (left.trace->world_size() != right.trace->world_size()) return false;
  const Json &one = left.trace->ranks[0].header, &other = right.trace->ranks[0].header;
  // A command that was recorded by itself has no digest: two of them may be anything.
  if (!one.is_object() || one.value("train_digest", "").empty()) return false;
  for (const char* key : {"scenario", "variant", "train_digest"}) {
    if (!other.is_object() || !one.contains(key) || one[key] != other.value(key, Json())) return false;
  }
  std::set<std::string> written = left.trace->written;
  written.insert(right.trace->written.begin(), right.trace->written.end());
  if (trace::inputs_in(one, written) != trace::inputs_in(other, written)) return false;
  for (std::size_t rank = 0; rank < left.trace->ranks.size(); ++rank) {
    if (!compare::suspects_between({left.trace, rank}, {right.trace, rank}).empty()) return false;
  }
  return true;
}

/// Two recorded runs as a scenario with one check: of two variants, or of a variant's repeats.
class PairOfRuns {
 public:
  PairOfRuns(const Recorded& left, const Recorded& right, const std::vector<trace::Channel>& channels,
             const std::optional<Recorded>& source) {
    const std::string left_name = add(left);
    spec_.channels = channels;
    if (are_repeats(left, right)) {
      spec_.that = scenario::CheckKind::kRepeatable;
      spec_.variants = {left_name};
      traces_[left_name].push_back(right.trace);
    } else {
      ask_of_two(left, left_name, right, add(right));
    }
    if (source) add(*source);
    for (scenario::Variant& variant : scenario_.variants) {
      auto& load = variant.train.checkpoint.load;
      if (load && !traces_.contains(load->from)) load->from.clear();  // that run is not here, and tells nothing
    }
  }

  CheckInput input() const {
    return {.scenario = scenario_, .spec = spec_, .traces = traces_, .train_digests = {}, .golden_root = {}};
  }

 private:
  void ask_of_two(const Recorded& left, const std::string& left_name, const Recorded& right,
                  const std::string& right_name) {
    spec_.variants = {left_name, right_name};
    if (is_resumed(left) == is_resumed(right)) return;
    spec_.that = scenario::CheckKind::kResumes;
    spec_.straight = is_resumed(left) ? right_name : left_name;
    spec_.interrupted = is_resumed(left) ? left_name : right_name;
  }

  /// Runs of one variant get names of their own; a run that is there already keeps its name.
  std::string add(const Recorded& run) {
    std::string name = run.promises->name;
    for (; traces_.contains(name); name += "'") {
      if (traces_[name].front() == run.trace) return name;
    }
    scenario::Variant variant;
    static_cast<scenario::Promises&>(variant) = *run.promises;
    variant.name = name;
    scenario_.variants.push_back(std::move(variant));
    traces_[name] = {run.trace};
    return name;
  }

  scenario::Scenario scenario_;
  scenario::CheckSpec spec_;
  std::map<std::string, std::vector<const trace::RunTrace*>> traces_;
};

/// A program records every so many updates.
std::int64_t every_of(const trace::RunTrace& run) {
  constexpr std::int64_t kMost = 1'000'000;  // of a damaged header nothing overflows
  const Json every = diagnosis::seen_of(run, "every");
  return every.is_number_integer() ? std::clamp<std::int64_t>(every.get<std::int64_t>(), 1, kMost) : 1;
}

/// The updates that a recording of every so many has.
trace::RunTrace thinned(trace::RunTrace run, std::int64_t every) {
  for (trace::Trace& rank : run.ranks)
    std::erase_if(rank.steps, [&](const trace::Step& step) { return step.step > 0 && step.step % every != 0; });
  return run;
}

/// Whether rounding explains all differences.
CheckResult beyond_rounding(const Recorded& left, const Recorded& right, const CheckInput& input) {
  compare::Scope scope = compare::held_by_both(*left.trace, *right.trace);
  scope.skip = [by_both = scope.skip](trace::Channel channel, const std::string& name, std::int64_t step) {
    return checks::chooses_kernel(channel, name) || by_both(channel, name, step);
  };
  return judge_rounding(*left.trace, *right.trace,
                        checks::rounding_channels(input.spec, channels_of(input, *left.trace, *right.trace)), input,
                        scope, checks::Rerun::kNever);
}

/// Lets a run go on from another one, and says so, or why it cannot be told; empty where nothing shows that it does.
std::string go_on(Recording& source, Recording& resumed) {
  const auto& steps = source.trace.ranks[0].steps;
  const std::vector<std::int64_t> same = compare::steps_with_weights(source.trace, resumed.trace);
  if (steps.empty() || (!same.empty() && same[0] == steps.front().step)) return "";
  if (every_of(source.trace) != every_of(resumed.trace)) return "";
  const auto files_of = [](const Recording& one) {
    return trace::read_checkpoint_files(one.folder, one.trace.world_size());
  };
  source.trace.files = files_of(source);
  resumed.trace.files = files_of(resumed);
  const compare::Continuation found =
      compare::continuation_of({source.trace, source.trace.files}, {resumed.trace, resumed.trace.files});
  if (!found.begins) return found.several.empty() ? "" : found.why;
  if (resumed.promises->name == source.promises->name) resumed.promises->name += "'";
  auto& load = resumed.promises->train.checkpoint.load;
  load = recipe::whole_checkpoint_of(source.promises->name);
  load->number = *found.saved + 1;
  resumed.promises->train.record.every = every_of(resumed.trace);
  compare::count_on(resumed.trace, source.trace, *found.begins);
  const std::string step = std::to_string(*found.begins);
  return same.empty()
             ? resumed.trace.run + " reads the checkpoint that " + source.trace.run + " wrote after step " + step
             : resumed.trace.run + " begins with the weights that " + source.trace.run + " has after step " + step;
}

}  // namespace

std::string failure_of_command(const fs::path& file) {
  if (!is_there(file)) return "";
  const Json command = read_json(file);
  const Json code = command.is_object() ? command.value("exit_code", Json()) : Json();
  if (!code.is_number_integer()) return file.string() + " does not say how the command ended";
  return code == Json(0) ? "" : "the command exited with code " + code.dump() + " (" + file.string() + ")";
}

Recording read_recording(const fs::path& path) {
  Recording recording{.folder = path};
  if (!is_folder(path)) {
    recording.trace.run = path.string();
    recording.trace.ranks.push_back(trace::read_trace(path));
    recording.no_promises = path.string() + " is the trace of one rank, not a run folder";
    return recording;
  }
  if (!is_there(path / trace::file_name_of_rank(0)))
    throw InputError({.what = "this folder holds no run",
                      .where = path.string(),
                      .expected = "a folder that holds " + trace::file_name_of_rank(0),
                      .next = "name the folder of one repeat, such as " + (path / "0").string()});
  recording.trace = trace::read_run(path, path.string());
  recording.failed = failure_of_command(path / kCommandFile);
  read_promises(path / "run.json", recording);
  return recording;
}

std::string connect(Recording& left, Recording& right) {
  const auto is_program = [](const Recording& one) { return one.promises && one.promises->known; };
  if (!is_program(left) || !is_program(right)) return "";
  std::string why = go_on(left, right);
  if (why.empty()) why = go_on(right, left);
  return why;
}

namespace {

/// Why runs of other numbers of ranks have no tensors to compare; empty: they have.
std::string stages_of_a_pipeline(const Recorded& left, const Recorded& right) {
  if (left.trace->world_size() == right.trace->world_size()) return "";
  for (const Recorded* side : {&left, &right}) {
    if (side->promises->known && !laws::hold_the_same_names(*side->trace))
      return "the ranks of " + side->trace->run +
             " hold other parameters, as the stages of a pipeline do: another number of ranks holds others";
  }
  return "";
}

/// Names a resumption that is equal up to rounding, and no more.
void name_rounding_after_loading(CheckResult& result, const CheckInput& input) {
  if (result.status != CheckResult::Status::kAgree ||
      !checks::resumes_at_another_world_size(input.scenario, input.spec))
    return;
  const trace::RunTrace &straight = *input.of(input.spec.straight).front(),
                        &resumed = *input.of(input.spec.interrupted).front();
  const auto channels = checks::rounding_channels(input.spec, checks::channels_of(input, straight, resumed));
  const compare::Comparison bits = compare::compare_runs(straight, resumed, channels, compare::bitwise,
                                                         checks::after_loading(input.scenario, input.spec, resumed));
  if (bits.first)
    result.why +=
        (result.why.empty() ? "" : "; ") + ("equal up to rounding, which is seen first at " + bits.first->place());
}

CheckResult judge_same_steps(const Recorded& left, const Recorded& right, const std::vector<trace::Channel>& channels,
                             const std::optional<Recorded>& source) {
  if (const std::string stages = stages_of_a_pipeline(left, right); !stages.empty())
    return {.status = CheckResult::Status::kInconclusive, .why = stages, .next = "compare runs of as many stages"};
  const PairOfRuns pair(left, right, channels, source);
  const CheckInput input = pair.input();
  CheckResult result;
  if (input.spec.traits().sides != scenario::Sides::kVariants) {
    result = run_check(input);
    name_rounding_after_loading(result, input);
  } else {
    const auto compared = channels_of(input, *left.trace, *right.trace);
    result = checks::compare_numbers(*left.trace, *right.trace, compared, input);
    if (result.divergence) compare::name_rounding(*result.divergence, *left.trace, *right.trace);
    const bool rounds = result.divergence && result.divergence->class_ == scenario::Class::kRounding;
    if (rounds) {
      CheckResult beyond = beyond_rounding(left, right, input);
      if (beyond.status == CheckResult::Status::kDivergence && beyond.divergence) {
        result.why = "the first difference is at " + result.divergence->place() + ", by rounding";
        result.divergence = std::move(beyond.divergence);
        result.is_no_rounding = beyond.is_no_rounding;
      } else {
        result.why = beyond.why;
      }
    }
    if (result.divergence) checks::name_equal_numbers(*result.divergence, *left.trace, *right.trace, compared, input);
  }
  const bool is_named = result.divergence && result.divergence->class_ == scenario::Class::kExpected;
  if (result.divergence && !is_named)
    diagnosis::diagnose(question_of(input), *result.divergence, {.is_no_rounding = result.is_no_rounding});
  return result;
}

}  // namespace

CheckResult judge_pair(const Recorded& left, const Recorded& right, const std::vector<trace::Channel>& channels,
                       const std::optional<Recorded>& source) {
  const std::int64_t theirs = every_of(*left.trace), its = every_of(*right.trace);
  if (theirs == its) return judge_same_steps(left, right, channels, source);
  const std::int64_t both = std::lcm(theirs, its);
  const trace::RunTrace left_steps = thinned(*left.trace, both), right_steps = thinned(*right.trace, both);
  CheckResult result = judge_same_steps({&left_steps, left.promises}, {&right_steps, right.promises}, channels, source);
  if (result.why.empty()) result.why = "one update in " + std::to_string(both) + " is recorded by both";
  return result;
}

}  // namespace lockstep::judge
