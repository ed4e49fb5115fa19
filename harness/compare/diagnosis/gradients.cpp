#include "harness/compare/diagnosis/gradients.h"

#include "harness/compare/diagnosis/reduction.h"

namespace lockstep::compare {

std::vector<Suspect> suspects_in_gradients(const Scene& scene) {
  if (scene.at.channel != trace::Channel::kGradient) return {};
  return between(scene,
                 [&](const Side& side) { return suspects_in_reduction(*side.run, *side.variant, scene.at.step); });
}

}  // namespace lockstep::compare
