#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

/// How two sides cut the same data into batches: of another size, with or without the tail of an epoch, or dealt out in
/// another way.
namespace lockstep::diagnosis {

/// W times the samples in each update. Against no other side: against what the recipe asks for.
std::vector<compare::Suspect> suspects_in_batch_size(const Scene& scene);

/// The tail of an epoch: dropped on one side, or filled up with samples that come twice.
std::vector<compare::Suspect> suspects_in_tail(const Scene& scene);

/// The same order of the data, cut into other global batches.
std::vector<compare::Suspect> suspects_in_dealing(const Scene& scene);

}  // namespace lockstep::diagnosis
