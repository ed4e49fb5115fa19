#include "harness/train/device/generator.h"

#include <optional>

#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"

namespace lockstep::train {

at::Tensor rng_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

void set_rng(const at::Tensor& state) { at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state); }

std::vector<std::int64_t> rng_place() {
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::mt19937_data_pod engine = at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
  return {static_cast<std::int64_t>(engine.seed_), static_cast<std::int64_t>(engine.next_)};
}

GeneratorStates generator_states(const Device& device) {
  const std::optional<at::Generator> own = device.generator();
  return {.cpu = rng_state(), .device = own ? own->get_state() : at::Tensor()};
}

void restore_generators(const Device& device, const GeneratorStates& saved) {
  std::optional<at::Generator> own = device.generator();
  if (own.has_value() != saved.device.defined())
    throw InputError({.what = "the checkpoint's generators are those of another device",
                      .where = "train.checkpoint.load",
                      .expected = own ? "the state of a GPU's generator" : "the state of the CPU's generator alone",
                      .actual = own ? "none" : "a GPU's beside it",
                      .next = "leave 'rng' out of restore"});
  set_rng(saved.cpu);
  if (own) own->set_state(saved.device);
}

}  // namespace lockstep::train
