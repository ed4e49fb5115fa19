#pragma once

#include <cstdint>
#include <vector>

#include <ATen/core/Tensor.h>

#include "harness/train/device/device.h"

/// The CPU's default generator. Dropout and samplers without their own seed draw from it.
namespace lockstep::train {

/// Its state, as torch.get_rng_state returns it: uint8[5056].
at::Tensor rng_state();

void set_rng(const at::Tensor& state);

/// Its seed, and its position in the current block of 624 numbers.
std::vector<std::int64_t> rng_place();

/// Saved states of a rank's generators.
struct GeneratorStates {
  at::Tensor cpu;     ///< of the CPU's default generator
  at::Tensor device;  ///< of the device's generator; undefined if it had none
};

/// Their states now.
GeneratorStates generator_states(const Device& device);

/// Restores them. *Throws*: InputError if they come from another device.
void restore_generators(const Device& device, const GeneratorStates& saved);

}  // namespace lockstep::train
