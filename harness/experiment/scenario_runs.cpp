#include "harness/experiment/scenario_runs.h"

#include <utility>

namespace lockstep::experiment {

compare::Location place_of(const Divergence& at, const Side& left, const Side& right) {
  return {
      .step = at.step, .channel = at.channel, .tensor = at.tensor, .left_rank = left.rank, .right_rank = right.rank};
}

Runs::Runs(const plan::Plan& plan, const std::vector<judge::Evidence>& evidence, std::string scenario)
    : plan_(plan), evidence_(evidence), scenario_(std::move(scenario)) {}

Side Runs::side(const std::string& name, std::int64_t rank, bool any_repeat) const {
  for (std::size_t i = 0; i < plan_.runs.size(); ++i) {
    const plan::Run& run = plan_.runs[i];
    if (run.scenario != scenario_ || !evidence_[i].trace) continue;
    const std::string own = run.variant + "/" + std::to_string(run.repeat);
    if (name != own && !(any_repeat && name.starts_with(run.variant + "/"))) continue;
    const trace::RunTrace& trace = *evidence_[i].trace;
    const auto which = static_cast<std::size_t>(rank);
    return {.run = &trace, .rank = which < trace.ranks.size() ? which : 0};
  }
  return {};
}

Side Runs::left(const Divergence& at, bool any_repeat) const {
  return side(at.left.run, at.left.rank.value_or(at.rank), any_repeat);
}
Side Runs::right(const Divergence& at, bool any_repeat) const {
  return side(at.right.run, at.right.rank.value_or(at.rank), any_repeat);
}

const trace::RunTrace* Runs::first_of(const std::string& variant) const {
  return side(variant + "/", 0, /*any_repeat=*/true).run;
}

std::vector<const trace::RunTrace*> Runs::all_of(const std::string& variant) const {
  std::vector<const trace::RunTrace*> runs;
  for (const std::size_t index : plan_.runs_of(scenario_, variant)) {
    if (evidence_[index].trace) runs.push_back(&*evidence_[index].trace);
  }
  return runs;
}

}  // namespace lockstep::experiment
