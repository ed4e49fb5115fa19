#include "harness/diagnosis/clipping_causes.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/gradient_terms_causes.h"
#include "harness/diagnosis/low_precision_causes.h"
#include "harness/diagnosis/reduction_causes.h"
#include "harness/diagnosis/replicas_causes.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// What one run's own laws tell, once its gradients are reduced.
std::vector<Suspect> suspects_by_gradient_laws(const Scene& scene) {
  const std::int64_t step = scene.at.step;
  const auto of = [&](auto suspects_of) { return between(scene, suspects_of); };
  auto found = of([&](const Side& side) { return suspects_in_reduction(*side.run, *side.promises, step); });
  if (found.empty()) found = of([&](const Side& side) { return suspects_in_collective_order(*side.run, step); });
  if (found.empty())
    found = of([&](const Side& side) { return suspects_in_clipping(*side.run, *side.promises, step); });
  if (found.empty()) found = suspects_in_calls_of_clipping(scene);
  if (found.empty()) found = suspects_in_thresholds(scene);
  return found;
}

constexpr std::vector<Suspect> (*kComparisons[])(const Scene&) = {
    suspects_in_loss_scaling, suspects_in_loss_weighting, suspects_in_gradient_terms,
    suspects_in_precision,    suspects_in_gathered,
};

}  // namespace

std::vector<Suspect> suspects_in_gradients(const Scene& scene) {
  const Channel channel = scene.at.channel;
  if (channel == Channel::kLoss || channel == Channel::kMetric) {
    if (auto found = suspects_in_metrics(scene); !found.empty()) return found;
  }
  if (auto found = suspects_in_unrecorded_reduction(scene); !found.empty()) return found;
  if (auto found = suspects_in_sharded(scene); !found.empty()) return found;
  if (channel == Channel::kGradientLocal) {
    if (auto found = suspects_in_calls_of_clipping(scene); !found.empty()) return found;
  }
  if (channel == Channel::kGradient) {
    if (auto found = suspects_by_gradient_laws(scene); !found.empty()) return found;
    if (auto found = suspects_in_own_average(scene); !found.empty()) return found;
    if (auto found = suspects_in_corruption(scene); !found.empty()) return found;
  }
  if (trace::info(channel).part != trace::Part::kComputed) return {};
  for (const auto suspects_of : kComparisons) {
    if (auto found = suspects_of(scene); !found.empty()) return found;
  }
  // Weights that were written between two steps show first in what is computed of them.
  return between(scene, [&](const Side& side) { return suspects_in_written_weights(side, scene.at.step); });
}

}  // namespace lockstep::diagnosis
