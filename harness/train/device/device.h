#pragma once

#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <ATen/core/Generator.h>

#include "harness/base/json.h"
#include "harness/recipe/train_spec.h"
#include "harness/train/collective/backend.h"

namespace lockstep::train {

/// Device that a rank computes on. It knows its generator, its queue of work, its determinism switches and the backends
/// that join the ranks.
class Device {
 public:
  virtual ~Device() = default;

  /// Device to which parameters and batches are moved.
  virtual at::Device place() const = 0;

  /// Description in one line.
  virtual std::string description() const = 0;

  /// Sets this device's determinism switches. Call it before the first tensor on the device.
  virtual void apply(const recipe::DeterminismSpec& /*spec*/) const {}

  /// Settings of the device that decide bits, in addition to environment_manifest(). For the trace's header.
  virtual Json manifest() const { return Json::object(); }

  /// Its default generator, if that is not the CPU's.
  virtual std::optional<at::Generator> generator() const { return std::nullopt; }

  /// Waits until all queued work is done. *Throws*: the errors of that work.
  virtual void wait() const {}

  /// Joins the ranks. Returns a backend for each device type whose tensors a training on this device sends.
  virtual std::vector<Backend> join(const Member& member) const = 0;
};

/// A rank that wants a device.
struct Seat {
  std::int64_t local_rank = 0;   ///< on its machine
  std::string backend = "gloo";  ///< the schema's `train.ddp.backend`
};

/// Dispatches on the names of the schema's `train.device`: each is `make_<name>_device` in device/<name>.cpp, or in
/// device/no_<name>.cpp in a build without it.
/// *Throws*: Unsupported if this build or machine lacks the device.
std::unique_ptr<Device> make_device(const std::string& name, const Seat& seat);

/// All devices of the schema: name, whether this build and machine can train on it, and its description or what is
/// missing.
Json devices_here();

}  // namespace lockstep::train
