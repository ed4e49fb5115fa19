#pragma once

#include <cstdint>
#include <filesystem>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// Label of padding: the loss leaves it out. *Source*: ignore_index of torch.nn.functional.cross_entropy.
constexpr std::int64_t kNoLabel = -100;

/// All samples, in memory.
struct Dataset {
  at::Tensor inputs;  ///< *Shape*: [samples, channels, height, width] float32, or [samples, length] int64 tokens
  at::Tensor labels;  ///< *Shape*: [samples], of tokens [samples, length]; int64, kNoLabel where there is none
  std::int64_t classes = 0;

  std::int64_t size() const { return inputs.size(0); }

  /// Targets of every sample; nothing where samples have unequally many.
  std::optional<std::int64_t> targets_per_sample() const;
};

/// Loads or makes the samples. Dispatches on the kinds of the schema: each is `make_<kind>_data` in data/<kind>.cpp.
/// *Throws*: InputError that names the file and line of what cannot be read.
Dataset make_data(const scenario::Choice& choice, const std::filesystem::path& file);

}  // namespace lockstep::train
