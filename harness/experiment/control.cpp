#include "harness/experiment/control.h"

#include <algorithm>
#include <set>

namespace lockstep::experiment {
namespace {

/// The variants, and all that they load from.
std::set<std::string> with_sources(const scenario::Scenario& scenario, const std::vector<std::string>& variants) {
  std::set<std::string> needed;
  std::vector<std::string> open = variants;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!needed.insert(name).second) continue;
    const auto& load = scenario.variant(name).train.checkpoint.load;
    if (load && !load->from.empty()) open.push_back(load->from);
  }
  return needed;
}

}  // namespace

Control replay() { return {.id = "replay", .patch = Json::object()}; }

Control in_float64() { return {.id = "float64", .patch = {{"train", {{"precision", "float64"}}}}}; }

scenario::Scenario under(const Control& control, const scenario::Scenario& scenario,
                         const std::vector<std::string>& variants) {
  scenario::Scenario changed = scenario;
  changed.repeats = 1;
  changed.checks.clear();
  changed.variants.clear();
  const std::set<std::string> needed = with_sources(scenario, variants);
  for (const scenario::Variant& variant : scenario.variants) {
    if (needed.contains(variant.name))
      changed.variants.push_back(scenario::patched(variant, control.patch, scenario.file.string()));
  }
  return changed;
}

}  // namespace lockstep::experiment
