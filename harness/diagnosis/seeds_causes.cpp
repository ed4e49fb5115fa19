#include <map>

#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

enum class Seeding { kUnknown, kNever, kLate, kInTime };

Seeding seeding_of(const Side& side, const std::string& generator) {
  static const std::map<Json, Seeding> kSeedings = {
      {"never", Seeding::kNever}, {"late", Seeding::kLate}, {"set", Seeding::kInTime}};
  const Json seeds = seen_of(*side.run, "seeds");
  const auto found = kSeedings.find(seeds.is_object() ? seeds.value(generator, Json()) : Json());
  return found == kSeedings.end() ? Seeding::kUnknown : found->second;
}

/// Whether the generator's states differ. One that was not drawn from since the trace began is not recorded yet:
/// what was drawn before a step shows one step later.
bool differ(const Scene& scene, const std::string& generator) {
  for (const std::int64_t step : {scene.at.step, scene.at.step + 1}) {
    const trace::Record *left = scene.left.find(step, Channel::kRng, generator),
                        *right = scene.right.find(step, Channel::kRng, generator);
    if (left != nullptr && right != nullptr) return !trace::same_bits(left, right);
  }
  return false;
}

/// Before the first update, where only the generators' states and what was drawn for the weights can differ.
bool begin_apart(const Scene& scene) {
  if (scene.at.step != trace::kInitialStep) return false;
  for (const trace::Record& weight : scene.left.run->ranks[scene.left.rank].steps.front().records) {
    if (weight.channel != Channel::kWeight) continue;
    const trace::Record* other = scene.right.find(scene.at.step, Channel::kWeight, weight.name);
    if (other != nullptr && !trace::same_bits(&weight, other)) return true;
  }
  return false;
}

bool are_of_one_command(const Scene& scene) {
  const auto command_of = [](const Side& side) { return side.run->ranks[0].header.value("command", Json()); };
  return !command_of(scene.left).is_null() && command_of(scene.left) == command_of(scene.right);
}

}  // namespace

std::vector<Suspect> suspects_in_seeds(const Scene& scene) {
  const Channel channel = scene.at.channel;
  const bool draws = trace::info(channel).part == trace::Part::kTaken || channel == Channel::kRng ||
                     channel == Channel::kLoss || (channel == Channel::kWeight && scene.at.step == trace::kInitialStep);
  if (!is_between_programs(scene) || !draws || !scene.left.begins_at(trace::kInitialStep)) return {};
  for (const char* generator : {"cpu", "python", "numpy"}) {
    for (const auto& [side, other] : {std::pair(&scene.right, &scene.left), std::pair(&scene.left, &scene.right)}) {
      const Seeding seeding = seeding_of(*side, generator);
      // Two scripts that both draw before they seed may have other models.
      if (seeding == Seeding::kLate && seeding_of(*other, generator) == Seeding::kLate && !are_of_one_command(scene))
        continue;
      const bool apart = differ(scene, generator);
      // What was drawn before a seed was set is gone from the generator, and shows in the weights.
      if (!(seeding == Seeding::kNever && apart) && !(seeding == Seeding::kLate && begin_apart(scene))) continue;
      const std::string name = generator == std::string("cpu") ? "torch" : generator;
      return {{"rng.unseeded",
               {place_of(*side->run, scene.at.step) + ": the generator of " + name +
                (seeding == Seeding::kNever
                     ? " was never seeded, and its state differs from the other side's"
                     : " was seeded only after something had been drawn from it, and the weights differ "
                       "from the other side's")}}};
    }
  }
  return {};
}

}  // namespace lockstep::diagnosis
