#pragma once

#include <cstddef>
#include <optional>
#include <string>
#include <vector>

#include "harness/trace/capture.h"

namespace lockstep::compare {

/// The first operator, in the order of execution, in which two ranks part.
struct OperatorFinding {
  enum class Says {
    kComputes,  ///< the same inputs, another output: the operator itself
    kIsFed,     ///< another input, that no operator before has made
    kIsCalled,  ///< one side calls another operator, or none
  };
  Says says = Says::kComputes;
  std::size_t index = 0;     ///< in the step, from 0
  trace::OperatorCall call;  ///< of the right side; of the left where the right has none
  std::string text;          ///< in words
  bool by_value = false;     ///< the other input is no tensor
};

std::string_view name_of(OperatorFinding::Says says);

/// Whether it takes its output from a generator.
bool draws(const trace::OperatorCall& call);

/// "aten::addmm in backward (AddmmBackward0) on fc1.weight".
std::string described(const trace::OperatorCall& call);

/// Nothing where all calls agree.
std::optional<OperatorFinding> first_operator(const std::vector<trace::OperatorCall>& left,
                                              const std::vector<trace::OperatorCall>& right);

}  // namespace lockstep::compare
