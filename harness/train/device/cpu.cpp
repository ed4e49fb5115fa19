#include <ATen/Version.h>

#include "harness/train/device/device.h"

namespace lockstep::train {
namespace {

/// The processor, with Gloo between the ranks. Its switches are those of every training: determinism.cpp.
class Cpu : public Device {
 public:
  at::Device place() const override { return at::kCPU; }
  std::string description() const override { return at::get_cpu_capability() + " kernels, Gloo"; }
  std::vector<Backend> join(const Member& member) const override { return {make_gloo_backend(member)}; }
};

}  // namespace

std::unique_ptr<Device> make_cpu_device(const Seat&) { return std::make_unique<Cpu>(); }

}  // namespace lockstep::train
