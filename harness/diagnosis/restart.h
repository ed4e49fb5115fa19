#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/diagnosis/scene.h"

namespace lockstep::diagnosis {

/// A training that went on from a checkpoint, and the one that never stopped. *Lifetime*: of the scene.
struct Restart {
  Side resumed;
  Side straight;                            ///< none: its traces are not among those of the check
  const trace::RunTrace* source = nullptr;  ///< the run that saved; null: its traces are not there either
  std::int64_t source_world = 1;
  std::int64_t saved = trace::kInitialStep;  ///< the step after which the checkpoint was saved
  std::int64_t begin = trace::kInitialStep;  ///< first step of the resumed run: its state after loading
  std::optional<std::int64_t> first;         ///< its first update that was recorded

  bool changes_world() const;

  /// A rank's record after loading.
  const trace::Record* loaded(std::size_t rank, trace::Channel channel, const std::string& name) const;
  /// What the straight run, else the one that saved, holds at a step; of a rank that it lacks: rank 0's.
  const trace::Record* held(std::size_t rank, std::int64_t step, trace::Channel channel, const std::string& name) const;
  const trace::Step* held(std::size_t rank, std::int64_t step) const;
};

/// The side of a scene that went on from a checkpoint; nothing where none did, or it recorded nothing.
std::optional<Restart> restart_in(const Scene& scene);

}  // namespace lockstep::diagnosis
