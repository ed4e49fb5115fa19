#pragma once

#include <string>
#include <vector>

#include "harness/recipe/train_spec.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Prefixes to skip that match no loaded name. They have no effect, which is rarely intended.
std::vector<std::string> inert_prefixes(const std::vector<NamedTensor>& loaded, const recipe::KeySpec& keys);

/// Gives loaded tensors the model's names, as `keys` says:
/// 1. Takes the tensors of one entry.
/// 2. Strips a prefix that all names share.
/// 3. Drops names with a skipped prefix.
/// 4. Matches equal names, or for each model name the longest loaded name that is its suffix.
/// *Throws*: InputError if nothing matches; with strict keys also for missing or unused names.
/// *Source*: MCG-NJU/STMixer, alphaction/utils/model_serialization.py (suffixes, stripping).
std::vector<NamedTensor> match_keys(std::vector<NamedTensor> loaded, const std::vector<NamedTensor>& model,
                                    const recipe::KeySpec& keys);

}  // namespace lockstep::train
