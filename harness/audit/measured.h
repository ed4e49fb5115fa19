#pragma once

#include <optional>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::audit {

/// Samples that all ranks take in the first update; nothing where they are not recorded.
std::optional<double> samples_in_update(const trace::RunTrace& run);

/// Whether each rank counts equally many targets in every update; not where none are recorded.
bool has_equal_targets(const trace::RunTrace& run);

/// Largest recorded learning rate of the first parameter group; nothing where none is recorded.
std::optional<double> largest_rate(const trace::RunTrace& run);

/// Distance of two runs' weights after their last steps, relative to the weights' norm. Nothing where weights are not
/// finite, or not recorded. *Source*: sketches, within a factor of 2; ratios of distances of one direction are exact.
std::optional<double> distance_at_end(const trace::RunTrace& left, const trace::RunTrace& right);

/// log2 of the ratio of two distances, of a rate and of half of it: the order in which a difference falls.
std::optional<double> order_of(double at_rate, double at_half);

/// Norm of the first update of all weights.
std::optional<double> first_update(const trace::RunTrace& run);

/// Gradient noise scale of the first update: trace of the gradient's covariance over its squared norm, in samples.
/// *Source*: McCandlish et al. 2018 (arXiv:1812.06162), appendix A.1, from the ranks' own gradients and their mean.
std::optional<double> noise_scale(const trace::RunTrace& run);

}  // namespace lockstep::audit
