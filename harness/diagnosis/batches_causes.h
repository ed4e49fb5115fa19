#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

/// Causes in how two sides cut the same data into batches: batch size, tail of an epoch, order of dealing.
namespace lockstep::diagnosis {

/// Updates with W times the samples of the other side, or of the recipe if there is no other side.
std::vector<compare::Suspect> suspects_in_batch_size(const Scene& scene);

/// A tail of an epoch that one side drops, or pads with repeated samples.
std::vector<compare::Suspect> suspects_in_tail(const Scene& scene);

/// The same order of samples, cut into different global batches.
std::vector<compare::Suspect> suspects_in_dealing(const Scene& scene);

}  // namespace lockstep::diagnosis
