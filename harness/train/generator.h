#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

/// The CPU's default generator, which dropout and samplers without a seed of their own draw from.
namespace lockstep::train {

/// Its whole state, as torch.get_rng_state gives it: uint8[5056].
at::Tensor rng_state();

void set_rng(const at::Tensor& state);

/// Its seed, and its place among the 624 numbers that it makes at once.
std::vector<std::int64_t> rng_place();

}  // namespace lockstep::train
