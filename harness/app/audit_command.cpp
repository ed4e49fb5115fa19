#include <algorithm>
#include <cstdio>
#include <memory>
#include <regex>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/chosen.h"
#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/audit/audit_text.h"
#include "harness/audit/examination.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/judge/evidence.h"
#include "harness/laws/promise.h"
#include "harness/scenario/loading.h"
#include "harness/scenario/schema.h"

namespace lockstep::app {
namespace {

/// Option of a program that chooses its layout, as torchtitan's descendants call it.
constexpr const char* kUsualOption = "--layout";

struct AuditOptions {
  RunOptions run;       ///< its scenarios: scenario files, or files of audits
  std::string variant;  ///< that holds the recipe; empty: the first
  audit::Kind kind = audit::Kind::kScaling;
  std::vector<std::int64_t> ranks;   ///< empty: as the audit chooses
  std::int64_t steps = 0;            ///< updates of each run; 0: 6
  std::vector<std::string> layouts;  ///< "fsdp:4"
  std::string layout_option = kUsualOption;
  std::vector<std::string> only;  ///< lines, by the beginnings of their ids; empty: all
  std::filesystem::path markdown;
  std::filesystem::path chart;  ///< SVG
};

namespace fs = std::filesystem;

/// One audit to make.
struct Task {
  scenario::Scenario scenario;
  audit::Request request;
  std::string arguments;  ///< of "lockstep audit KIND", before "--only ID"
};

/// The file of an audit, completed; null: it is a scenario.
Json audit_document(const fs::path& file) {
  const Json document = read_json(file);
  if (!document.is_object() || !document.contains("audit")) return nullptr;
  return scenario::complete(document, "audit", {.file = file.string(), .within = ""});
}

/// Where a path in a file leads to.
fs::path seen_from(const fs::path& file, const std::string& path) {
  return (file.parent_path() / path).lexically_normal();
}

std::string listed_with_commas(const std::vector<std::int64_t>& ranks) {
  std::vector<std::string> texts;
  for (const std::int64_t one : ranks) texts.push_back(std::to_string(one));
  return join(texts, ",");
}

void require_kind(const std::string& kind, audit::Kind asked, const fs::path& file) {
  if (kind == name_of(asked)) return;
  throw InputError({.what = "the file is of another audit",
                    .where = file.string() + ": audit",
                    .expected = "'" + std::string(name_of(asked)) + "'",
                    .actual = "'" + kind + "'",
                    .next = "lockstep audit " + kind + " " + shell_quoted(file.string())});
}

/// A key that says nothing in an audit of this kind is a mistake.
void require_keys_of(audit::Kind kind, const Json& document, const fs::path& file) {
  const bool is_of_layouts = kind == audit::Kind::kLayout;
  const auto refuse = [&](const char* key) {
    throw InputError({.what = "the audit has no use for '" + std::string(key) + "'",
                      .where = file.string() + ": " + key,
                      .expected = is_of_layouts ? "'ranks' and 'arguments' of each layout" : "an audit of layouts"});
  };
  if (is_of_layouts && document.contains("ranks")) refuse("ranks");
  if (is_of_layouts && !document.at("options").empty()) refuse("options");
  if (!is_of_layouts && document.contains("layouts")) refuse("layouts");
}

std::vector<audit::Layout> layouts_in(const Json& document) {
  std::vector<audit::Layout> layouts;
  for (const Json& one : document.value("layouts", Json::array()))
    layouts.push_back({.name = one.at("name").get<std::string>(),
                       .ranks = one.at("ranks").get<std::int64_t>(),
                       .arguments = one.at("arguments"),
                       .promises = one.at("promises")});
  return layouts;
}

/// Those of the command line: "fsdp:4" is the value "fsdp" of the option that chooses the layout, on 4 ranks.
std::vector<audit::Layout> layouts_asked(const AuditOptions& options) {
  static const std::regex kForm(R"((.+):([1-9]\d{0,3}))");
  std::vector<audit::Layout> layouts;
  for (const std::string& text : options.layouts) {
    std::smatch parts;
    if (!std::regex_match(text, parts, kForm))
      throw InputError({.what = "a layout has no number of ranks",
                        .where = "--layouts",
                        .expected = "LAYOUT:RANKS, as fsdp:4",
                        .actual = "'" + text + "'"});
    layouts.push_back(
        {.name = text, .ranks = std::stoll(parts[2]), .arguments = {{options.layout_option, parts[1].str()}}});
  }
  return layouts;
}

/// What the command line says goes before what the file says.
Task task_of(const fs::path& file, const AuditOptions& options, Problems& problems) {
  const Json document = audit_document(file);
  const bool is_audit = !document.is_null();
  Task task;
  audit::Request& request = task.request;
  request.kind = options.kind;
  std::vector<std::string> overrides;
  fs::path recipe = file;
  if (is_audit) {
    require_kind(document.at("audit").get<std::string>(), options.kind, file);
    require_keys_of(options.kind, document, file);
    recipe = seen_from(file, document.at("scenario").get<std::string>());
    overrides = document.at("set").get<std::vector<std::string>>();
    request.variant = document.value("variant", "");
    request.ranks = document.value("ranks", std::vector<std::int64_t>());
    request.steps = document.at("steps").get<std::int64_t>();
    request.only = document.at("only").get<std::vector<std::string>>();
    request.options = document.at("options").get<audit::ProgramOptions>();
    request.layouts = layouts_in(document);
    if (document.contains("findings")) request.findings.emplace();
    const Json findings = document.value("findings", Json::object());
    for (const auto& [id, answer] : findings.items()) {
      problems.collect([&, &line = id, &name = answer] {
        (*request.findings)[line] = audit::answer_named(name.get<std::string>(), file.string() + ": findings." + line);
      });
    }
  }
  overrides.insert(overrides.end(), options.run.overrides.begin(), options.run.overrides.end());
  if (!options.variant.empty()) request.variant = options.variant;
  if (!options.ranks.empty()) request.ranks = options.ranks;
  if (!options.layouts.empty()) request.layouts = layouts_asked(options);
  if (options.steps > 0) request.steps = options.steps;
  request.is_narrowed = !options.only.empty();
  if (request.is_narrowed) request.only = options.only;
  task.scenario = scenario::read_scenario(recipe, overrides, problems);

  task.arguments = shell_quoted(file.string());
  for (const std::string& text : options.run.overrides) task.arguments += " --set " + shell_quoted(text);
  if (!options.variant.empty()) task.arguments += " --variant " + shell_quoted(options.variant);
  if (!options.ranks.empty()) task.arguments += " --ranks " + listed_with_commas(request.ranks);
  if (!options.layouts.empty()) {
    task.arguments += " --layouts " + shell_quoted(join(options.layouts, ","));
    if (options.layout_option != kUsualOption)
      task.arguments += " " + shell_quoted("--option=" + options.layout_option);
  }
  if (options.steps > 0) task.arguments += " --steps " + std::to_string(request.steps);
  return task;
}

std::vector<Task> tasks_of(const AuditOptions& options) {
  Problems problems;
  std::vector<Task> tasks;
  for (const fs::path& file : select(options.run.scenarios, problems))
    problems.collect([&] { tasks.push_back(task_of(file, options, problems)); });
  problems.throw_if_any();
  const bool one_result = !options.run.json().empty() || !options.markdown.empty() || !options.chart.empty();
  if (one_result && tasks.size() > 1)
    throw InputError({.what = "several audits cannot share a file of results",
                      .where = "--json, --markdown, --chart",
                      .expected = "one audit",
                      .actual = std::to_string(tasks.size())});
  return tasks;
}

/// Samples in the data of a recipe; 0: unknown, as where the run fails, which the audit's own runs report.
std::int64_t samples_in_data(const Task& task, const AuditOptions& options, const fs::path& folder) {
  if (const std::int64_t said = audit::samples_said(task.scenario, task.request); said > 0) return said;
  plan::Plan plan = plan::make_plan({audit::probe(task.scenario, task.request)});
  if (plan.runs.empty() || plan.scenarios[0].variants[0].program) return 0;
  const std::vector<judge::Evidence> evidence = execute(plan, options.run, folder);
  if (!evidence[0].trace) return 0;
  return laws::samples_of(*evidence[0].trace, plan.scenarios[0].variants[0]);
}

/// Says each answer on stderr as soon as its runs have ended: an audit of a long program takes minutes.
class Announcer : public launch::Observer {
 public:
  /// *Lifetime*: of all three.
  Announcer(const audit::Examination& examined, const plan::Plan& plan, const fs::path& folder)
      : examined_(examined), plan_(plan), folder_(folder), outcomes_(plan.runs.size()) {}

  void ended(std::size_t job, const launch::RunOutcome& outcome) override {
    outcomes_[job] = outcome;
    ended_.insert(plan_.runs[job].variant);
    std::vector<std::size_t> fresh = examined_.answered_by(ended_);
    std::erase_if(fresh, [&](std::size_t statement) { return said_.contains(statement); });
    if (fresh.empty()) return;
    said_.insert(fresh.begin(), fresh.end());
    try {
      say(fresh);
    } catch (const Error&) {
      return;  // the page says why these runs cannot be read
    }
  }

 private:
  /// Reads the traces of these statements' runs alone.
  void say(const std::vector<std::size_t>& statements) const {
    std::set<std::string> needed;
    for (const std::size_t statement : statements) needed.merge(examined_.needs_of(statement));
    plan::Plan plan = plan_;
    std::vector<launch::RunOutcome> outcomes(outcomes_.size());
    for (std::size_t job = 0; job < outcomes.size(); ++job) {
      outcomes[job].status = launch::RunOutcome::Status::kInterrupted;
      if (needed.contains(plan_.runs[job].variant)) outcomes[job] = outcomes_[job];
    }
    const std::vector<judge::Evidence> evidence = judge::read_evidence(plan, std::move(outcomes), folder_);
    const judge::Verdict verdict = judge::judge(plan, evidence, "", today());
    for (const std::size_t statement : statements) {
      const audit::Line line = examined_.line_of(statement, plan, verdict, evidence);
      // Control runs may still explain it.
      const bool is_open = line.answer == audit::Answer::kBroken || line.answer == audit::Answer::kCannotTell;
      print_line(stderr,
                 "lockstep: " + padded(is_open ? "open" : name_of(line.answer), 12) + " " + line.id + ": " + line.text);
    }
  }

  const audit::Examination& examined_;
  const plan::Plan& plan_;
  const fs::path& folder_;
  std::vector<launch::RunOutcome> outcomes_;
  std::set<std::string> ended_;  ///< variants
  std::set<std::size_t> said_;
};

/// Runs the trainings of one audit and reads its answers; control runs are made for what theory did not foresee.
audit::Audit audited(Task task, const AuditOptions& options, const fs::path& folder) {
  task.request.samples = samples_in_data(task, options, folder / "probe");
  const std::unique_ptr<audit::Examination> examined = audit::examination(task.scenario, task.request);
  plan::Plan plan = plan::make_plan({examined->scenario()});
  Announcer announcer(*examined, plan, folder);
  const std::vector<judge::Evidence> evidence = execute(plan, options.run, folder, nullptr, &announcer);
  judge::Verdict verdict = judge::judge(plan, evidence, options.run.golden_root, today());
  if (verdict.status() == judge::Status::kInterrupted) throw Interrupted({.what = "interrupted before the runs ended"});

  std::vector<bool> open;  // before any control run
  for (std::size_t check = 0; check < plan.checks.size(); ++check)
    open.push_back(examined->is_open(check, plan, verdict, evidence));
  investigate_chosen(verdict, plan, evidence, options.run, folder, [&](std::size_t check) { return open[check]; });
  return examined->answer(plan, verdict, evidence,
                          "lockstep audit " + std::string(name_of(options.kind)) + " " + task.arguments);
}

int audit(const AuditOptions& options) {
  make_way("--json", options.run.json(), options.run.scenarios);
  make_way("--markdown", options.markdown, options.run.scenarios);
  make_way("--chart", options.chart, options.run.scenarios);
  const std::vector<Task> tasks = tasks_of(options);
  RunsFolder runs(options.run.out);
  judge::Status worst = judge::Status::kAgree;
  for (std::size_t i = 0; i < tasks.size(); ++i) {
    const audit::Audit result = audited(tasks[i], options, runs.path() / std::to_string(i));
    if (options.run.json() != kStandardOutput)
      print_page(stdout, (i == 0 ? "" : "\n") + to_text(result, may_color(STDOUT_FILENO)));
    if (!options.run.json().empty()) write_json(options.run.json(), to_json(result));
    if (!options.markdown.empty()) write_result(options.markdown, to_markdown(result));
    if (!options.chart.empty()) write_result(options.chart, to_svg(result));
    worst = std::max(worst, result.status());
  }
  if (worst != judge::Status::kAgree) runs.keep();
  return exit_code(worst);
}

/// Options of every audit. `id`: of a line, for an example.
void add_audit_options(CLI::App& command, Action& action, const std::shared_ptr<AuditOptions>& options,
                       audit::Kind kind, const std::string& id) {
  command.add_option("scenarios", options->run.scenarios, "Scenario files, files of audits, or folders of them")
      ->required();
  command
      .add_option("--variant", options->variant,
                  "The variant that holds the recipe. Default: 'recipe', else the first by name")
      ->check(not_empty);
  command
      .add_option("--steps,--stop-after", options->steps,
                  "Updates of each run, after which it ends, a program's, too. Default: 6")
      ->type_name("N")
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{100000}));
  command.add_option("--only", options->only, "Only lines whose ids begin with this: " + id)
      ->type_name("ID")
      ->allow_extra_args(false)
      ->check(not_empty);
  command.add_option("--markdown", options->markdown, "Write the tables for a pull request")
      ->type_name("FILE")
      ->check(not_empty);
  add_run_options(command, options->run);
  add_json_option(command, options->run.reports["json"]);
  options->run.verbosity = report::Verbosity::kVerbose;  // one scenario of many runs
  options->kind = kind;
  run_when_chosen(command, action, options, audit);
}

void add_ranks_option(CLI::App& command, AuditOptions& options, const std::string& text) {
  command.add_option("--ranks", options.ranks, text)
      ->type_name("N,N...")
      ->delimiter(',')
      ->check(CLI::Range(std::int64_t{1}, std::int64_t{1024}));
}

void add_scaling(CLI::App& audit, Action& action) {
  CLI::App* scaling = audit.add_subcommand(
      "scaling",
      "Batch, rate and the rest of a recipe along the number of ranks, with exact identities tested by runs");
  const auto options = std::make_shared<AuditOptions>();
  add_audit_options(*scaling, action, options, audit::Kind::kScaling, "one-batch@4");
  add_ranks_option(*scaling, *options, "Numbers of ranks. Default: 1,2,4,8");
  scaling->add_option("--chart", options->chart, "Write a chart along the number of ranks")
      ->type_name("FILE.svg")
      ->check(not_empty);
}

void add_checkpoint(CLI::App& audit, Action& action) {
  CLI::App* checkpoint = audit.add_subcommand(
      "checkpoint", "What a recipe must restore, who may load it, and on how many ranks it may resume");
  const auto options = std::make_shared<AuditOptions>();
  add_audit_options(*checkpoint, action, options, audit::Kind::kCheckpoint, "without-optimizer");
  add_ranks_option(*checkpoint, *options,
                   "Numbers of ranks: the first saves, all resume. Default: the recipe's own, and half of it");
}

void add_layout(CLI::App& audit, Action& action) {
  CLI::App* layout =
      audit.add_subcommand("layout", "Which layouts of a program compute the same: DDP, FSDP2, HSDP, TP");
  const auto options = std::make_shared<AuditOptions>();
  add_audit_options(*layout, action, options, audit::Kind::kLayout, "same@fsdp:4");
  layout
      ->add_option("--layouts", options->layouts,
                   "Layouts and their numbers of ranks: ddp:2,fsdp:4. The others are compared with the first")
      ->type_name("LAYOUT:N,...")
      ->delimiter(',')
      ->allow_extra_args(false)
      ->check(not_empty);
  layout
      ->add_option("--option", options->layout_option,
                   "The program's option that takes LAYOUT (--option=--parallel). Default: --layout")
      ->type_name("NAME")
      ->check(not_empty);
}

}  // namespace

void add_audit(CLI::App& app, Action& action) {
  CLI::App* audit =
      app.add_subcommand("audit", "Audit a recipe: on other numbers of ranks, after a checkpoint, or in other layouts");
  audit->require_subcommand(1);
  add_scaling(*audit, action);
  add_checkpoint(*audit, action);
  add_layout(*audit, action);
}

}  // namespace lockstep::app
