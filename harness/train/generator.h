#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/device.h"

/// The CPU's default generator, which dropout and samplers without a seed of their own draw from.
namespace lockstep::train {

/// Its whole state, as torch.get_rng_state gives it: uint8[5056].
at::Tensor rng_state();

void set_rng(const at::Tensor& state);

/// Its seed, and its place among the 624 numbers that it makes at once.
std::vector<std::int64_t> rng_place();

/// Saved states of a rank's generators.
struct GeneratorStates {
  at::Tensor cpu;     ///< of the CPU's default generator
  at::Tensor device;  ///< of the device's own; undefined where it had none
};

/// Puts them back. *Throws*: InputError when they are those of another device.
void restore_generators(const Device& device, const GeneratorStates& saved);

}  // namespace lockstep::train
