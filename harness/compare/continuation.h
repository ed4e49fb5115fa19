#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/checkpoint_files.h"
#include "harness/trace/trace.h"

/// A recorder counts updates from the start of its process. A resumed training goes on from another one's update: which
/// one, its weights tell, and the checkpoint that it read.
namespace lockstep::compare {

/// One run, and the checkpoints that it wrote or read. *Lifetime*: borrows both.
struct RunAndFiles {
  const trace::RunTrace& run;
  const std::vector<trace::CheckpointFile>& files;
};

/// Where a resumed run goes on.
struct Continuation {
  std::optional<std::int64_t> begins;  ///< step of the source with whose state it begins
  std::optional<std::int64_t> saved;   ///< step after which the checkpoint was saved
  std::vector<std::int64_t> several;   ///< steps of the source with its weights, where none can be chosen
  std::string why;                     ///< why `begins` is not known
};

/// Steps of a run after which rank 0 holds the weights that another run begins with; none without weights.
std::vector<std::int64_t> steps_with_weights(const trace::RunTrace& source, const trace::RunTrace& resumed);

/// Where a run goes on that loads a checkpoint of `source`: by its weights, and by the file that it read.
Continuation continuation_of(const RunAndFiles& source, const RunAndFiles& resumed);

/// Counts steps, updates, samples and skipped updates of a resumed run on from a step of its source. Takes out counts
/// of the recorder that cannot be: epochs and passes, of which one may have been begun. Where DDP broadcasts buffers, a
/// rank that begins with rank 0's has those that it had.
void count_on(trace::RunTrace& resumed, const trace::RunTrace& source, std::int64_t step);

/// Whether `count_on` may have taken out this entry of a ledger.
bool may_lack_count(const std::string& name);

}  // namespace lockstep::compare
