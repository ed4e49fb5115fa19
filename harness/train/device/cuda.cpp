// Compiled and linked by the preset "cuda". CI has no GPU: docs/limits.md says what has run on one.
#include <cstdlib>

#include <ATen/Context.h>
#include <ATen/cuda/CUDAContext.h>
#include <c10/cuda/CUDAFunctions.h>

#include "harness/base/error.h"
#include "harness/train/device/device.h"

namespace lockstep::train {
namespace {

/// A variable that decides the order of additions on a GPU or between them. One that is set already stays: a scenario
/// varies it by launch.environment.
struct Switch {
  const char* name;
  const char* value;
};

/// *Source*: docs.nvidia.com/deeplearning/nccl/user-guide/docs/env.html, NCCL 2.28, the entry of each name.
/// NCCL_ALGO, NCCL_PROTO: by default NCCL chooses both by message size and topology.
/// NCCL_MIN_CTAS, NCCL_MAX_CTAS: equal ones fix the number of channels, over which a message is split.
/// NCCL_NVLS_ENABLE: sums inside NVSwitch differ from call to call (github.com/NVIDIA/nccl/issues/1497).
constexpr Switch kSwitches[] = {{"NCCL_ALGO", "Ring"},
                                {"NCCL_PROTO", "Simple"},
                                {"NCCL_MIN_CTAS", "1"},
                                {"NCCL_MAX_CTAS", "1"},
                                {"NCCL_NVLS_ENABLE", "0"}};

class Cuda : public Device {
 public:
  Cuda(c10::DeviceIndex index, bool over_host) : index_(index), over_host_(over_host) {
    c10::cuda::set_device(index);
    at::globalContext().lazyInitDevice(c10::DeviceType::CUDA);
  }

  at::Device place() const override { return {at::kCUDA, index_}; }

  std::string description() const override {
    const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(index_);
    return std::to_string(c10::cuda::device_count()) + " x " + properties.name + ", compute capability " +
           capability_of(properties) + ", NCCL or Gloo";
  }

  void apply(const recipe::DeterminismSpec& spec) const override {
    if (spec.algorithms != recipe::Algorithms::kDeterministic) return;
    for (const Switch& one : kSwitches) setenv(one.name, one.value, /*overwrite=*/0);
  }

  Json manifest() const override {
    const cudaDeviceProp& properties = *at::cuda::getDeviceProperties(index_);
    Json variables = Json::object();
    for (const Switch& one : kSwitches) {
      if (const char* value = std::getenv(one.name)) variables[one.name] = value;
    }
    return {{"gpu", properties.name},
            {"gpu_capability", capability_of(properties)},
            {"gpu_processors", properties.multiProcessorCount},
            {"cuda_runtime", at::Context::versionCUDART()},
            {"cudnn_version", at::Context::versionCuDNN()},
            {"gpu_variables", variables}};
  }

  std::optional<at::Generator> generator() const override { return at::globalContext().defaultGenerator(place()); }

  void wait() const override { c10::cuda::device_synchronize(); }

  /// Gloo takes what stays on the host: counts, and files of checkpoints.
  std::vector<Backend> join(const Member& member) const override {
    const Backend gloo = make_gloo_backend(member);
    if (!over_host_) return {gloo, make_nccl_backend(member)};
    Backend of_gpu = gloo;
    of_gpu.device = c10::DeviceType::CUDA;
    return {gloo, of_gpu};
  }

 private:
  static std::string capability_of(const cudaDeviceProp& properties) {
    return std::to_string(properties.major) + "." + std::to_string(properties.minor);
  }

  c10::DeviceIndex index_;
  bool over_host_;  ///< gradients are summed by Gloo
};

}  // namespace

std::unique_ptr<Device> make_cuda_device(const Seat& seat) {
  int count = 0;
  const cudaError_t status = c10::cuda::GetDeviceCount(&count);
  if (status != cudaSuccess || count == 0) {
    throw Unsupported({.what = "this machine has no CUDA device that can be used",
                       .where = "train.device",
                       .expected = "an NVIDIA GPU and its driver",
                       .actual = status != cudaSuccess ? cudaGetErrorString(status) : "no device",
                       .next = "run where nvidia-smi lists a GPU, or set train.device to cpu"});
  }
  const bool over_host = seat.backend == "gloo";
  // NCCL 2.28 refuses two ranks on one GPU.
  if (!over_host && seat.local_rank >= count) {
    throw Unsupported({.what = "this machine has fewer CUDA devices than ranks",
                       .where = "train.device",
                       .expected = "a GPU for local rank " + std::to_string(seat.local_rank),
                       .actual = std::to_string(count),
                       .next = "use fewer ranks on a machine, or let them share: train.ddp.backend = gloo"});
  }
  return std::make_unique<Cuda>(static_cast<c10::DeviceIndex>(seat.local_rank % count), over_host);
}

}  // namespace lockstep::train
