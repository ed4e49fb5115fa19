#include "harness/audit/recipe.h"

#include <algorithm>

#include "harness/base/text.h"

namespace lockstep::audit {

std::optional<std::int64_t> Recipe::global_batch(std::int64_t world_size) const {
  if (!variant_.knows("batch")) return std::nullopt;
  scenario::BatchSpec batch = train().batch;
  batch.ranks_per_node = std::min(batch.ranks_per_node, world_size);
  return batch.global_size(world_size);
}

bool is_scale_free(const scenario::TrainSpec& train) {
  const std::string& kind = train.optimizer.kind;
  return kind == "adam" || kind == "adamw" || kind == "adamax" || kind == "rmsprop" || kind == "lamb";
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
