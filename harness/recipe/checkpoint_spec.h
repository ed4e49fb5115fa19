#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/recipe/kinds.h"

namespace lockstep::recipe {

/// How names in a checkpoint become a model's.
struct KeySpec {
  std::string under;
  std::vector<std::string> skip;
  std::string strip;
  std::string prepend;
  KeyMatch match = KeyMatch::kUnknown;
  bool strict = true;
};

struct LoadSpec {
  std::string from;  ///< a variant; empty: `file`
  std::string file;
  KeySpec keys;
  LoadPick pick = LoadPick::kUnknown;                ///< among the variant's checkpoints
  std::optional<std::int64_t> number;                ///< instead of `pick`
  std::vector<std::optional<std::int64_t>> of_rank;  ///< instead of `pick`, where there are any
  LoadWho who = LoadWho::kUnknown;
  LoadWhen when = LoadWhen::kUnknown;
  LoadEpoch epoch = LoadEpoch::kUnknown;
  bool own_rates = false;  ///< the schedule of this training at the saved position
  std::vector<std::string> restore;

  bool restores(const std::string& part) const;
};

struct CheckpointSpec {
  std::optional<std::int64_t> save_after;
  std::optional<std::int64_t> save_every;
  std::string prefix;  ///< of saved names
  std::string follow;  ///< variant in whose state each update begins; empty: none
  std::optional<LoadSpec> load;

  bool saves() const { return save_after || save_every; }
  bool saves_after(std::int64_t updates) const;
};

/// A checkpoint of another variant, of which all is restored: what a program that resumes promises.
LoadSpec whole_checkpoint_of(const std::string& variant);

}  // namespace lockstep::recipe
