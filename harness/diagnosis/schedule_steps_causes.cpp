#include "harness/diagnosis/schedule_steps_causes.h"

#include <map>

#include "harness/base/text.h"
#include "harness/diagnosis/program_facts.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

const std::string kSteps = "seen.schedule_steps";

/// Rates by the steps that the schedule had taken; empty where one count has two rates.
std::map<double, double> rates_by_count(const Side& side, const std::string& rate) {
  std::map<double, double> rates;
  for (const trace::Step& step : side.run->ranks[side.rank].steps) {
    const auto count = told_in(side, step.step, kSteps), value = told_in(side, step.step, rate);
    if (count && value && rates.emplace(*count, *value).first->second != *value) return {};
  }
  return rates;
}

/// Whether the two schedules are as many steps apart in all later updates, of which there are some.
bool stays_apart(const Scene& scene, double distance) {
  bool any = false;
  for (const trace::Step& step : scene.right.run->ranks[scene.right.rank].steps) {
    if (step.step <= scene.at.step) continue;
    const auto left = told_in(scene.left, step.step, kSteps), right = told_in(scene.right, step.step, kSteps);
    if (left && right && *right - *left != distance) return false;
    any = any || (left && right);
  }
  return any;
}

}  // namespace

std::vector<Suspect> suspects_in_schedule_steps(const Scene& scene, const std::string& rate) {
  if (!is_between_programs(scene)) return {};
  const auto left = told_in(scene.left, scene.at.step, kSteps), right = told_in(scene.right, scene.at.step, kSteps);
  if (!left || !right || *left == *right) return {};
  const bool is_offset = stays_apart(scene, *right - *left);
  if (is_offset) return {};  // both count alike, and began apart
  const auto theirs = rates_by_count(scene.left, rate), its = rates_by_count(scene.right, rate);
  if (theirs.empty() || its.empty()) return {};
  std::size_t equal = 0;
  for (const auto& [count, value] : its) {
    const auto found = theirs.find(count);
    if (found != theirs.end() && found->second != value) return {};
    equal += found != theirs.end() ? 1 : 0;
  }
  std::vector<std::string> evidence{"at the update of step " + std::to_string(scene.at.step) + ", the schedule of " +
                                    scene.left.run->run + " has taken " + to_decimal(*left) +
                                    " steps, the schedule of " + scene.right.run->run + " " + to_decimal(*right)};
  if (equal > 0)
    evidence.push_back("after as many steps of the schedule both have the same rate, in " + std::to_string(equal) +
                       (equal == 1 ? " case" : " cases"));
  return {{"lr.schedule_rate", evidence}};
}

}  // namespace lockstep::diagnosis
