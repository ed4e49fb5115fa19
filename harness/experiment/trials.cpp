#include "harness/experiment/trials.h"

#include <utility>

#include "harness/base/error.h"
#include "harness/experiment/one_state.h"
#include "harness/experiment/readings.h"

namespace lockstep::experiment {
namespace {

std::string id_of(Trial trial) { return std::string(name_of(trial)); }

Control twice_more(Control control) {
  control.id += "_again";
  control.repeats = 2;
  return control;
}

/// A control that shows the place of the difference closely.
Control looking_at_case(Control control, const Case& one) {
  if (one.now.unstable) return looking_at(std::move(control), one.now.unstable->at);
  return one.differs() ? looking_at(std::move(control), one.at()) : control;
}

bool looks_closely(Trial trial) {
  return trial == Trial::kReplay || trial == Trial::kReplayOften || trial == Trial::kReplayTwice ||
         trial == Trial::kReplayThere;
}

}  // namespace

std::vector<Control> controls_of(Trial trial) {
  switch (trial) {
    case Trial::kDiagnosis:
      return {};
    case Trial::kFloat64:
      return {in_float64()};
    case Trial::kReplayOften:
      return {unchanged(name_of(trial), kReplays - 1)};
    case Trial::kReplayTwice:
      return {unchanged(name_of(trial), 2)};
    case Trial::kFill:
      return {filled(), filled_otherwise()};
    case Trial::kFillAgain:
      return {twice_more(filled()), twice_more(filled_otherwise())};
    case Trial::kReplay:
    case Trial::kOneState:
    case Trial::kAnotherState:
    case Trial::kOneStateThere:
    case Trial::kReplayThere:
      return {unchanged(name_of(trial))};
  }
  return {};
}

scenario::Scenario scenario_of(Trial trial, const Control& control, const Group& group,
                               const std::vector<const Case*>& cases) {
  if (trial == Trial::kOneState) return from_one_state(from_one_start(group.scenario, group.starts), cases);
  if (trial == Trial::kAnotherState) return from_another_state(group.scenario, cases);
  if (trial == Trial::kOneStateThere) return from_one_state_there(from_one_start(group.scenario, group.starts), cases);
  std::vector<std::string> variants;
  Control of_group = looks_closely(trial) && !group.starts.empty() ? looking_at_start(control) : control;
  for (const Case* one : cases) {
    // Any variant may be the one whose start the others take.
    for (const std::string& name : group.starts.empty() ? variants_worth_trying(*one) : variants_of(one->check.spec))
      variants.push_back(name);
    if (looks_closely(trial)) of_group = looking_at_case(std::move(of_group), *one);
  }
  scenario::Scenario scenario = under(of_group, group.scenario, variants);
  return control.one_start ? from_one_start(std::move(scenario), group.starts) : scenario;
}

Fact read(Trial trial, const Case& one, const Runs& before, const RunsOf& runs_of) {
  const auto runs = [&](const Control& control) { return runs_of(control.id); };
  const auto of = [&](Trial other) { return runs_of(id_of(other)); };
  switch (trial) {
    case Trial::kReplay:
      return read_replay(one, before, of(trial));
    case Trial::kDiagnosis:
      break;
    case Trial::kFloat64:
      return read_float64(one, before, of(trial));
    case Trial::kOneState:
      return read_one_state(one, of(trial));
    case Trial::kAnotherState:
      return read_another_state(one, before, of(Trial::kOneState), of(trial));
    case Trial::kOneStateThere:
      return read_one_state_there(one, of(Trial::kOneState), of(trial));
    case Trial::kReplayOften:
      return read_replay_often(one, before, of(trial));
    case Trial::kReplayTwice:
      return read_replay_twice(one, of(trial));
    case Trial::kReplayThere:
      return read_replay_there(one, of(trial));
    case Trial::kFill:
      return Fill{read_fill(one, {runs(filled()), runs(filled_otherwise())})};
    case Trial::kFillAgain:
      return FillAgain{read_fill(one, {runs(filled()), runs(filled_otherwise()), runs(twice_more(filled())),
                                       runs(twice_more(filled_otherwise()))})};
  }
  throw Error({.what = "the trial " + id_of(trial) + " has no runs"});
}

}  // namespace lockstep::experiment
