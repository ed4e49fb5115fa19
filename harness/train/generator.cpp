#include "harness/train/generator.h"

#include <ATen/CPUGeneratorImpl.h>

namespace lockstep::train {

at::Tensor rng_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

void set_rng(const at::Tensor& state) { at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state); }

std::vector<std::int64_t> rng_place() {
  const at::Generator generator = at::detail::getDefaultCPUGenerator();
  const at::mt19937_data_pod engine = at::check_generator<at::CPUGeneratorImpl>(generator)->engine().data();
  return {static_cast<std::int64_t>(engine.seed_), static_cast<std::int64_t>(engine.next_)};
}

}  // namespace lockstep::train
