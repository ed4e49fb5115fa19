#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/capture.h"

namespace lockstep::compare {

/// First operator, in the order of execution, in which two ranks differ.
struct OperatorFinding {
  enum class Says {
    kComputes,  ///< equal inputs, different outputs: the operator itself differs
    kIsFed,     ///< a different input that no earlier operator made
    kIsCalled,  ///< one side calls a different operator, or none
  };
  Says says = Says::kComputes;
  std::size_t index = 0;     ///< in the step, from 0
  trace::OperatorCall call;  ///< of the right side, or of the left if the right has none
  std::string text;          ///< in words
  bool by_value = false;     ///< the input that differs is not a tensor
};

std::string_view name_of(OperatorFinding::Says says);

/// Whether an operator draws from a generator.
bool draws(const trace::OperatorCall& call);

/// "aten::addmm in backward (AddmmBackward0) on fc1.weight".
std::string described(const trace::OperatorCall& call);

/// Nothing if all calls agree.
std::optional<OperatorFinding> first_operator(const std::vector<trace::OperatorCall>& left,
                                              const std::vector<trace::OperatorCall>& right);

}  // namespace lockstep::compare
