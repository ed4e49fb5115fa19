#pragma once

#include "harness/trace/trace.h"

namespace lockstep::trace {

/// Puts a record of the whole tensor in place of each shard: its sum, sketch, norm, maximum and sampled elements.
///
/// Where ranks hold the same box, they are replicas: the k-th rank of each box stands for the k-th replica, and each
/// rank gets the tensor of its own replica. So replicas that drift apart are ranks that differ, as under DDP. In a step
/// that a torn trace lacks, shards are left out.
/// *Throws*: DamagedFile where the shards of whole traces do not make one tensor.
void join_shards(RunTrace& run);

/// Whether all elements of a floating tensor have one magnitude, as ones and zeros do, by its norm and largest element.
bool is_of_one_magnitude(const Record& record);

}  // namespace lockstep::trace
