#include "harness/audit/recipe.h"

#include <algorithm>

#include "harness/base/text.h"

namespace lockstep::audit {

std::optional<std::int64_t> Recipe::global_batch(std::int64_t world_size) const {
  if (!variant_.knows("batch")) return std::nullopt;
  recipe::BatchSpec batch = train().batch;
  batch.ranks_per_node = std::min(batch.ranks_per_node, world_size);
  return batch.global_size(world_size);
}

bool is_scale_free(const recipe::TrainSpec& train) {
  switch (train.optimizer.kind) {
    case recipe::OptimizerKind::kAdam:
    case recipe::OptimizerKind::kAdamw:
    case recipe::OptimizerKind::kAdamax:
    case recipe::OptimizerKind::kRmsprop:
    case recipe::OptimizerKind::kLamb:
      return true;
    case recipe::OptimizerKind::kAdagrad:
    case recipe::OptimizerKind::kSgd:
    case recipe::OptimizerKind::kUnknown:
      break;
  }
  return false;
}

std::string reasons(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> words;
  for (const Obstacle& obstacle : obstacles) words.push_back(obstacle.why);
  return join(words, "; ");
}

std::string remedies(const std::vector<Obstacle>& obstacles) {
  std::vector<std::string> words;
  for (const Obstacle& obstacle : obstacles) {
    if (!obstacle.remedy.empty()) words.push_back(obstacle.remedy);
  }
  return join(words, "; ");
}

}  // namespace lockstep::audit
