#pragma once

#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "harness/laws/explanation.h"
#include "harness/laws/updated.h"

/// Mistakes that would explain an optimizer's state.
namespace lockstep::laws {

/// Explains a state that is a sum of records, by its coefficients over all elements. Nothing where they are not unique.
std::optional<std::vector<Explanation>> explanations_of(const Rule& rule, const Updated& of);

/// Explains a state that its formula makes element by element. Nothing where one element alone shows a mistake.
std::optional<std::vector<Explanation>> explanations_of(std::string_view state, const Sampled& sampled,
                                                        const Updated& of);

/// The mistakes that explain what a run breaks of each state: a cause is named if it explains all of them.
class StateCauses {
 public:
  void add(std::string_view state, const std::optional<std::vector<Explanation>>& of_breach) {
    by_state_[std::string(state)].narrow(of_breach);
  }

  void name(Breach& breach) const;

 private:
  std::map<std::string, Explanations> by_state_;
};

}  // namespace lockstep::laws
