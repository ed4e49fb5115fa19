#pragma once

#include <cstdint>
#include <filesystem>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// All samples, in memory.
struct Dataset {
  at::Tensor inputs;  ///< *Shape*: [samples, channels, height, width], float32
  at::Tensor labels;  ///< *Shape*: [samples], int64
  std::int64_t classes = 0;

  std::int64_t size() const { return inputs.size(0); }
};

/// Loads or makes the samples. Dispatches on the kinds of the schema: each is `make_<kind>_data` in data/<kind>.cpp.
/// *Throws*: InputError that names the file and line of what cannot be read.
Dataset make_data(const scenario::Choice& choice, const std::filesystem::path& file);

}  // namespace lockstep::train
