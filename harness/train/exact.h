#pragma once

#include <cstdint>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Arithmetic without rounding: everything that is summed lies on a grid so coarse that float64 holds each sum exactly,
/// in any order and of any number of ranks. Two trainings that are equal in exact arithmetic are then equal in every
/// bit, and any difference is a mistake.
///
/// Inputs and activations are multiples of 2⁻¹⁰ up to 2¹⁰, weights multiples of 2⁻¹⁶ up to 2⁴, gradients of activations
/// multiples of W·2⁻ᵐ·2⁻¹⁰ with 2ᵐ no less than the samples of an update: W, because DDP divides by the ranks. Products
/// have 40 bits at most, so 2¹³ of them may be added.
class Exact {
 public:
  Exact(std::int64_t world_size, std::int64_t samples_of_update);

  static at::Tensor input(const at::Tensor& x);
  static void settle_weight(const at::Tensor& weight);

  /// Puts activations on their grid, and on the way back their gradients.
  at::Tensor settled(const at::Tensor& activations) const;

  /// Sum of the samples' cross entropies, times W·2⁻ᵐ. *Shape*: logits [batch, classes], labels [batch] → [].
  at::Tensor loss(const at::Tensor& logits, const at::Tensor& labels) const;

 private:
  double unit_;  ///< W·2⁻ᵐ
};

}  // namespace lockstep::train
