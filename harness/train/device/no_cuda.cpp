#include "harness/base/error.h"
#include "harness/train/device/device.h"

namespace lockstep::train {

std::unique_ptr<Device> make_cuda_device(const Seat&) {
  throw Unsupported({.what = "this worker was built without CUDA",
                     .where = "train.device",
                     .expected = "a worker of the preset 'cuda'",
                     .actual = "a worker for the CPU alone",
                     .next = "build one with ci/cuda and name it with --worker, or set train.device to cpu"});
}

}  // namespace lockstep::train
