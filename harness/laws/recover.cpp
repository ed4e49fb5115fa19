#include "harness/laws/recover.h"

#include <Eigen/Core>
#include <Eigen/QR>
#include <cmath>
#include <limits>

#include "harness/base/error.h"

namespace lockstep::laws {
namespace {

constexpr auto kBuckets = static_cast<Eigen::Index>(trace::Sketch::kBuckets);

Eigen::Map<const Eigen::VectorXd> vector_of(const trace::Sketch& sketch) { return {sketch.buckets.data(), kBuckets}; }

/// Terms that are nearer to a combination of the others than this part of their size do not determine a coefficient.
constexpr double kDependent = 1e-7;

}  // namespace

double distance_to(const Equation& equation, const std::vector<double>& coefficients) {
  LOCKSTEP_CHECK(coefficients.size() == equation.terms.size());
  Eigen::VectorXd rest = vector_of(*equation.target);
  for (std::size_t i = 0; i < coefficients.size(); ++i) {
    if (equation.terms[i] != nullptr) rest -= coefficients[i] * vector_of(*equation.terms[i]);
  }
  return rest.allFinite() ? rest.norm() : std::numeric_limits<double>::quiet_NaN();
}

std::optional<Combination> recover(const std::vector<Equation>& equations) {
  if (equations.empty() || equations[0].terms.empty()) return std::nullopt;
  const auto rows = static_cast<Eigen::Index>(equations.size()) * kBuckets;
  const auto columns = static_cast<Eigen::Index>(equations[0].terms.size());
  Eigen::MatrixXd terms = Eigen::MatrixXd::Zero(rows, columns);
  Eigen::VectorXd target(rows);
  for (std::size_t e = 0; e < equations.size(); ++e) {
    LOCKSTEP_CHECK(static_cast<Eigen::Index>(equations[e].terms.size()) == columns);
    const Eigen::Index row = static_cast<Eigen::Index>(e) * kBuckets;
    target.segment(row, kBuckets) = vector_of(*equations[e].target);
    for (Eigen::Index i = 0; i < columns; ++i) {
      const trace::Sketch* term = equations[e].terms[static_cast<std::size_t>(i)];
      if (term != nullptr) terms.col(i).segment(row, kBuckets) = vector_of(*term);
    }
  }
  if (!terms.allFinite() || !target.allFinite() || target.isZero(0)) return std::nullopt;
  const Eigen::VectorXd sizes = terms.colwise().norm();
  if ((sizes.array() == 0).any()) return std::nullopt;
  terms.array().rowwise() /= sizes.array().transpose();
  Eigen::ColPivHouseholderQR<Eigen::MatrixXd> factored(terms);
  factored.setThreshold(kDependent);
  if (factored.rank() < columns) return std::nullopt;
  const Eigen::VectorXd fitted = factored.solve(target);
  const Eigen::VectorXd coefficients = fitted.array() / sizes.array();
  return Combination{.coefficients = {coefficients.begin(), coefficients.end()},
                     .residual = (target - terms * fitted).norm() / target.norm()};
}

}  // namespace lockstep::laws
