#include "harness/diagnosis/scene.h"

#include <algorithm>

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

/// The run and rank of a party; `rank`: where it names none.
Side side_of(const Question& question, const compare::Party& party, std::int64_t rank) {
  for (const auto& [variant, runs] : question.traces) {
    for (const trace::RunTrace* run : runs) {
      if (party.run != run->run) continue;
      const auto which = static_cast<std::size_t>(party.rank.value_or(rank));
      return {run, question.promises.at(variant), which < run->ranks.size() ? which : 0};
    }
  }
  return {};
}

}  // namespace

bool Side::begins_at(std::int64_t step) const {
  return run != nullptr && !run->ranks[rank].steps.empty() && run->ranks[rank].steps.front().step == step;
}

const trace::Record* Side::find(std::int64_t step, trace::Channel channel, const std::string& name) const {
  return run == nullptr ? nullptr : run->ranks[rank].find(step, channel, name);
}

Scene::Scene(const Question& question, const compare::Divergence& at)
    : question(question),
      at(at),
      left(side_of(question, at.left, at.rank)),
      right(side_of(question, at.right, at.rank)) {}

std::string place_of(const trace::RunTrace& run, std::int64_t step) {
  return "step " + std::to_string(step) + ", " + run.run;
}

bool accuses(const std::vector<Suspect>& suspects, const std::string& cause) {
  return std::any_of(suspects.begin(), suspects.end(), [&](const Suspect& s) { return s.cause == cause; });
}

}  // namespace lockstep::diagnosis
