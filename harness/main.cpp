// lockstep: do these trainings compute the same thing, and if not, where is the first difference and why?

#include <algorithm>
#include <cstdio>
#include <exception>
#include <filesystem>
#include <string>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/base/build_id.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/other_launchers.h"

namespace {

using namespace lockstep;

constexpr const char* kExitCodes =
    "Exit codes: 0 every check holds; 1 divergence; 2 usage, scenario or internal error; 3 no valid golden; "
    "4 inconclusive; 77 unsupported here, where the scenario allows it; 130 interrupted.";

/// For options that name a file: an empty name, as an unset variable leaves it, is a slip and no default.
std::string not_empty(const std::string& text) { return text.empty() ? "is empty" : ""; }

/// For names in Kubernetes, which become names of hosts; "" is all well.
std::string dns_label(const std::string& text) {
  constexpr std::size_t kLongest = 50;  // of 63: the job appends the number of the pod
  const bool fits = !text.empty() && text.size() <= kLongest && text[0] >= 'a' && text[0] <= 'z' &&
                    text.back() != '-' &&
                    text.find_first_not_of("abcdefghijklmnopqrstuvwxyz0123456789-") == std::string::npos;
  return fits ? "" : "is no name of at most 50 small letters, digits and '-', with a letter first";
}

/// An image of containers, or the name of a claim.
std::string without_spaces(const std::string& text) {
  const bool fits = !text.empty() && text.find_first_of(" \t\n\"'") == std::string::npos;
  return fits ? "" : "is empty, or has spaces or quotation marks";
}

/// Options of all commands that judge scenarios.
void add_judging_options(CLI::App& command, app::RunOptions& options) {
  command.add_option("--set", options.overrides, "Override a value of every scenario: train.optimizer.lr=0.2")
      ->type_name("PATH=VALUE")
      ->take_all()
      ->allow_extra_args(false);
  command
      .add_option(
          "--golden", options.golden_root,
          "Folder of the accepted traces. Default: golden/ beside the nearest lockstep.json above the scenario, "
          "else beside the folder scenarios/, else beside the scenario")
      ->type_name("FOLDER")
      ->check(not_empty);
}

/// Options of those that start runs.
std::vector<CLI::Option*> add_starting_options(CLI::App& command, app::RunOptions& options) {
  std::vector<std::string> launchers = {"fork", "exec"};
  for (const launch::OtherLauncher& one : launch::other_launchers()) launchers.emplace_back(one.name);
  return {
      command
          .add_option("--launcher", options.launcher,
                      "Who starts the ranks of runs whose scenario does not say: " + join(launchers, ", "))
          ->type_name("KIND")
          ->check(CLI::IsMember(launchers)),
      command.add_option("--worker", options.worker, "The lockstep-worker to start. Default: the one beside lockstep")
          ->type_name("FILE")
          ->check(not_empty),
      command.add_option("--jobs", options.jobs, "Ranks that run at once. Default: four for each core")
          ->type_name("N")
          ->check(CLI::Range(1, 100000))};
}

void add_run_options(CLI::App& command, app::RunOptions& options) {
  add_judging_options(command, options);
  command
      .add_option("--out", options.out,
                  "Folder for traces; must be empty. Default: a temporary one, kept unless all agree")
      ->type_name("FOLDER")
      ->check(not_empty);
  add_starting_options(command, options);
}

void add_json_option(CLI::App& command, std::filesystem::path& json) {
  command.add_option("--json", json, "Write the machine-readable result; '-' is stdout")
      ->type_name("FILE")
      ->check(not_empty);
}

/// The command line: every subcommand stores its options and names what it runs.
class CommandLine {
 public:
  CommandLine() {
    app_.require_subcommand(1);
    app_.set_version_flag("--version", std::string("lockstep " LOCKSTEP_VERSION ", build ") + build_id());
    app_.footer(kExitCodes);
    add_run();
    add_audit();
    add_programs();
    add_golden();
    add_traces();
  }

  int run(int argc, char** argv) {
    require_known_command(argc, argv);
    try {
      app_.parse(argc, argv);
    } catch (const CLI::ParseError& error) {
      if (error.get_exit_code() == 0) return app_.exit(error);  // help, version
      throw InputError({.what = error.what(), .next = "lockstep --help, or --help after a command"});
    }
    return command_();
  }

 private:
  /// CLI11 would only say that a subcommand is required.
  void require_known_command(int argc, char** argv) const {
    if (argc < 2 || argv[1][0] == '-') return;
    std::vector<std::string> names;
    for (const CLI::App* command : app_.get_subcommands({})) names.push_back(command->get_name());
    if (std::find(names.begin(), names.end(), argv[1]) != names.end()) return;
    throw InputError({.what = "unknown command '" + std::string(argv[1]) + "'",
                      .expected = "one of: " + join(names, ", "),
                      .next = suggest(argv[1], names)});
  }

  void add_run() {
    CLI::App* run = app_.add_subcommand("run", "Run scenarios and judge them");
    run->add_option("scenarios", run_.scenarios, "Scenario files, or folders of them")->required();
    CLI::App* gate = app_.add_subcommand("gate", "Run and judge the gate's scenarios (default: scenarios/gate)");
    gate->add_option("scenarios", run_.scenarios, "Scenario files, or folders of them");
    for (CLI::App* command : {run, gate}) {
      add_run_options(*command, run_);
      add_json_option(*command, run_.json);
    }
    CLI::Option* mutations =
        run->add_flag("--mutations", mutations_.on,
                      "Try the mutations of the practices, too: each must turn a check of its practice red");
    run->add_option("--part", mutations_.part, "Only the K-th of N equal parts of the mutations: K/N")
        ->needs(mutations);
    run->add_flag("--resume", run_.resume, "Go on with the runs of --out that a lockstep before this one left")
        ->needs("--out")
        ->excludes(mutations);
    run->add_option("--prepare", prepared_,
                    "Start nothing: write what another scheduler needs to start the runs into this new folder")
        ->type_name("FOLDER")
        ->check(not_empty)
        ->excludes("--out")
        ->excludes("--launcher")
        ->excludes(mutations);
    run->callback([this] {
      command_ = [this] {
        if (prepared_.empty()) return mutations_.on ? app::mutations(run_, mutations_.part) : app::run(run_);
        run_.out = prepared_;
        return app::prepare(run_);
      };
    });
    CLI::App* emit = app_.add_subcommand("launch", "Print what starts the runs of a prepared folder on a cluster");
    emit->add_option("folder", emit_.folder, "Folder of `lockstep run SCENARIO --prepare FOLDER`")
        ->required()
        ->check(not_empty);
    emit->add_option("--emit", emit_.manifest, "sbatch: a batch script of Slurm. k8s: a Job of Kubernetes")
        ->required()
        ->check(CLI::IsMember({"sbatch", "k8s"}));
    emit->add_option("--name", emit_.name, "Name of the job. Default: lockstep")->check(dns_label);
    emit->add_option("--nodes", emit_.nodes, "Nodes of Slurm that the ranks are spread over. Default: 1")
        ->check(CLI::Range(1, 1024));
    emit->add_option("--image", emit_.image, "Container image of k8s, with lockstep-worker where it is here")
        ->check(without_spaces);
    emit->add_option("--claim", emit_.claim, "PersistentVolumeClaim of k8s that holds the folder")
        ->check(without_spaces);
    emit->callback([this] { command_ = [this] { return app::emit(emit_); }; });
    CLI::App* judge = app_.add_subcommand("judge", "Judge runs that were started elsewhere; starts nothing");
    judge->add_option("scenarios", judge_.run.scenarios, "Scenario files, or folders of them")->required();
    judge->add_option("--traces", judge_.traces, "Folder that holds the runs, as --prepare and --out make it")
        ->type_name("FOLDER")
        ->required()
        ->check(not_empty);
    add_judging_options(*judge, judge_.run);
    add_json_option(*judge, judge_.run.json);
    CLI::Option* controls =
        judge->add_flag("--controls", judge_.controls, "Start control runs here for what differs, as run does");
    for (CLI::Option* starting : add_starting_options(*judge, judge_.run)) starting->needs(controls);
    judge->callback([this] { command_ = [this] { return app::judge(judge_); }; });
    gate->callback([this] { command_ = [this] { return app::gate(run_); }; });
    CLI::App* faults =
        app_.add_subcommand("faults", "Run planted faults and clean traps, and count the right verdicts");
    faults->add_option("scenarios", faults_.run.scenarios,
                       "Scenario files, or folders of them (default: scenarios/faults and scenarios/traps)");
    add_run_options(*faults, faults_.run);
    faults->add_option("--part", faults_.part, "Only the K-th of N equal parts of the checks: K/N");
    faults->add_flag("--open", faults_.open, "Of faults that are not found yet: fail if one is judged as it expects");
    faults->add_flag("--markdown", faults_.markdown, "Print the table in the form of docs/faults.md");
    faults->callback([this] { command_ = [this] { return app::faults(faults_); }; });
    CLI::App* blame =
        app_.add_subcommand("blame", "Find by control runs why two variants, or a variant and its golden, differ");
    blame->add_option("scenario", blame_.scenario, "Scenario file")->required()->check(not_empty);
    blame->add_option("left", blame_.left, "Variant (default: the first of the scenario's two)")->check(not_empty);
    blame->add_option("right", blame_.right, "Variant, or 'golden' (default: the second)")->check(not_empty);
    blame->add_option("--that", blame_.that, "Relation between them (default: equal; rounding if their shapes differ)")
        ->check(CLI::IsMember(app::relations_of_blame()));
    blame->add_option("--vary", blame_.vary, "Controls to try: threads,isa only these; -threads all but this one")
        ->check(not_empty);
    add_run_options(*blame, blame_.run);
    add_json_option(*blame, blame_.run.json);
    blame->callback([this] { command_ = [this] { return app::blame(blame_); }; });
    CLI::App* doctor = app_.add_subcommand(
        "doctor", "Examine this installation: worker, recorder, processor, space, scenarios, goldens");
    doctor->add_option("scenarios", doctor_.run.scenarios,
                       "Scenario files, or folders of them (default: scenarios/gate, if it is there)");
    CLI::Option* collectives = doctor->add_flag("--collectives", doctor_.collectives,
                                                "Check exact sums and copies between ranks, and their speed");
    doctor
        ->add_option("--over", doctor_.over, "Library of --collectives. nccl needs a GPU for each rank. Default: gloo")
        ->check(CLI::IsMember({"gloo", "nccl"}))
        ->needs(collectives);
    doctor->add_option("--ranks", doctor_.ranks, "Ranks of --collectives. Default: 2")
        ->check(CLI::Range(1, 64))
        ->needs(collectives);
    doctor->add_flag("--wrong-element", doctor_.wrong_element, "Plant one wrong element, to see that it is found")
        ->needs(collectives);
    add_run_options(*doctor, doctor_.run);
    doctor->callback([this] { command_ = [this] { return app::doctor(doctor_); }; });
  }

  void add_audit() {
    CLI::App* audit = app_.add_subcommand("audit", "Audit a recipe: on other numbers of ranks, or after a checkpoint");
    audit->require_subcommand(1);
    CLI::App* scaling = audit->add_subcommand(
        "scaling",
        "Batch, rate and the rest of a recipe along the number of ranks, with exact identities tested by runs");
    add_audit_options(*scaling, audit::Kind::kScaling, "Numbers of ranks. Default: 1,2,4,8", "one-batch@4");
    scaling->add_option("--chart", audit_.chart, "Write a chart along the number of ranks")
        ->type_name("FILE.svg")
        ->check(not_empty);
    CLI::App* checkpoint = audit->add_subcommand(
        "checkpoint", "What a recipe must restore, who may load it, and on how many ranks it may go on");
    add_audit_options(*checkpoint, audit::Kind::kCheckpoint,
                      "Numbers of ranks: the first saves, all go on. Default: the recipe's own, and half of it",
                      "without-optimizer");
  }

  void add_audit_options(CLI::App& audit, audit::Kind kind, const std::string& ranks, const std::string& id) {
    audit.add_option("scenarios", audit_.run.scenarios, "Scenario files, files of audits, or folders of them")
        ->required();
    audit
        .add_option("--variant", audit_.variant,
                    "The variant that holds the recipe. Default: 'recipe', else the first by name")
        ->check(not_empty);
    audit.add_option("--ranks", audit_.ranks, ranks)
        ->type_name("N,N…")
        ->delimiter(',')
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
    audit.add_option("--steps", audit_.steps, "Updates of each run. Default: 6")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
    audit.add_option("--only", audit_.only, "Only lines whose ids begin so: " + id)
        ->type_name("ID")
        ->allow_extra_args(false)
        ->check(not_empty);
    audit.add_option("--markdown", audit_.markdown, "Write the tables for a pull request")
        ->type_name("FILE")
        ->check(not_empty);
    add_run_options(audit, audit_.run);
    add_json_option(audit, audit_.run.json);
    audit.callback([this, kind] {
      audit_.kind = kind;
      command_ = [this] { return app::audit(audit_); };
    });
  }

  void add_programs() {
    CLI::App* record =
        app_.add_subcommand("record", "Record a training of your own: lockstep record --out FOLDER -- COMMAND");
    record->add_option("--out", record_.out, "Folder for the traces; must be empty")
        ->type_name("FOLDER")
        ->required()
        ->check(not_empty);
    record->add_option("--every", record_.every, "Record every so many updates")
        ->type_name("N")
        ->check(CLI::Range(std::int64_t{1}, std::int64_t{1} << 40));
    record->add_option("--channel", record_.channels, "Record these channels only")->allow_extra_args(false);
    record->add_flag("--strict", record_.strict, "A recorder that fails ends the training");
    record->add_option("command", record_.command, "The command, after --")->required()->check(not_empty);
    record->callback([this] { command_ = [this] { return app::record(record_); }; });
    CLI::App* init = app_.add_subcommand("init", "Write a first scenario for a command: lockstep init -- COMMAND");
    init->add_option("--out", init_.out, "File to write. Default: named after the script")
        ->type_name("FILE")
        ->check(not_empty);
    init->add_option("command", init_.command, "The command, after --")->required()->check(not_empty);
    init->callback([this] { command_ = [this] { return app::init(init_); }; });
    for (CLI::App* command : {record, init}) command->positionals_at_end();
  }

  void add_golden() {
    CLI::App* golden = app_.add_subcommand("golden", "Accepted traces");
    golden->require_subcommand(1);
    CLI::App* accept = golden->add_subcommand("accept",
                                              "Run scenarios and accept the traces of their golden checks, if every "
                                              "other check holds and repeats are identical");
    accept->add_option("scenarios", accept_.run.scenarios, "Scenario files, or folders of them")->required();
    accept->add_option("--reason", accept_.reason, "Why the golden changes; stored in it")
        ->required()
        ->check(not_empty);
    accept->add_option("--variant", accept_.variants, "Accept these variants only")->allow_extra_args(false);
    accept->add_flag("--in-ci", accept_.in_ci, "Accept even if the environment variable CI is set");
    add_run_options(*accept, accept_.run);
    accept->callback([this] { command_ = [this] { return app::accept(accept_); }; });
  }

  void add_traces() {
    CLI::App* diff = app_.add_subcommand("diff", "Find the first difference between two traces or run folders");
    diff->add_option("left", diff_.left, "Trace file or run folder")->required();
    diff->add_option("right", diff_.right, "Trace file or run folder")->required();
    diff->add_option("--channel", diff_.channels, "Compare these channels only")->allow_extra_args(false);
    add_json_option(*diff, diff_.json);
    diff->callback([this] { command_ = [this] { return app::diff(diff_); }; });
    CLI::App* check = app_.add_subcommand("check", "Judge single runs by laws that every training must keep");
    check->add_option("runs", check_.runs, "Run folders, or trace files")->required();
    add_json_option(*check, check_.json);
    check->callback([this] { command_ = [this] { return app::check(check_); }; });
    CLI::App* show = app_.add_subcommand("show", "Print a trace");
    show->add_option("trace", show_.trace, "Trace file, or run folder (rank 0)")->required();
    show->add_option("--step", show_.step, "Only this step");
    show->add_option("--channel", show_.channel, "Only this channel");
    show->add_flag("--header", show_.header, "Print the header first: versions, recipe, environment");
    show->callback([this] { command_ = [this] { return app::show(show_); }; });
    CLI::App* explain = app_.add_subcommand("explain", "Explain one cause, or list all causes");
    explain->add_option("cause", explain_.cause, "Id of the cause: grad.reduce_sum")->check(not_empty);
    explain->add_flag("--markdown", explain_.markdown, "Print all causes in the form of docs/causes.md");
    explain->callback([this] { command_ = [this] { return app::explain(explain_); }; });
  }

  CLI::App app_{"Reproducibility and determinism harness for multi-rank data-parallel training"};
  app::RunOptions run_;
  struct {
    bool on = false;
    std::string part = "1/1";
  } mutations_;
  std::filesystem::path prepared_;
  app::EmitOptions emit_;
  app::JudgeOptions judge_;
  app::AuditOptions audit_;
  app::AcceptOptions accept_;
  app::DiffOptions diff_;
  app::CheckOptions check_;
  app::ShowOptions show_;
  app::ExplainOptions explain_;
  app::FaultsOptions faults_;
  app::BlameOptions blame_;
  app::DoctorOptions doctor_;
  app::RecordOptions record_;
  app::InitOptions init_;
  std::function<int()> command_;
};

/// An error's parts are printable, each on a line of its own.
int report_failure(const Error& error, int code) {
  print_page(stderr, "lockstep: " + std::string(error.what()) + "\n");
  return code;
}

int report_failure(const std::string& line, int code) {
  print_line(stderr, "lockstep: " + line);
  return code;
}

}  // namespace

int main(int argc, char** argv) {
  try {
    const int code = CommandLine().run(argc, argv);
    if (std::fflush(stdout) == 0 && std::ferror(stdout) == 0) return code;
    return report_failure("the output could not be written", code == 0 ? 4 : code);
  } catch (const ResourceError& error) {
    return report_failure(error, 4);
  } catch (const DamagedFile& error) {
    return report_failure(error, 4);
  } catch (const Interrupted& error) {
    return report_failure(error, 130);
  } catch (const Unsupported& error) {
    return report_failure(error, 77);
  } catch (const Error& error) {
    return report_failure(error, 2);
  } catch (const std::filesystem::filesystem_error& error) {
    return report_failure(InputError({.what = "the file system refuses: " + error.code().message(),
                                      .where = error.path1().string(),
                                      .next = "mend this place, or name another"}),
                          2);
  } catch (const std::exception& error) {
    return report_failure(std::string(error.what()), 2);
  }
}
