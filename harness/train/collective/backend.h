#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace lockstep::train {

/// Backend of a process group for the tensors of one device type.
struct Backend {
  c10::DeviceType device = c10::DeviceType::CPU;
  c10d::ProcessGroup::BackendType type = c10d::ProcessGroup::BackendType::GLOO;
  c10::intrusive_ptr<c10d::Backend> backend;
};

/// One of the ranks that meet at a store.
struct Member {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
};

/// Longer than any run's stall limit, so that the supervisor ends a hung run first and can say why.
constexpr std::chrono::milliseconds kCollectiveTimeout = std::chrono::hours(12);

/// Gloo, for CPU tensors.
Backend make_gloo_backend(const Member& member);

/// NCCL, for CUDA tensors: nccl.cpp, or no_nccl.cpp in a build without it.
/// *Throws*: Unsupported in a build without it.
Backend make_nccl_backend(const Member& member);

}  // namespace lockstep::train
