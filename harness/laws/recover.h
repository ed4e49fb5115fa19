#pragma once

#include <optional>
#include <vector>

#include "harness/trace/sketch.h"

/// What a tensor was made of: linear combinations are told from sketches alone, without the tensors.
namespace lockstep::laws {

/// One tensor, and those that it may be a combination of.
struct Equation {
  const trace::Sketch* target = nullptr;
  std::vector<const trace::Sketch*> terms;  ///< null: zero
};

/// target = Σ coefficients[i] · terms[i], as nearly as the sketches allow.
struct Combination {
  std::vector<double> coefficients;
  double residual = 0;  ///< ‖target − Σ …‖ / ‖target‖
};

/// ‖target − Σ coefficients[i] · terms[i]‖, estimated; NaN where something is not finite.
double distance_to(const Equation& equation, const std::vector<double>& coefficients);

/// The coefficients that fit all equations best; all have as many terms. Nothing where the terms do not determine them:
/// some depend on the others, the target is zero, or something is not finite.
std::optional<Combination> recover(const std::vector<Equation>& equations);

}  // namespace lockstep::laws
