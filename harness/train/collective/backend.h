#pragma once

#include <chrono>

#include <torch/csrc/distributed/c10d/Backend.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>
#include <torch/csrc/distributed/c10d/Store.hpp>

namespace lockstep::train {

/// What carries a process group's collectives for the tensors of one type of device.
struct Backend {
  c10::DeviceType device = c10::DeviceType::CPU;
  c10d::ProcessGroup::BackendType type = c10d::ProcessGroup::BackendType::GLOO;
  c10::intrusive_ptr<c10d::Backend> backend;
};

/// A rank among those that meet at a store.
struct Member {
  c10::intrusive_ptr<c10d::Store> store;
  int rank = 0;
  int size = 1;
};

/// Longer than any run's stall limit: the supervisor, which knows more, ends a hung run first.
constexpr std::chrono::milliseconds kCollectiveTimeout = std::chrono::hours(12);

/// Gloo, for tensors of the CPU.
Backend make_gloo_backend(const Member& member);

/// NCCL, for tensors of CUDA devices: nccl.cpp, or no_nccl.cpp in a build without it.
/// *Throws*: Unsupported in a build without it.
Backend make_nccl_backend(const Member& member);

}  // namespace lockstep::train
