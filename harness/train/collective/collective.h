#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/launch/place.h"
#include "harness/launch/progress.h"
#include "harness/train/device/device.h"
#include "harness/train/reduction/reduction.h"

namespace lockstep::train {

/// The store at the place's address, where the ranks meet. Waits for all of them.
/// *Throws*: the errors of c10d if they do not arrive in time.
c10::intrusive_ptr<c10d::Store> store_of(const launch::Place& place);

/// Process group of a run's ranks. It logs each collective when it is issued.
class Collective {
 public:
  /// Meets the other ranks at the place's address and joins them with the device's backends.
  /// *Lifetime*: of `progress`, which counts every collective.
  /// *Throws*: the errors of c10d if they do not arrive in time.
  Collective(const launch::Place& place, launch::ProgressWriter& progress, const Device& device,
             std::unique_ptr<Reduction> reduction);
  ~Collective();

  /// Process group that the Reducer and the rest of DDP use. *Lifetime*: of this object.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  /// Collectives issued since the last call, in order: "allreduce float32[18634] SUM".
  std::vector<std::string> take_log();

  /// Sum over the ranks without a log entry, as a training script computes a loss or metric to print. `root_only`: only
  /// rank 0 gets the sum; other ranks' results are undefined, as with dist.reduce.
  at::Tensor metric_sum(const at::Tensor& value, bool root_only = false);

  /// Sum over the ranks, logged like any other collective of the training.
  at::Tensor sum(const at::Tensor& value);

  /// Calls `action` in each logged collective, after it is announced and before it is handed on.
  void before_each(std::function<void()> action);

  /// Waits for all ranks, without a log entry.
  void barrier();

 private:
  class Log;
  class Logged;

  /// Backend for tensors of a device type.
  c10d::Backend& backend_for(c10::DeviceType device) const;

  launch::ProgressWriter& progress_;
  std::unique_ptr<Reduction> reduction_;
  std::unique_ptr<Log> log_;
  std::vector<Backend> backends_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace lockstep::train
