#include "harness/app/golden_states.h"

#include <algorithm>
#include <set>

#include "harness/app/acceptance.h"
#include "harness/app/proposals_chosen.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/golden/processors.h"
#include "harness/golden/recipe_changes.h"
#include "harness/golden/root.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

constexpr int kUndecided = 3;
constexpr int kDamaged = 4;

/// The option that names a folder of goldens; empty: none need be named.
std::string golden_option(const fs::path& root) {
  return root.empty() || root == root_of_proposals("") ? "" : " --golden " + shell_quoted(root.string());
}

/// Looks at the goldens of plans' scenarios.
class Looking {
 public:
  explicit Looking(const fs::path& given_root) : given_root_(given_root) {}

  void look(const plan::Plan& plan) {
    plan_ = &plan;
    for (const scenario::Scenario& scenario : plan.scenarios) {
      const fs::path root = root_of(scenario);
      roots_.insert(root);
      for (const std::string& variant : variants_with_goldens(scenario)) {
        expected_.insert(golden::golden_file(root, scenario.name, variant).lexically_normal());
        look_at(scenario, variant, root);
      }
    }
  }

  /// Goldens that no check names.
  void look_for_others() {
    for (const fs::path& root : roots_) {
      for (const fs::path& file : golden::goldens_in(root)) {
        if (expected_.contains(file.lexically_normal())) continue;
        states_.push_back({.golden = golden::name_of_golden(root, file),
                           .state = "obsolete",
                           .why = "no golden check names " + file.lexically_normal().string(),
                           .next = "git rm " + shell_quoted(file.lexically_normal().string()),
                           .code = kUndecided});
      }
    }
  }

  std::vector<GoldenState> states() { return std::move(states_); }

 private:
  fs::path root_of(const scenario::Scenario& scenario) const {
    return golden::root_of(scenario.file, given_root_).folder;
  }

  void look_at(const scenario::Scenario& scenario, const std::string& variant, const fs::path& root) {
    const std::string name = scenario.name + "/" + variant;
    const std::string accept =
        "lockstep golden accept " + shell_quoted(scenario.file.string()) + golden_option(given_root_) + " --reason '…'";
    const fs::path file = golden::golden_file(root, scenario.name, variant);
    const auto add = [&](const char* state, const std::string& why, const std::string& next, int code) {
      states_.push_back({.golden = name, .state = state, .why = why, .next = next, .code = code});
    };
    try {
      const auto golden = golden::read_golden(file);
      if (golden) {
        look_at_entries(*golden, scenario, variant, file, accept);
      } else if (golden::has_old_format(root, scenario.name, variant)) {
        add("old format", "it has the format of an older lockstep",
            "lockstep golden migrate " + shell_quoted(root.string()), kUndecided);
      } else {
        add("missing", "there is no golden " + file.string(), accept, kUndecided);
      }
    } catch (const golden::StaleGolden& error) {
      add("conflict", error.problem().what + " (" + error.problem().where + ")", accept, kUndecided);
    } catch (const Error& error) {
      add("damaged", error.problem().what + " (" + error.problem().where + ")",
          "restore it from version control, or: " + accept, kDamaged);
    }
  }

  void look_at_entries(const golden::Golden& golden, const scenario::Scenario& scenario, const std::string& variant,
                       const fs::path& file, const std::string& accept) {
    const std::string said = scenario.variant(variant).train.determinism.cpu;
    const std::string cpu = said.empty() ? "native" : said;  // a program may promise nothing
    const std::vector<std::string> here = golden::keys_here(cpu);
    const std::string accepted_here = golden::key_to_accept(file, here);
    for (const golden::Entry& entry : golden.entries) {
      GoldenState state{.golden = scenario.name + "/" + variant + " (" + entry.key + ")", .state = "current"};
      const auto undecided = [&](const char* what, const std::string& why, const std::string& next) {
        state = {.golden = state.golden, .state = what, .why = why, .next = next, .code = kUndecided};
      };
      const std::string remove = "lockstep golden remove " + shell_quoted(scenario.name + "/" + variant) + " --key " +
                                 shell_quoted(entry.key) + golden_option(root_of(scenario));
      const std::string renew = entry.key == accepted_here ? accept
                                : entry.key == here.back() ? accept + " --class"
                                                           : "on such processors: " + accept + "; or: " + remove;
      const std::string of_class = golden::class_of(entry.key);
      const bool is_of_lane = golden::is_class_of(cpu, of_class);
      if (golden.scenario != scenario.name || golden.variant != variant) {
        undecided("stranger", file.string() + " belongs to '" + golden.scenario + "', variant '" + golden.variant + "'",
                  accept);
      } else if (!golden::is_class(of_class)) {
        undecided("unknown key", "no processors are called '" + entry.key + "'", remove);
      } else if (!is_of_lane) {
        undecided("no lane", "runs of this variant are '" + cpu + "': none has the key '" + entry.key + "'", remove);
      } else if (const std::string why = staleness(entry, scenario, variant); !why.empty()) {
        undecided("stale", why, renew);
      }
      states_.push_back(std::move(state));
    }
    if (golden.find(accepted_here) == nullptr)
      states_.push_back({.golden = scenario.name + "/" + variant,
                         .state = "missing",
                         .why = file.string() + " has no entry for this machine: '" + join(here, "' or '") + "'",
                         .next = accept,
                         .code = kUndecided});
  }

  /// Why an entry is of an older training; empty: it is not.
  std::string staleness(const golden::Entry& entry, const scenario::Scenario& scenario,
                        const std::string& variant) const {
    const plan::Run& run = plan_->runs.at(plan_->runs_of(scenario.name, variant).at(0));
    const Json& header = entry.run.ranks[0].header;
    if (entry.run.world_size() != run.world_size)
      return std::to_string(entry.run.world_size()) + " ranks then, " + std::to_string(run.world_size) + " now";
    if (header.value("train_digest", "") != run.train_digest) {
      const std::vector<std::string> keys = golden::changed_keys(entry, scenario.variant(variant));
      return "the training changed since: " + (keys.empty() ? "its data, or what it loads" : join(keys, ", "));
    }
    const std::vector<std::string> files =
        keys_that_differ(header.value("inputs", Json::object()), inputs_of(run, header));
    return files.empty() ? "" : "the training changed since: the content of " + join(files, ", ");
  }

  /// Files that a command names, as far as the golden holds them: the run may have written the others.
  static Json inputs_of(const plan::Run& run, const Json& golden) {
    const auto* const command = std::get_if<plan::CommandProgram>(&run.program);
    Json inputs = Json::object();
    if (command == nullptr) return inputs;
    const Json named = command->header.value("inputs", Json::object());
    const Json held = golden.value("inputs", Json::object());
    for (const auto& [file, digest] : named.items()) {
      if (held.contains(file)) inputs[file] = digest;
    }
    return inputs;
  }

  const fs::path& given_root_;
  const plan::Plan* plan_ = nullptr;  ///< that is looked at
  std::set<fs::path> roots_, expected_;
  std::vector<GoldenState> states_;
};

}  // namespace

std::vector<GoldenState> states_of_goldens(const std::vector<plan::Plan>& plans, const fs::path& given_root,
                                           bool is_all) {
  Looking looking(given_root);
  for (const plan::Plan& plan : plans) looking.look(plan);
  if (is_all) looking.look_for_others();
  return looking.states();
}

int code_of(const std::vector<GoldenState>& states) {
  int code = 0;
  for (const GoldenState& state : states) code = std::max(code, state.code);
  return code;
}

}  // namespace lockstep::app
