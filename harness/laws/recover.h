#pragma once

#include <optional>
#include <vector>

#include "harness/trace/sketch.h"

/// Finds the linear combination that made a tensor. Sketches suffice; the tensors are not needed.
namespace lockstep::laws {

/// Factor by which a distance that was estimated from sketches may be off, beyond 32 elements.
inline constexpr double kSketchError = 2;

/// Two tensors are a multiple of each other when at most this part of their difference is left over.
inline constexpr double kMultipleRest = 0.25;

/// A tensor and the tensors that it may be a linear combination of.
struct Equation {
  const trace::Sketch* target = nullptr;
  std::vector<const trace::Sketch*> terms;  ///< null: zero
};

/// target = Σ coefficients[i] · terms[i], as precisely as sketches allow.
struct Combination {
  std::vector<double> coefficients;
  double residual = 0;  ///< ‖target − Σ …‖ / ‖target‖
};

/// Estimate of ‖target − Σ coefficients[i] · terms[i]‖; NaN if a number is not finite.
double distance_to(const Equation& equation, const std::vector<double>& coefficients);

/// Coefficients that fit all equations best. All equations need the same number of terms. Nothing if the fit has no
/// unique solution: terms are linearly dependent, the target is zero, or a number is not finite.
std::optional<Combination> recover(const std::vector<Equation>& equations);

}  // namespace lockstep::laws
