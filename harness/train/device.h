#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>

#include "harness/base/json.h"
#include "harness/scenario/train_spec.h"
#include "harness/train/collective/backend.h"

namespace lockstep::train {

/// Where a rank computes: what its tensors are made on, its generator, its queue of work, the switches that decide bits
/// there, and how the ranks are joined.
class Device {
 public:
  virtual ~Device() = default;

  /// What parameters and batches are moved to.
  virtual at::Device place() const = 0;

  /// What it is, in one line.
  virtual std::string description() const = 0;

  /// Sets the switches that are this device's own, before the first tensor on it.
  virtual void apply(const scenario::DeterminismSpec& /*spec*/) const {}

  /// What of it decides bits, beside environment_manifest(): for the trace's header.
  virtual Json manifest() const { return Json::object(); }

  /// Its default generator, where that is not the CPU's.
  virtual std::optional<at::Generator> generator() const { return std::nullopt; }

  /// Waits until all work that was handed to it is done. *Throws*: what went wrong with it.
  virtual void wait() const {}

  /// Joins the ranks: a backend for the tensors of each type of device that a training on this one sends.
  virtual std::vector<Backend> join(const Member& member) const = 0;
};

/// Dispatches on the names of the schema's `train.device`: each is `make_<name>_device` in device/<name>.cpp, or in
/// device/no_<name>.cpp in a build without it. `local_rank`: which of several on this machine.
/// *Throws*: Unsupported when this build or machine lacks it.
std::unique_ptr<Device> make_device(const std::string& name, std::int64_t local_rank);

/// Every device of the schema: its name, whether this build and machine can train on it, what it is or what is lacking.
Json devices_here();

}  // namespace lockstep::train
