// lockstep golden status, log, verify: what is accepted, since when, and whether it still holds.
#include <algorithm>
#include <cstdio>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/golden_command.h"
#include "harness/app/golden_states.h"
#include "harness/app/pipeline.h"
#include "harness/app/proposals_chosen.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

struct StatusOptions {
  RunOptions run;
  fs::path json;
};

/// Scenarios in a folder. Recipes of audits and the like have no checks.
std::vector<fs::path> scenarios_in(const fs::path& folder) {
  Problems problems;
  std::vector<fs::path> files = select({folder}, problems);
  std::erase_if(files, [](const fs::path& file) {
    const Json document = read_json(file);
    return !document.is_object() || !document.contains("checks");
  });
  return files;
}

/// Scenarios of each folder below scenarios/, looked at where nothing is named.
std::vector<std::vector<fs::path>> usual_scenarios() {
  std::vector<std::vector<fs::path>> all;
  const fs::path root = "scenarios";
  if (is_folder(root)) {
    all.push_back(scenarios_in(root));
    for (const fs::path& entry : entries_of(root)) {
      if (is_folder(entry)) all.push_back(scenarios_in(entry));
    }
  }
  std::erase_if(all, [](const std::vector<fs::path>& files) { return files.empty(); });
  if (all.empty())
    throw InputError({.what = "nothing is selected: there is no folder scenarios/ with scenarios",
                      .next = "name scenario files, or folders of them"});
  return all;
}

int status(const StatusOptions& given) {
  RunOptions options = given.run;
  const bool is_all = options.scenarios.empty();
  std::vector<plan::Plan> plans;
  for (const std::vector<fs::path>& files :
       is_all ? usual_scenarios() : std::vector<std::vector<fs::path>>{options.scenarios}) {
    options.scenarios = files;  // of one folder: scenarios of two may share a name
    plans.push_back(plan::make_plan(load(options)));
  }
  const std::vector<GoldenState> states = states_of_goldens(plans, options.golden_root, is_all);
  const std::vector<golden::Proposal> proposals = proposals_chosen({}, {}, options.golden_root);
  std::size_t current = 0;
  Json rows = Json::array();
  const bool to_stdout = given.json == kStandardOutput;
  for (const GoldenState& state : states) {
    rows.push_back({{"golden", state.golden}, {"state", state.state}, {"why", state.why}, {"next", state.next}});
    current += state.code == 0 ? 1 : 0;
    if (state.code == 0 || to_stdout) continue;
    print_line(stdout, padded(state.state, 11) + "  " + state.golden + ": " + printable(state.why));
    print_line(stdout, padded("", 11) + "  next  " + printable(state.next));
  }
  for (const golden::Proposal& proposal : proposals) {
    if (!to_stdout) print_line(stdout, padded("proposed", 11) + "  " + proposal.text());
  }
  if (!to_stdout)
    print_line(stdout, std::to_string(current) + " of " + std::to_string(states.size()) + " are current" +
                           (proposals.empty() ? "" : "; decide about proposals: lockstep golden review"));
  if (states.empty())
    throw InputError({.what = "nothing is selected: no scenario has a golden check",
                      .next = "add {\"that\": \"golden\"} to its checks"});
  Json pending = Json::array();
  for (const golden::Proposal& proposal : proposals) pending.push_back(proposal.text());
  if (!given.json.empty())
    write_json(given.json, {{"format", "lockstep.goldens/1"}, {"goldens", rows}, {"proposals", pending}});
  return code_of(states);
}

struct LogOptions {
  std::string golden;
  fs::path golden_root;
};

int log(const LogOptions& options) {
  const fs::path root = root_of_proposals(options.golden_root);
  std::size_t found = 0;
  std::vector<std::string> names;
  for (const fs::path& file : golden::goldens_in(root)) {
    names.push_back(golden::name_of_golden(root, file));
    if (!fits(options.golden, names.back())) continue;
    ++found;
    const golden::Golden golden = golden::read_golden(file).value();
    for (const golden::Entry& entry : golden.entries) {
      print_line(stdout, names.back() + " (" + entry.key + ")");
      for (const golden::Acceptance& one : entry.history) {
        print_line(stdout, "  " + one.date + "  " + printable(one.reason));
        print_line(stdout, "    by " + printable(one.by) + ", commit " + printable(one.commit) + ", " +
                               std::to_string(one.repeats) + " equal runs, replaces " + printable(one.replaces));
        if (!one.moved.empty()) print_line(stdout, "    moved " + printable(one.moved));
      }
    }
  }
  if (found == 0)
    throw InputError({.what = "there is no such golden",
                      .where = root.string(),
                      .actual = "'" + options.golden + "'",
                      .next = names.empty() ? "" : suggest(options.golden, names)});
  return 0;
}

struct VerifyOptions : RunOptions {
  int repeats = 3;
};

int verify(const VerifyOptions& given) {
  RunOptions options = given;
  options.overrides.push_back("repeats=" + std::to_string(given.repeats));
  return run(options);
}

}  // namespace

void add_golden_status(CLI::App& golden, Action& action) {
  CLI::App* looking = golden.add_subcommand(
      "status", "Which goldens are missing, stale, obsolete or damaged, and what is proposed; without a run");
  const auto options = std::make_shared<StatusOptions>();
  looking->add_option("scenarios", options->run.scenarios,
                      "Scenario files, or folders of them. Default: all below scenarios/");
  add_judging_options(*looking, options->run);
  add_json_option(*looking, options->json);
  run_when_chosen(*looking, action, options, status);

  CLI::App* logging = golden.add_subcommand("log", "Acceptances of a golden, the newest first");
  const auto named = std::make_shared<LogOptions>();
  logging->add_option("golden", named->golden, "'world-size/w3', or a pattern: 'world-size/*'")->required();
  logging->add_option("--golden", named->golden_root, "Folder of the goldens")->type_name("FOLDER")->check(not_empty);
  run_when_chosen(*logging, action, named, log);

  CLI::App* verifying =
      golden.add_subcommand("verify", "Run scenarios several times, and compare each run with its golden");
  const auto verified = std::make_shared<VerifyOptions>();
  verifying->add_option("scenarios", verified->scenarios, "Scenario files, or folders of them")->required();
  verifying->add_option("--repeats", verified->repeats, "Runs of each variant. Default: 3")->check(CLI::Range(1, 1000));
  add_run_options(*verifying, *verified);
  add_report_options(*verifying, *verified);
  add_verbosity_options(*verifying, *verified);
  run_when_chosen(*verifying, action, verified, verify);
}

}  // namespace lockstep::app
