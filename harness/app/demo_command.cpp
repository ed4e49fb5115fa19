// lockstep demo: mistakes that anyone knows, planted in short trainings, recorded and judged.
#include <algorithm>
#include <chrono>
#include <cstdio>
#include <filesystem>
#include <sstream>

#include <CLI/CLI.hpp>
#include <unistd.h>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/app/recording_request.h"
#include "harness/base/console.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/diagnosis/causes.h"
#include "harness/golden/curve.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr const char* kMistake = "mistake";  ///< variant of each scenario
constexpr const char* kMended = "mended";
constexpr std::string_view kMark = "the mistake:";  ///< begins the comment in a script that says which line is wrong

struct DemoOptions {
  fs::path out = "lockstep-demo";
};

/// Copies scripts and scenarios, so that people can look at them and change them.
void copy_demo(const fs::path& target) {
  const fs::path source = find_recorder() / "lockstep" / "demo";
  for (const std::string& name : files_below(source)) {
    if (name.ends_with(".py") || name.ends_with(".jsonc")) write_file(target / name, read_file(source / name));
  }
}

/// Script of a scenario, with the line that is wrong: "no_sampler.py:19".
std::string place_of(const scenario::Scenario& scenario) {
  const fs::path script = fs::path(scenario.file).replace_extension(".py");
  std::istringstream lines(read_file(script));
  std::size_t number = 1;
  for (std::string line; std::getline(lines, line) && line.find(kMark) == std::string::npos;) ++number;
  return script.filename().string() + ":" + std::to_string(number);
}

/// What is known of one scenario.
class Shown {
 public:
  Shown(const scenario::Scenario& scenario, const plan::Plan& plan, const std::vector<judge::Evidence>& evidence,
        const judge::Verdict& verdict)
      : scenario_(scenario), plan_(plan), evidence_(evidence) {
    for (const judge::CheckReport& check : verdict.checks) {
      if (check.scenario != scenario.name) continue;
      if (check.variants == std::vector<std::string>{kMended}) {
        clean_ = check.status == judge::Status::kAgree;
      } else if (found_ == nullptr && check.result.divergence) {
        found_ = &*check.result.divergence;
      }
    }
  }

  bool is_named() const { return found_ != nullptr && !found_->suspects.empty(); }
  bool is_clean() const { return clean_; }

  /// Whether the loss of the mistake falls, as it does where nothing is wrong.
  bool falls() const {
    const std::vector<double> losses = losses_of(kMistake);
    return !losses.empty() && losses.back() < losses.front();
  }

  std::string text() const {
    std::string text = place_of(scenario_) + "  " + scenario_.description + "\n";
    text += line("loss", "mistake  " + golden::bars_of(losses_of(kMistake)));
    text += line("", "mended   " + golden::bars_of(losses_of(kMended)));
    if (is_named()) {
      const diagnosis::Cause* const cause = diagnosis::find_cause(found_->suspects[0].cause);
      text += line("lockstep", std::string(cause->id) + ", at " + found_->place_and_rank());
      text += line("", std::string(cause->sentence));
      for (const std::string& evidence : found_->suspects[0].evidence) text += line("because", evidence);
      text += line("remedy", std::string(cause->remedy));
    } else {
      text += line("lockstep", "the mistake is not named");
    }
    return text + line("mended", clean_ ? "keeps every law that applies" : "does not keep every law");
  }

 private:
  static std::string line(const std::string& title, const std::string& said) {
    return "  " + padded(title, 10) + said + "\n";
  }

  std::vector<double> losses_of(const std::string& variant) const {
    const std::size_t run = plan_.runs_of(scenario_.name, variant).at(0);
    return evidence_[run].trace ? golden::losses_of(*evidence_[run].trace) : std::vector<double>();
  }

  const scenario::Scenario& scenario_;
  const plan::Plan& plan_;
  const std::vector<judge::Evidence>& evidence_;
  const compare::Divergence* found_ = nullptr;
  bool clean_ = false;
};

int demo(const DemoOptions& options) {
  const auto begin = std::chrono::steady_clock::now();
  require_new_folder(options.out, "demo");
  copy_demo(options.out);
  RunOptions run;
  run.scenarios = {options.out};
  plan::Plan plan = plan::make_plan(load(run));
  const RunsFolder runs(options.out / "runs");
  const std::vector<judge::Evidence> evidence = execute(plan, run, runs.path());
  const judge::Verdict verdict = judge::judge(plan, evidence, run.golden_root, today());
  if (verdict.runs_finished < verdict.runs_total) {
    print_page(stdout, report::make_text_renderer(may_color(STDOUT_FILENO))->render(verdict, plan));
    return exit_code(verdict.status());
  }
  std::size_t named = 0, clean = 0, falling = 0;
  std::string page;
  for (const scenario::Scenario& scenario : plan.scenarios) {
    const Shown shown(scenario, plan, evidence, verdict);
    named += shown.is_named() ? 1 : 0;
    falling += shown.falls() ? 1 : 0;
    clean += shown.is_clean() ? 1 : 0;
    page += shown.text() + "\n";
  }
  const std::size_t all = plan.scenarios.size();
  const double seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
  page += "The loss falls in " + std::to_string(falling) + " of " + std::to_string(all) + ". " + std::to_string(named) +
          " of " + std::to_string(all) + " mistakes are named, " + std::to_string(clean) + " of " +
          std::to_string(all) + " mended trainings are clean, " + rounded(seconds, 3) +
          " s.\nScripts, scenarios and traces are in " + options.out.string() + ". Look at one: lockstep run " +
          (options.out / "no_sampler.jsonc").string() + "\n";
  print_page(stdout, page);
  return exit_code(named == all && clean == all ? judge::Status::kAgree : judge::Status::kInconclusive);
}

}  // namespace

void add_demo(CLI::App& app, Action& action) {
  CLI::App* command = app.add_subcommand("demo", "Record and judge trainings with a mistake that a loss does not show");
  const auto options = std::make_shared<DemoOptions>();
  command
      ->add_option("--out", options->out,
                   "Folder for scripts, scenarios and traces; must be empty. Default: lockstep-demo")
      ->type_name("FOLDER")
      ->check(not_empty);
  run_when_chosen(*command, action, options, demo);
}

}  // namespace lockstep::app
