#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/ProcessGroup.hpp>

#include "harness/launch/place.h"
#include "harness/launch/progress.h"
#include "harness/train/device.h"
#include "harness/train/reduction.h"

namespace lockstep::train {

/// The ranks of a run, joined: a process group whose collectives are written down as they are issued.
class Collective {
 public:
  /// Meets the other ranks at the place's address, and joins them as the device does.
  /// *Lifetime*: of `progress`, which counts every collective.
  /// *Throws*: what c10d throws when they do not come in time.
  Collective(const launch::Place& place, launch::ProgressWriter& progress, const Device& device,
             std::unique_ptr<Reduction> reduction);
  ~Collective();

  /// What the Reducer and everything else of DDP communicates through. *Lifetime*: of this object.
  const c10::intrusive_ptr<c10d::ProcessGroup>& group() const { return group_; }

  /// Collectives issued since the last call, in order: "allreduce float32[18634] SUM".
  std::vector<std::string> take_log();

  /// Sum over the ranks, outside the log: what a training script does to print its loss and metrics.
  /// `root_only`: for rank 0; what the other ranks get is not defined, as with dist.reduce.
  at::Tensor metric_sum(const at::Tensor& value, bool root_only = false);

  /// Sum over the ranks, a collective of the training like any other.
  at::Tensor sum(const at::Tensor& value);

  /// Waits for all ranks, outside the log.
  void barrier();

 private:
  class Log;
  class Logged;

  /// The one that takes tensors of this type of device.
  c10d::Backend& backend_for(c10::DeviceType device) const;

  launch::ProgressWriter& progress_;
  std::unique_ptr<Reduction> reduction_;
  std::unique_ptr<Log> log_;
  std::vector<Backend> backends_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
};

}  // namespace lockstep::train
