#include "harness/laws/explanation.h"

#include <algorithm>
#include <cmath>

namespace lockstep::laws {
namespace {

bool agree(const Explanation& a, const Explanation& b) {
  if (a.cause != b.cause) return false;
  if (std::fabs(a.factor - b.factor) <= a.error + b.error) return true;
  return std::fabs(a.factor * b.rate - b.factor * a.rate) <= a.error * std::fabs(b.rate) + b.error * std::fabs(a.rate);
}

}  // namespace

void Explanations::narrow(const std::optional<std::vector<Explanation>>& of_breach) {
  if (!of_breach) return;
  if (!left_) {
    left_ = of_breach;
    return;
  }
  std::erase_if(*left_, [&](const Explanation& one) {
    return std::none_of(of_breach->begin(), of_breach->end(),
                        [&](const Explanation& other) { return agree(one, other); });
  });
}

void Explanations::name(Breach& breach) const {
  if (!left_ || left_->empty()) return;
  const Explanation& first = left_->front();
  const bool one =
      std::all_of(left_->begin(), left_->end(), [&](const Explanation& other) { return other.cause == first.cause; });
  if (!one) return;
  breach.cause = first.cause;
  breach.relation = breach.evidence = first.evidence;
}

}  // namespace lockstep::laws
