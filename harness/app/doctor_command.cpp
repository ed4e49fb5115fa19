#include <cstdio>
#include <filesystem>
#include <functional>
#include <map>
#include <set>
#include <string>

#include <CLI/CLI.hpp>
#include <sys/wait.h>

#include "harness/app/collectives.h"
#include "harness/app/commands.h"
#include "harness/app/fleet.h"
#include "harness/app/golden_states.h"
#include "harness/app/pipeline.h"
#include "harness/app/programs.h"
#include "harness/app/recording_request.h"
#include "harness/app/shell.h"
#include "harness/app/worker_program.h"
#include "harness/base/build_id.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/golden/processors.h"

namespace lockstep::app {
namespace {

constexpr const char* kWithoutWorker =
    " to record and judge programs; scenarios with 'train' need the wheel lockstep-worker as well";

/// Prints one line for each question and remembers what is amiss.
class Examination {
 public:
  /// Whether all is well there.
  bool ask(const std::string& what, const std::function<std::string()>& answer) {
    try {
      print_line(stdout, "ok       " + padded(what, 22) + "  " + answer());
      return true;
    } catch (const Error& error) {
      constexpr std::size_t kMostOfReason = 160;
      amiss_.push_back(what + " (" + without_middle(error.problem().what, kMostOfReason) + ")");
      print_page(stdout, "problem  " + padded(what, 22) + "  " + error.what() + "\n");
      return false;
    }
  }

  bool healthy() const { return amiss_.empty(); }

  /// "ready", or "not ready: worker (the worker is missing)".
  std::string result() const { return healthy() ? "ready" : "not ready: " + join(amiss_, ", "); }

 private:
  std::vector<std::string> amiss_;
};

/// The first line that the worker prints when asked with `flag`.
/// *Throws*: ResourceError with the reason if it fails; most often a library is missing.
std::string answer_of(const std::filesystem::path& worker, const std::string& flag) {
  const std::string command = shell_quoted(worker.string()) + " " + flag;
  const Said answer = said_by(command + " 2>/dev/null");
  if (answer.status == 0) return answer.text.substr(0, answer.text.find('\n'));
  const Said complaint = said_by(command + " 2>&1 >/dev/null");
  const std::string how = WIFSIGNALED(complaint.status)
                              ? "ended by signal " + std::to_string(WTERMSIG(complaint.status))
                              : "exit code " + std::to_string(WEXITSTATUS(complaint.status));
  throw ResourceError({.what = "the worker cannot be loaded, or fails at once",
                       .where = command,
                       .expected = "an answer",
                       .actual = how + (complaint.text.empty() ? "" : ": " + complaint.text),
                       .next = "see which libraries are missing: ldd " + shell_quoted(worker.string())});
}

std::string examine_worker(const RunOptions& options) {
  const std::filesystem::path worker = find_worker(options.worker);
  const std::string build = answer_of(worker, "--build-id");
  if (build != build_id()) {
    throw InputError({.what = "the worker belongs to another build",
                      .where = worker.string(),
                      .expected = std::string("build ") + build_id(),
                      .actual = build.empty() ? "no answer" : "build " + build,
                      .next = "build both again: ci/build"});
  }
  return worker.string() + ", build " + build;
}

/// "cpu: …; no cuda: …". A device that is lacking is no problem: scenarios that want it are refused by name.
std::string examine_devices(const RunOptions& options) {
  const std::filesystem::path worker = find_worker(options.worker);
  std::vector<std::string> devices;
  for (const Json& device : parse_json(answer_of(worker, "--devices"), worker.string() + " --devices"))
    devices.push_back((device.at("usable").get<bool>() ? "" : "no ") + device.at("name").get<std::string>() + ": " +
                      device.at("says").get<std::string>());
  return join(devices, "; ");
}

std::string examine_launchers(const RunOptions& options) {
  return "local: processes of this machine, " + std::to_string(ranks_at_once(options)) + " ranks at once";
}

std::string examine_leftovers() {
  const std::vector<Leftover> all = leftovers();
  const std::string rule = "; each goes after " + to_decimal(kLongestKept_days) + " days, the oldest ones beyond " +
                           std::to_string(kMostKept >> 30) + " GiB";
  const std::string where = " of red or killed runs in " + temporary_base().string();
  if (all.empty()) return "no folders" + where + rule;
  std::uintmax_t bytes = 0;
  for (const Leftover& one : all) bytes += one.bytes;
  return std::to_string(all.size()) + (all.size() > 1 ? " folders" : " folder") + where + ", " +
         std::to_string(bytes >> 20) + " MiB, the oldest of " + rounded(all[0].age_days, 2) + " days" + rule;
}

std::string examine_processor() {
  const bool v3 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  if (!v3)
    throw Unsupported({.what = "this processor cannot hold 'portable' goldens (no AVX2 and FMA)",
                       .next = "use train.determinism.cpu = portable-v1"});
  return "x86-64-v3: native and portable goldens";
}

std::string examine_space(const std::filesystem::path& where) {
  constexpr std::uintmax_t kEnough = 1ULL << 30;
  std::error_code error;
  const std::filesystem::space_info space = std::filesystem::space(where, error);
  if (error)
    throw ResourceError({.what = "there is no place for traces: " + error.message(),
                         .where = where.string(),
                         .next = "set TMPDIR to a folder that exists"});
  if (space.available < kEnough)
    throw ResourceError({.what = "less than 1 GiB is free for traces", .where = where.string()});
  return std::to_string(space.available >> 30) + " GiB free in " + where.string();
}

std::string examine_scenarios(const RunOptions& options) {
  const plan::Plan plan = plan::make_plan(load(options));
  return std::to_string(plan.scenarios.size()) + " valid, " + std::to_string(plan.runs.size()) + " runs, " +
         std::to_string(plan.checks.size()) + " checks";
}

/// Every golden that is asked for must be whole, and of the training as it is now.
/// `code`: as `lockstep golden status` ends. *Throws*: InputError with those that are not.
std::string examine_goldens(const RunOptions& options, int& code) {
  const std::vector<GoldenState> states = states_of_goldens({plan::make_plan(load(options))}, options.golden_root,
                                                            /*is_all=*/false);
  std::vector<std::string> wrong;
  std::string next;
  for (const GoldenState& state : states) {
    if (state.code == 0) continue;
    wrong.push_back(state.golden + " is " + state.state + ": " + state.why);
    if (next.empty()) next = state.next;
  }
  code = code_of(states);
  if (!wrong.empty())
    throw InputError({.what = some_of(wrong, 5), .where = "see them all: lockstep golden status", .next = next});
  return states.empty() ? "none"
                        : std::to_string(states.size()) +
                              " entries, whole and current; this machine: " + golden::keys_here("").back();
}

/// Kinds of programs in a selection.
struct Needs {
  bool worker = false;
  bool programs = false;
};

/// Without scenarios: what is here is examined.
Needs needs_of_this_installation(const RunOptions& options) {
  return {.worker = !options.worker.empty() || has_worker()};
}

/// Nothing of scenarios that cannot be read: the question for the scenarios says why.
Needs needs_of(const RunOptions& options) {
  try {
    Needs needs;
    for (const scenario::Scenario& scenario : load(options)) {
      for (const scenario::Variant& variant : scenario.variants)
        (variant.program ? needs.programs : needs.worker) = true;
    }
    return needs;
  } catch (const Error&) {
    return {};
  }
}

std::string examine_python_in_path() {
  const std::filesystem::path python = python_in_path();
  if (python.empty())
    throw InputError({.what = "there is no Python",
                      .where = "PATH",
                      .expected = "python or python3",
                      .next = "activate the environment that torch is installed in"});
  return examine_python(python);
}

/// Commands of all programs are there, and what they run in would be recorded.
std::string examine_programs(const RunOptions& options) {
  std::set<std::string> commands, pythons;
  for (const scenario::Scenario& scenario : load(options)) {
    for (const scenario::Variant& variant : scenario.variants) {
      if (!variant.program) continue;
      const std::filesystem::path program = examine_command(scenario, variant);
      commands.insert(program.string());
      if (const auto python = python_of(program); !python.empty()) pythons.insert(python.string());
    }
  }
  std::vector<std::string> all(commands.begin(), commands.end());
  for (const std::string& python : pythons) all.push_back(examine_python(python));
  return join(all, "; ");
}

int doctor(const DoctorOptions& options) {
  RunOptions run = options.run;
  const std::filesystem::path usual = "scenarios/gate";
  if (run.scenarios.empty() && is_folder(usual)) run.scenarios = {usual};
  const bool has_scenarios = !run.scenarios.empty();
  const Needs needs = has_scenarios ? needs_of(run) : needs_of_this_installation(run);
  Examination examination;
  examination.ask("lockstep", [] { return std::string("build ") + build_id(); });
  if (needs.worker) {
    examination.ask("worker", [&] { return examine_worker(run); });
    examination.ask("devices", [&] { return examine_devices(run); });
  }
  examination.ask("recorder", [] { return find_recorder().string(); });
  if (needs.programs) examination.ask("programs", [&] { return examine_programs(run); });
  if (!has_scenarios) examination.ask("python", examine_python_in_path);
  examination.ask("launchers", [&] { return examine_launchers(run); });
  examination.ask("other launchers", examine_launchers_in_path);
  examination.ask("processors", examine_processors);
  examination.ask("GPUs", examine_gpus);
  examination.ask("interfaces", examine_interfaces);
  examination.ask("open ports", examine_sockets);
  examination.ask("limits", examine_limits);
  examination.ask("portable goldens", examine_processor);
  examination.ask("space for traces", [] { return examine_space(temporary_base()); });
  examination.ask("leftovers", examine_leftovers);
  const bool can_run = has_scenarios && examination.ask("scenarios", [&] { return examine_scenarios(run); });
  if (options.collectives) examination.ask("collectives", [&] { return examine_collectives(options); });
  const bool is_healthy = examination.healthy();  // but for goldens, which have exit codes of their own
  int code_of_goldens = 0;
  if (can_run) examination.ask("goldens", [&] { return examine_goldens(run, code_of_goldens); });
  const bool is_ready_for_all = has_scenarios || needs.worker || !examination.healthy();
  print_line(stdout, examination.result() + (is_ready_for_all ? "" : kWithoutWorker));
  const bool has_code = is_healthy && code_of_goldens != 0;
  return examination.healthy() ? 0 : has_code ? code_of_goldens : 2;
}

}  // namespace

void add_doctor(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("doctor", "Examine this installation: worker, recorder, processor, space, scenarios, goldens");
  const auto options = std::make_shared<DoctorOptions>();
  command->add_option("scenarios", options->run.scenarios,
                      "Scenario files, or folders of them (default: scenarios/gate, if it is there)");
  CLI::Option* collectives = command->add_flag("--collectives", options->collectives,
                                               "Check exact sums and copies between ranks, and their speed");
  command
      ->add_option("--over", options->over, "Library of --collectives. nccl needs a GPU for each rank. Default: gloo")
      ->check(one_of({"gloo", "nccl"}))
      ->needs(collectives);
  command->add_option("--ranks", options->ranks, "Ranks of --collectives. Default: 2")
      ->check(CLI::Range(1, 64))
      ->needs(collectives);
  command->add_flag("--wrong-element", options->wrong_element, "Plant one wrong element, to see that it is found")
      ->needs(collectives);
  add_run_options(*command, options->run);
  run_when_chosen(*command, action, options, doctor);
}

}  // namespace lockstep::app
