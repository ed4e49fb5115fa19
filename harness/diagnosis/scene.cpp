#include "harness/diagnosis/scene.h"

#include <algorithm>

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

/// The run that a divergence calls "w3/0" or "w3/0 rank 1".
Side side_named(const Question& question, const std::string& name, std::int64_t rank) {
  for (const auto& [variant, runs] : question.traces) {
    for (const trace::RunTrace* run : runs) {
      if (name != run->run && !name.starts_with(run->run + " ")) continue;
      const std::size_t at = name.find(" rank ", run->run.size());
      const auto which = at == std::string::npos ? static_cast<std::size_t>(rank) : std::stoul(name.substr(at + 6));
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
      left(side_named(question, at.left, at.rank)),
      right(side_named(question, at.right, at.rank)) {}

bool accuses(const std::vector<Suspect>& suspects, const std::string& cause) {
  return std::any_of(suspects.begin(), suspects.end(), [&](const Suspect& s) { return s.cause == cause; });
}

}  // namespace lockstep::diagnosis
