#include <algorithm>
#include <cstdio>
#include <utility>

#include <unistd.h>

#include "harness/app/chosen.h"
#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/judge/mutation_table.h"
#include "harness/report/mutation_text.h"
#include "harness/report/renderer.h"

namespace lockstep::app {
namespace {

/// Runs and checks of a plan, by whose they are.
class Places {
 public:
  explicit Places(const std::vector<plan::Mutated>& all) {
    for (const plan::Mutated& mutated : all) {
      for (std::size_t i = 0; i < mutated.scenario.checks.size(); ++i) is_own_.push_back(i < mutated.own_checks);
    }
  }

  bool is_own(std::size_t check) const { return is_own_[check]; }

  static bool is_own(const plan::Plan& plan, const std::string& run) {
    const auto found =
        std::find_if(plan.runs.begin(), plan.runs.end(), [&](const plan::Run& one) { return one.name == run; });
    return found == plan.runs.end() || plan.scenario(found->scenario).variant(found->variant).mutation_of.empty();
  }

 private:
  std::vector<bool> is_own_;  ///< by place in the plan
};

/// Checks of trials that nothing decides yet: a trial with one that is surely red needs no other.
std::vector<bool> open_checks(const std::vector<plan::Mutated>& all, const plan::Plan& plan,
                              const judge::Verdict& verdict) {
  std::vector<bool> open(plan.checks.size(), false);
  std::size_t first = 0;  // of a scenario's checks in the plan
  for (const plan::Mutated& mutated : all) {
    for (const plan::Trial& trial : mutated.trials) {
      const bool decided = std::any_of(trial.checks.begin(), trial.checks.end(), [&](std::size_t check) {
        return is_surely_red(verdict.checks[first + check], mutated.scenario, plan.checks[first + check].spec);
      });
      for (const std::size_t check : trial.checks) open[first + check] = !decided;
    }
    first += mutated.scenario.checks.size();
  }
  return open;
}

}  // namespace

int mutations(const RunOptions& options, const std::string& part_text) {
  make_way("--json", options.json(), options.scenarios);
  const plan::Part part = plan::parse_part(part_text);
  const std::vector<plan::Mutated> all = plan::mutate(load(options), part);
  std::vector<scenario::Scenario> scenarios;
  for (const plan::Mutated& mutated : all) scenarios.push_back(mutated.scenario);
  plan::Plan plan = plan::make_plan(std::move(scenarios));
  RunsFolder runs(options.out);
  const std::vector<judge::Evidence> evidence = execute(plan, options, runs.path());
  judge::Verdict verdict = judge::judge(plan, evidence, options.golden_root, today());

  const Places places(all);
  Chosen own = choose(plan, verdict, [&](std::size_t check) { return places.is_own(check); });
  std::erase_if(own.verdict.runs, [&](const judge::RunReport& run) { return !Places::is_own(plan, run.run); });
  investigate(own.verdict, own.plan, evidence, options, runs.path());

  const std::vector<bool> open = open_checks(all, plan, verdict);
  investigate_chosen(verdict, plan, evidence, options, runs.path() / "mutations",
                     [&](std::size_t check) { return open[check]; });

  judge::MutationTable table = judge::mutation_table(all, verdict, own.verdict);
  table.part = part;
  const judge::Status status = table.status();
  if (options.json() != kStandardOutput) {
    if (own.verdict.status() != judge::Status::kAgree)
      print_page(stdout, report::make_text_renderer(may_color(STDOUT_FILENO))->render(own.verdict, own.plan) + "\n");
    print_page(stdout, report::to_text(table));
  }
  if (status != judge::Status::kAgree) runs.keep();
  if (!options.json().empty()) write_json(options.json(), report::to_json(table));
  return exit_code(status);
}

}  // namespace lockstep::app
