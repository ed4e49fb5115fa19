#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Arithmetic without rounding. All terms lie on a grid so coarse that float64 holds each sum exactly, in any order and
/// for any number of ranks. Two trainings that are equal in exact arithmetic are then bitwise equal, and any difference
/// is a mistake.
///
/// The grids:
/// - Inputs and activations: multiples of 2⁻¹⁰ up to 2¹⁰.
/// - Weights: multiples of 2⁻¹⁶ up to 2⁴.
/// - Gradients of activations: multiples of W·2⁻ᵐ·2⁻¹⁰, where 2ᵐ is at least the number of samples in an update. The
/// factor W is there because DDP divides by W.
///
/// Products have at most 40 bits, so 2¹³ of them can be added.
class Exact {
 public:
  Exact(std::int64_t world_size, std::int64_t samples_of_update);

  static at::Tensor input(const at::Tensor& x);
  static void settle_weight(const at::Tensor& weight);

  /// Rounds activations to their grid, and in the backward pass their gradients.
  at::Tensor settled(const at::Tensor& activations) const;

  /// Sum of the samples' cross entropies, times W·2⁻ᵐ. *Shape*: logits [batch, classes], labels [batch] → [].
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels) const;

 private:
  double unit_;  ///< W·2⁻ᵐ
};

}  // namespace lockstep::train
