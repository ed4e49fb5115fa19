// Compiled and linked by the preset "cuda". CI has no GPU: docs/limits.md says what has run on one.
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupNCCL.hpp>

#include "harness/train/collective/backend.h"

namespace lockstep::train {

Backend make_nccl_backend(const Member& member) {
  const auto options = c10d::ProcessGroupNCCL::Options::create();
  options->timeout = kCollectiveTimeout;
  return {
      .device = c10::DeviceType::CUDA,
      .type = c10d::ProcessGroup::BackendType::NCCL,
      .backend = c10::make_intrusive<c10d::ProcessGroupNCCL>(
          c10::make_intrusive<c10d::PrefixStore>("lockstep.nccl", member.store), member.rank, member.size, options)};
}

}  // namespace lockstep::train
