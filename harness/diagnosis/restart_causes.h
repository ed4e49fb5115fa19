#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// A training that resumed from a checkpoint, and the straight one that never stopped. *Lifetime*: of the scene.
struct Restart {
  Side resumed;
  Side straight;                            ///< none if the check has no trace of it
  const trace::RunTrace* source = nullptr;  ///< the run that saved; null if the check has no trace of it
  std::int64_t source_world = 1;
  std::int64_t saved = trace::kInitialStep;  ///< the step after which the checkpoint was saved
  std::int64_t begin = trace::kInitialStep;  ///< first step of the resumed run: its state after loading
  std::optional<std::int64_t> first;         ///< first recorded update of the resumed run

  bool changes_world() const;

  /// Whether the checkpoint is to restore what this channel holds.
  bool asks(trace::Channel channel) const;

  /// Where the checkpoint's file was written, and read.
  const trace::RunTrace* writer() const { return source != nullptr ? source : straight.run; }

  /// Record of a rank after loading.
  const trace::Record* loaded(std::size_t rank, trace::Channel channel, const std::string& name) const;
  /// Record of the straight run at a step, or of the saving run if there is none. Ranks that it lacks read rank 0's.
  const trace::Record* held(std::size_t rank, std::int64_t step, trace::Channel channel, const std::string& name) const;
  const trace::Step* held(std::size_t rank, std::int64_t step) const;
};

/// The side of a scene that resumed from a checkpoint. Nothing if none did, or if it recorded nothing.
std::optional<Restart> restart_in(const Scene& scene);

/// Samples that a resumed run draws otherwise, from no generator that is recorded: their data set owns one.
std::vector<compare::Suspect> suspects_in_data_generator(const Restart& restart);

/// Causes of a wrong state right after loading a checkpoint. Causes in `channel`, where the difference was seen, come
/// first. Empty if the state is as saved, or if no cause fits.
std::vector<compare::Suspect> suspects_in_loaded_state(const Restart& restart, trace::Channel channel);

}  // namespace lockstep::diagnosis
