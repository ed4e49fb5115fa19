#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/recipe/train_spec.h"

namespace lockstep::train {

/// Label of padding; the loss ignores it. *Source*: ignore_index of torch.nn.functional.cross_entropy.
constexpr std::int64_t kNoLabel = -100;

/// Inputs that are computed each time they are taken.
struct Augmented {
  std::vector<std::int64_t> shape;  ///< of one input
  std::function<at::Tensor(std::int64_t id, std::int64_t epoch)> input;
};

/// A batch of inputs and labels.
struct Samples {
  at::Tensor x, y;

  /// The batch on a device. If it is there already, no operator runs, so the operator log shows only the training's
  /// own.
  Samples on(at::Device device) const {
    return x.device() == device ? *this : Samples{.x = x.to(device), .y = y.to(device)};
  }
};

/// All samples, in memory.
struct Dataset {
  at::Tensor inputs;  ///< *Shape*: [samples, channels, height, width] floating, or [samples, length] int64 tokens
  at::Tensor labels;  ///< *Shape*: int64 [samples], or [samples, length] for tokens; kNoLabel for padding
  std::int64_t classes = 0;
  std::optional<Augmented> augmented;  ///< replaces `inputs`, which is then undefined
  at::ScalarType dtype = at::kFloat;   ///< dtype of computed inputs

  std::int64_t size() const { return labels.size(0); }
  bool tokens() const { return !augmented && inputs.scalar_type() == at::kLong; }

  /// Converts floating inputs to this dtype.
  void convert(at::ScalarType to);

  /// Shape of one input.
  std::vector<std::int64_t> shape() const;

  /// Number of targets per sample; nothing if it differs between samples.
  std::optional<std::int64_t> targets_per_sample() const;

  /// One batch of samples, in this order. `rows_before`: rows that lie before these in memory, if they are a slice of a
  /// larger batch.
  Samples take(const std::vector<std::int64_t>& ids, std::int64_t epoch, std::int64_t rows_before = 0) const;
};

/// Loads or generates the samples. Dispatches on the kinds of the schema: each is `make_<kind>_data` in
/// data/<kind>.cpp. Files in the options are absolute. `rank`: for data that each rank draws itself.
/// *Throws*: InputError that names the file and the place in it.
Dataset make_data(recipe::DataChoice choice, std::int64_t rank = 0);

}  // namespace lockstep::train
