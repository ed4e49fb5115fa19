#include "harness/experiment/start.h"

#include <algorithm>
#include <set>

#include "harness/compare/rounding.h"
#include "harness/trace/capture.h"

namespace lockstep::experiment {
namespace {

constexpr trace::Channel kWeights = trace::Channel::kWeight;

/// The start that a run has in common with another variant; null where it has none.
Start* common_start(std::vector<Start>& starts, const trace::RunTrace& run, const Runs& runs) {
  const auto found = std::find_if(starts.begin(), starts.end(), [&](const Start& start) {
    return compare::draw_otherwise(*runs.first_of(start.of), run);
  });
  return found == starts.end() ? nullptr : &*found;
}

}  // namespace

std::vector<Start> starts_of(const scenario::Scenario& scenario, const std::vector<std::string>& variants,
                             const Runs& runs) {
  std::vector<Start> starts;
  for (const std::string& name : std::set<std::string>(variants.begin(), variants.end())) {
    const trace::RunTrace* run = runs.first_of(name);
    if (run == nullptr || scenario.variant(name).train.checkpoint.load) continue;
    Start* start = common_start(starts, *run, runs);
    start == nullptr ? starts.push_back({.of = name}) : start->others.push_back(name);
  }
  std::erase_if(starts, [](const Start& start) { return start.others.empty(); });
  return starts;
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

scenario::Scenario from_one_start(scenario::Scenario scenario, const std::vector<Start>& starts) {
  for (const Start& start : starts) {
    if (start.weights.empty()) continue;
    const Json load = {{"file", start.weights.string()},
                       {"keys", {{"strip", trace::captured_name(kWeights, "")}, {"strict", false}}},
                       {"restore", {"weights"}}};
    for (scenario::Variant& variant : scenario.variants) {
      if (std::find(start.others.begin(), start.others.end(), variant.name) != start.others.end())
        variant = scenario::patched(variant, {{"train", {{"checkpoint", {{"load", load}}}}}}, scenario.file.string());
    }
  }
  return scenario;
}

}  // namespace lockstep::experiment
