#pragma once

#include <algorithm>
#include <cmath>

#include "harness/trace/dtype.h"

namespace lockstep::recipe {

/// A number as a kernel computes it: within `error` of `value`. Each operation adds its own rounding, so a formula that
/// is written with these proves its bound. *Source*: running error analysis, Higham 2002, section 3.3.
class Rounded {
 public:
  Rounded() = default;

  /// A number that is stored, and so exact. *Units*: `unit` is the unit roundoff of what is computed from it.
  Rounded(double value, double unit) : value_(value), unit_(unit) {}
  Rounded(double value, double unit, double error) : value_(value), unit_(unit), error_(error) {}

  double value() const { return value_; }
  double error() const { return error_; }
  double unit() const { return unit_; }

 private:
  double value_ = 0, unit_ = 0, error_ = 0;
};

/// A coefficient that a kernel is given in float64, and rounds.
inline Rounded coefficient(double value, double unit) { return {value, unit, unit * std::fabs(value)}; }

/// Smallest normal number of float32. Relative rounding errors have no bound below it.
inline constexpr double kLeastNormal = 0x1p-126;

namespace detail {
/// Beyond it a kernel may overflow, by a factor of 4 that its other order of operations may take. No number here comes
/// near the one of float64.
inline constexpr double kNearOverflow = 0x1p126;

/// An operation that may overflow has no bound.
inline Rounded rounded(double value, double unit, double error) {
  if (unit >= trace::unit_roundoff(trace::DType::kFloat32) && !(std::fabs(value) + error < kNearOverflow))
    return {value, unit, INFINITY};
  return {value, unit, error + unit * (std::fabs(value) + error) + kLeastNormal};
}
}  // namespace detail

inline Rounded operator+(const Rounded& a, const Rounded& b) {
  return detail::rounded(a.value() + b.value(), a.unit(), a.error() + b.error());
}
inline Rounded operator-(const Rounded& a, const Rounded& b) {
  return detail::rounded(a.value() - b.value(), a.unit(), a.error() + b.error());
}
inline Rounded operator*(const Rounded& a, const Rounded& b) {
  return detail::rounded(a.value() * b.value(), a.unit(),
                         std::fabs(a.value()) * b.error() + std::fabs(b.value()) * a.error() + a.error() * b.error());
}
/// Unbounded where the divisor may be zero.
inline Rounded operator/(const Rounded& a, const Rounded& b) {
  const double least = std::fabs(b.value()) - b.error(), value = a.value() / b.value();
  if (!(least > 0)) return {value, a.unit(), INFINITY};
  return detail::rounded(value, a.unit(), (a.error() + std::fabs(value) * b.error()) / least);
}
inline Rounded sqrt(const Rounded& a) {
  const double value = std::sqrt(std::max(a.value(), 0.0)), most = std::sqrt(std::max(a.value() + a.error(), 0.0)),
               least = std::sqrt(std::max(a.value() - a.error(), 0.0));
  return detail::rounded(value, a.unit(), std::max(most - value, value - least));
}
inline Rounded abs(const Rounded& a) { return {std::fabs(a.value()), a.unit(), a.error()}; }
inline Rounded max(const Rounded& a, const Rounded& b) {
  return {std::max(a.value(), b.value()), a.unit(), std::max(a.error(), b.error())};
}

}  // namespace lockstep::recipe
