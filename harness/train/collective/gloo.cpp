#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>

#include "harness/train/collective/backend.h"

namespace lockstep::train {

Backend make_gloo_backend(const Member& member) {
  return {.device = c10::DeviceType::CPU,
          .type = c10d::ProcessGroup::BackendType::GLOO,
          .backend = c10::make_intrusive<c10d::ProcessGroupGloo>(
              c10::make_intrusive<c10d::PrefixStore>("lockstep", member.store), member.rank, member.size,
              c10d::ProcessGroupGloo::Options::create_default(kCollectiveTimeout))};
}

}  // namespace lockstep::train
