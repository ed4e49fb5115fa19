#include "harness/diagnosis/same_numbers.h"

#include <cmath>

namespace lockstep::diagnosis {

bool same_numbers(const trace::Record& a, const trace::Record& b) {
  if (trace::same_bits(&a, &b) || a.shape != b.shape || !a.norm || !b.norm || !a.max_abs) return false;
  constexpr double kOrderOfAdding = 1e-12;  // the norm is a float64 sum of squares
  const bool alike = a.max_abs == b.max_abs && *a.norm > 0 && std::fabs(*a.norm - *b.norm) <= kOrderOfAdding * *a.norm;
  if (!alike || !a.sketch || !b.sketch) return false;
  constexpr double kOneDirection = 0.03;
  const auto scale = trace::scale_between(*a.sketch, *b.sketch);
  return scale && scale->residual > kOneDirection;
}

}  // namespace lockstep::diagnosis
