#pragma once

#include <string>
#include <vector>

#include "harness/scenario/train_spec.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {

/// Those of the prefixes to skip that no loaded name has: skipping them does nothing, which is rarely meant.
std::vector<std::string> inert_prefixes(const std::vector<NamedTensor>& loaded, const scenario::KeySpec& keys);

/// Loaded tensors under the model's names: takes those of one entry, strips a prefix that all names have, leaves out
/// skipped prefixes, then takes equal names, or for each of the model's names the longest loaded one that is its
/// suffix. *Throws*: InputError that names what is missing or left over, with strict keys; also when nothing fits.
/// *Source*: MCG-NJU/STMixer, alphaction/utils/model_serialization.py (suffixes, stripping).
std::vector<NamedTensor> match_keys(std::vector<NamedTensor> loaded, const std::vector<NamedTensor>& model,
                                    const scenario::KeySpec& keys);

}  // namespace lockstep::train
