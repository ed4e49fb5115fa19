// lockstep gate --selftest: whether goldens turn red at each change that they are there to see.
#include <cstdio>
#include <set>

#include "harness/app/commands.h"
#include "harness/app/pipeline.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/golden/root.h"
#include "harness/golden/selftest.h"
#include "harness/golden/store.h"

namespace lockstep::app {
namespace {

std::vector<golden::Trial> trials_of(const scenario::Scenario& scenario, const scenario::CheckSpec& check,
                                     const std::filesystem::path& root) {
  std::vector<golden::Trial> trials;
  for (const std::string& variant : check.variants) {
    const std::filesystem::path file = golden::golden_file(root, scenario.name, variant);
    const auto golden = golden::read_golden(file);
    if (!golden)
      throw InputError({.what = "a golden is missing", .where = file.string(), .next = "lockstep golden status"});
    for (const golden::Entry& entry : golden->entries) {
      for (golden::Trial& trial : golden::selftest(scenario, check, variant, *golden, entry))
        trials.push_back(std::move(trial));
    }
  }
  return trials;
}

}  // namespace

int selftest(const RunOptions& options) {
  std::size_t trials = 0, unseen = 0;
  std::set<std::string> goldens;
  for (const scenario::Scenario& scenario : load(options)) {
    for (const scenario::CheckSpec& check : scenario.checks) {
      if (check.traits().sides != scenario::Sides::kGolden || !check.of.empty()) continue;
      for (const golden::Trial& trial :
           trials_of(scenario, check, golden::root_of(scenario.file, options.golden_root).folder)) {
        goldens.insert(trial.golden);
        ++trials;
        if (trial.is_seen) continue;
        ++unseen;
        print_line(stdout, "NOT SEEN  " + trial.golden + ": " + trial.change);
      }
    }
  }
  if (trials == 0)
    throw InputError({.what = "nothing is selected: no scenario has a golden check",
                      .next = "add {\"that\": \"golden\"} to its checks"});
  print_line(stdout, "selftest: " + std::to_string(goldens.size()) +
                         (goldens.size() == 1 ? " golden, " : " goldens, ") + std::to_string(trials) + " changes, " +
                         (unseen == 0 ? "each turns its golden red" : std::to_string(unseen) + " not seen"));
  return unseen == 0 ? 0 : 1;
}

}  // namespace lockstep::app
