#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/scenario/train_spec.h"

namespace lockstep::train {

/// Label of padding: the loss leaves it out. *Source*: ignore_index of torch.nn.functional.cross_entropy.
constexpr std::int64_t kNoLabel = -100;

/// Inputs that are made each time they are taken.
struct Augmented {
  std::vector<std::int64_t> shape;  ///< of one input
  std::function<at::Tensor(std::int64_t id, std::int64_t epoch)> input;
};

/// What a forward pass takes.
struct Samples {
  at::Tensor x, y;

  /// On another device. Where they are there already no operator runs: the log of a step shows the training's own.
  Samples on(at::Device device) const {
    return x.device() == device ? *this : Samples{.x = x.to(device), .y = y.to(device)};
  }
};

/// All samples, in memory.
struct Dataset {
  at::Tensor inputs;  ///< *Shape*: [samples, channels, height, width] floating, or [samples, length] int64 tokens
  at::Tensor labels;  ///< *Shape*: [samples], of tokens [samples, length]; int64, kNoLabel where there is none
  std::int64_t classes = 0;
  std::optional<Augmented> augmented;  ///< instead of `inputs`, which is then undefined
  at::ScalarType dtype = at::kFloat;   ///< of inputs that are made

  std::int64_t size() const { return labels.size(0); }
  bool tokens() const { return !augmented && inputs.scalar_type() == at::kLong; }

  /// Takes floating inputs in this dtype from now on.
  void convert(at::ScalarType to);

  /// Shape of one input.
  std::vector<std::int64_t> shape() const;

  /// Targets of every sample; nothing where samples have unequally many.
  std::optional<std::int64_t> targets_per_sample() const;

  /// Samples of one batch, made in this order where they are made. `rows_before`: of a larger batch in memory, of which
  /// these are a slice.
  Samples take(const std::vector<std::int64_t>& ids, std::int64_t epoch, std::int64_t rows_before = 0) const;
};

/// Loads or makes the samples. Dispatches on the kinds of the schema: each is `make_<kind>_data` in data/<kind>.cpp.
/// Files in the options are absolute. *Throws*: InputError that names the file and place of what cannot be read.
/// `rank`: for data that each rank draws for itself.
Dataset make_data(scenario::Choice choice, std::int64_t rank = 0);

}  // namespace lockstep::train
