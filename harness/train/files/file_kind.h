#pragma once

#include <filesystem>

namespace lockstep::train {

/// How a file stores weights.
enum class WeightsFormat { kTorch, kSafetensors };

/// Tells how a file stores weights, from its first bytes and, for a ZIP archive, its list of records. A damaged file of
/// either format is still of that format.
/// *Throws*: InputError that names the kind of a file which holds no checkpoint of weights: a TorchScript archive, an
/// index of parts, a pickle, a web page. DamagedFile for an empty file, or one of zeros.
/// *Source*: torch/serialization.py, PyTorch 2.11; github.com/huggingface/safetensors, README "Format".
WeightsFormat format_of_weights(const std::filesystem::path& file);

}  // namespace lockstep::train
