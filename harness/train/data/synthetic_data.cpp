#include <cstdint>
#include <vector>

#include <ATen/ATen.h>

#include "harness/train/data/data.h"
#include "harness/train/device/split_mix.h"

namespace lockstep::train {
/// Integer arithmetic only: element e of sample i is the top byte of a hash of (seed, i, e), divided by 256.
Dataset make_synthetic_data(const Json& options) {
  const auto shape = options.at("shape").get<std::vector<std::int64_t>>();
  const auto size = options.at("size").get<std::int64_t>();
  const auto classes = options.at("classes").get<std::int64_t>();
  const std::uint64_t seed = options.at("seed").get<std::uint64_t>() * 0x9E3779B97F4A7C15ULL;
  const std::int64_t elements = shape[0] * shape[1] * shape[2];
  at::Tensor inputs = at::empty({size, shape[0], shape[1], shape[2]}, at::kFloat);
  at::Tensor labels = at::empty({size}, at::kLong);
  float* input = inputs.mutable_data_ptr<float>();
  for (std::int64_t i = 0; i < size; ++i) {
    const std::uint64_t sample = seed + static_cast<std::uint64_t>(i) * 0xBF58476D1CE4E5B9ULL;
    for (std::int64_t e = 0; e < elements; ++e)
      *input++ = static_cast<float>(split_mix(sample + static_cast<std::uint64_t>(e)) >> 56) / 256.0F;
    labels.mutable_data_ptr<std::int64_t>()[i] = static_cast<std::int64_t>(
        split_mix(sample + static_cast<std::uint64_t>(elements)) % static_cast<std::uint64_t>(classes));
  }
  return {.inputs = inputs, .labels = labels, .classes = classes};
}

}  // namespace lockstep::train
