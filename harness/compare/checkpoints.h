#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/compare/continuation.h"
#include "harness/compare/difference.h"

namespace lockstep::compare {

/// Checkpoints of two runs, compared.
struct CheckpointComparison {
  std::optional<Divergence> first;  ///< of the tensors of one checkpoint, which is its `phase`
  std::vector<std::string> notes;   ///< sentences on checkpoints that could not be compared
};

/// Compares the tensors of checkpoints that the same rank wrote after the same update, one after the other. Other
/// content (a time, a path, a count) is not compared, nor is a checkpoint that only one run wrote: it changes no
/// training.
CheckpointComparison compare_checkpoints(const RunAndFiles& left, const RunAndFiles& right);

}  // namespace lockstep::compare
