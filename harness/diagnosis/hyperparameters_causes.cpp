#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// "weight_decay" for "optimizer1.weight_decay.2".
std::string key_of(const std::string& entry) {
  const std::size_t begin = entry.starts_with("optimizer") ? entry.find('.') + 1 : 0;
  return entry.substr(begin, entry.find('.', begin) - begin);
}

std::string shown(const std::optional<double>& value) { return value ? to_decimal(*value) : "none"; }

std::vector<Suspect> suspects_of_entry(const Scene& scene) {
  const std::string key = key_of(scene.at.tensor);
  const auto left = told_in(scene.left, scene.at.step, scene.at.tensor),
             right = told_in(scene.right, scene.at.step, scene.at.tensor);
  if (left == right) return {};
  const std::vector<std::string> evidence{"before the first update, " + scene.at.tensor + " is " + shown(left) +
                                          " in " + scene.left.run->run + ", " + shown(right) + " in " +
                                          scene.right.run->run};
  if (key == "weight_decay") return {{"opt.decay_scale", evidence}};
  if (key.ends_with("lr")) return {};  // a schedule's: the rates themselves tell more
  return {{"opt.hyperparameter", evidence}};
}

/// A side whose model is in evaluation mode where the other side's trains.
std::vector<Suspect> suspects_of_mode(const Scene& scene) {
  for (const auto& [side, other] : {std::pair(&scene.right, &scene.left), std::pair(&scene.left, &scene.right)}) {
    const trace::Step* step = side->run->ranks[side->rank].find(scene.at.step);
    if (step == nullptr) return {};
    for (const trace::Record& record : step->records) {
      if (record.channel != Channel::kLedger || !record.name.starts_with("seen.") || !record.name.ends_with("training"))
        continue;
      const auto its = told_in(*side, scene.at.step, record.name), others = told_in(*other, scene.at.step, record.name);
      if (its != 0 || others != 1) continue;
      return {{"model.evaluation_mode",
               {place_of(*side->run, scene.at.step) + ": the model is in evaluation mode (" + record.name +
                " is 0), in " + other->run->run + " it is in training mode"}}};
    }
  }
  return {};
}

}  // namespace

std::vector<Suspect> suspects_in_hyperparameters(const Scene& scene) {
  if (!is_between_programs(scene)) return {};
  if (scene.at.channel == Channel::kLedger && scene.at.step == trace::kInitialStep) return suspects_of_entry(scene);
  const trace::ChannelInfo& traits = trace::info(scene.at.channel);
  const bool shows_mode = traits.part == trace::Part::kComputed || scene.at.channel == Channel::kBuffer ||
                          scene.at.channel == Channel::kRng || scene.at.channel == Channel::kLedger;
  return shows_mode ? suspects_of_mode(scene) : std::vector<Suspect>{};
}

}  // namespace lockstep::diagnosis
