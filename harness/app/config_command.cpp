// lockstep config show: the values that a scenario has, and where each comes from.
#include <algorithm>
#include <cstdio>
#include <set>
#include <sstream>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/options.h"
#include "harness/app/pipeline.h"
#include "harness/app/proposals_chosen.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/settings.h"

namespace lockstep::app {
namespace {

using scenario::Setting;

struct ConfigOptions {
  std::filesystem::path scenario;
  std::vector<std::string> overrides;
  std::string only = "*";
  bool origin = false;
  std::filesystem::path json;
};

/// Whether keys of the path that stand side by side fit the pattern.
bool holds_keys(const std::string& path, const std::string& pattern) {
  return fits("*." + pattern + ".*", "." + path + ".");
}

/// Keys and paths that a pattern may have meant: "lr", "train.optimizer", "train.optimizer.lr".
std::vector<std::string> names_in(const std::vector<Setting>& settings) {
  std::set<std::string> names;
  for (const Setting& setting : settings) {
    std::vector<std::string> keys;
    std::istringstream path(setting.path);
    for (std::string key; std::getline(path, key, '.');) keys.push_back(key);
    for (auto begin = keys.begin(); begin != keys.end(); ++begin) {
      for (auto end = begin; end != keys.end();) names.insert(join({begin, ++end}, "."));
    }
  }
  return {names.begin(), names.end()};
}

std::vector<Setting> chosen_of(const ConfigOptions& options) {
  const std::vector<Setting> all = scenario::settings_of(options.scenario, options.overrides);
  std::vector<Setting> chosen;
  std::copy_if(all.begin(), all.end(), std::back_inserter(chosen),
               [&](const Setting& setting) { return holds_keys(setting.path, options.only); });
  if (!chosen.empty()) return chosen;
  const auto meant = nearest(options.only, names_in(all));
  throw InputError({.what = "no setting has this path",
                    .where = "--only " + options.only,
                    .expected = "keys that stand side by side, such as train.optimizer or lr",
                    .next = meant ? "did you mean '" + *meant + "'?" : "leave --only out: all settings are listed"});
}

int show_config(const ConfigOptions& options) {
  make_way("--json", options.json, {options.scenario});
  Json settings = Json::array();
  for (const Setting& setting : chosen_of(options)) {
    settings.push_back({{"path", setting.path}, {"value", setting.value}, {"origin", setting.origin}});
    if (options.json != kStandardOutput)
      print_line(stdout, setting.path + " = " + setting.value.dump() + (options.origin ? "  # " + setting.origin : ""));
  }
  if (!options.json.empty())
    write_json(options.json, {{"format", "lockstep.config/1"},
                              {"scenario", options.scenario.string()},
                              {"overrides", options.overrides},
                              {"settings", settings}});
  return 0;
}

}  // namespace

void add_config(CLI::App& app, Action& action) {
  CLI::App* config = app.add_subcommand("config", "Values of a scenario");
  config->require_subcommand(1);
  CLI::App* command = config->add_subcommand("show", "Print each value of a scenario, defaults too; starts nothing");
  const auto options = std::make_shared<ConfigOptions>();
  command->add_option("scenario", options->scenario, "Scenario file")->required();
  add_override_option(*command, options->overrides);
  command->add_flag("--origin", options->origin, "Print where each value comes from: file, line and column, or --set");
  command->add_option("--only", options->only, "Only these settings: train.optimizer, lr, variants.two, 'adam*'")
      ->type_name("PATTERN")
      ->check(not_empty);
  add_json_option(*command, options->json);
  run_when_chosen(*command, action, options, show_config);
}

}  // namespace lockstep::app
