#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/checkpoint_files.h"
#include "harness/trace/trace.h"

namespace lockstep::compare {

/// Tensors of a file that a run held after one step.
struct FilePart {
  std::int64_t step = 0;
  std::vector<std::string> tensors;  ///< by their names in the file
};

/// The update, or the updates, after which a run held the tensors of a file that it wrote. A file counts as of the
/// moment when its tensors were taken: a thread may write it later.
struct Moments {
  std::vector<FilePart> parts;        ///< by step; several: no update has all of these tensors
  std::vector<std::int64_t> further;  ///< steps of more copies of the weights in the file, such as the best ones

  bool is_mixed() const { return parts.size() > 1; }
};

/// For each of these files, its moments by the weights, buffers and optimizer state in it. Nothing for a file that the
/// run did not write, whose tensors are not known, or whose weights are none that the run recorded: cast or averaged
/// ones. Weights have their names of the trace, after any prefix.
std::vector<std::optional<Moments>> moments_of(const trace::RunTrace& run,
                                               const std::vector<trace::CheckpointFile>& files);

}  // namespace lockstep::compare
