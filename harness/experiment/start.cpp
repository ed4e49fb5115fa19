#include "harness/experiment/start.h"

#include <algorithm>
#include <utility>

#include "harness/compare/environment.h"
#include "harness/compare/rounding.h"
#include "harness/trace/capture.h"

namespace lockstep::experiment {
namespace {

constexpr trace::Channel kWeights = trace::Channel::kWeight;

}  // namespace

Start start_of(const scenario::Scenario& scenario, const std::vector<std::string>& variants, const Runs& runs) {
  Start start;
  const trace::RunTrace* reference = nullptr;
  for (const std::string& name : variants) {
    const trace::RunTrace* run = runs.first_of(name);
    if (run == nullptr || scenario.variant(name).train.checkpoint.load) continue;
    if (reference == nullptr) {
      reference = run;
      start.of = name;
    } else if (name != start.of && compare::draw_otherwise(*reference, *run)) {
      start.others.push_back(name);
    }
  }
  return start;
}

Control looking_at_start(Control control) {
  control.patch["train"]["record"]["capture"].push_back(
      {{"step", trace::kInitialStep}, {"channel", trace::name_of(kWeights)}, {"tensor", "*"}});
  return control;
}

std::filesystem::path captured_start(const Runs& runs, const std::string& variant) {
  const trace::RunTrace* run = runs.first_of(variant);
  if (run == nullptr) return {};
  const std::filesystem::path folder = std::filesystem::path(run->ranks[0].origin).parent_path();
  const std::filesystem::path file = trace::captured_tensors_path(folder, trace::kInitialStep, 0);
  return std::filesystem::exists(file) ? std::filesystem::absolute(file) : std::filesystem::path();
}

scenario::Scenario from_one_start(scenario::Scenario scenario, const Start& start) {
  if (start.weights.empty()) return scenario;
  const Json load = {{"file", start.weights.string()},
                     {"keys", {{"strip", trace::captured_name(kWeights, "")}, {"strict", false}}},
                     {"restore", {"weights"}}};
  for (scenario::Variant& variant : scenario.variants) {
    if (std::find(start.others.begin(), start.others.end(), variant.name) != start.others.end())
      variant = scenario::patched(variant, {{"train", {{"checkpoint", {{"load", load}}}}}}, scenario.file.string());
  }
  return scenario;
}

}  // namespace lockstep::experiment
