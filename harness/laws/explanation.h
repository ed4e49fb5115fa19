#pragma once

#include <optional>
#include <string>
#include <vector>

#include "harness/laws/law.h"

namespace lockstep::laws {

/// A mistake that would explain a parameter's value.
struct Explanation {
  std::string cause;
  std::string evidence;
  double factor = 0;  ///< of the mistake: the same wherever it is made, or in proportion to the rate
  double error = 0;   ///< of the factor
  double rate = 1;
};

/// The mistakes that explain all that a run breaks of one law. A bias alone fits nearly anything: after few steps it is
/// a multiple of its own update. So does a first step: the momentum is the gradient there.
class Explanations {
 public:
  /// Leaves those that explain one more breach. Nothing: it gives none.
  void narrow(const std::optional<std::vector<Explanation>>& of_breach);

  /// Names the cause, if those that are left have only one.
  void name(Breach& breach) const;

 private:
  std::optional<std::vector<Explanation>> left_;
};

}  // namespace lockstep::laws
