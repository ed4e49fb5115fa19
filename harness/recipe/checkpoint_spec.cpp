#include "harness/recipe/checkpoint_spec.h"

#include <algorithm>

namespace lockstep::recipe {
bool CheckpointSpec::saves_after(std::int64_t updates) const {
  return save_after == updates || (save_every && updates % *save_every == 0);
}

bool LoadSpec::restores(const std::string& part) const {
  return std::find(restore.begin(), restore.end(), part) != restore.end();
}

LoadSpec whole_checkpoint_of(const std::string& variant) {
  return {.from = variant,
          .pick = LoadPick::kHighestNumber,
          .who = LoadWho::kAll,
          .epoch = LoadEpoch::kSaved,
          .restore = {"weights", "optimizer", "ema", "schedule", "sampler", "rng", "buckets", "buffers"}};
}

}  // namespace lockstep::recipe
