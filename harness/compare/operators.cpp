#include "harness/compare/operators.h"

#include <algorithm>

#include "harness/base/text.h"
#include "harness/trace/digest.h"

namespace lockstep::compare {
namespace {

using trace::OperatorCall;

/// Which operator it is and what it is about, whatever the values.
bool same_call(const OperatorCall& a, const OperatorCall& b) {
  return a.name == b.name && a.phase == b.phase && a.node == b.node && a.inputs.size() == b.inputs.size();
}

/// Whether `longer` is, from the i-th call on, `shorter` with calls put in there; or one side has come to its end.
bool has_more(const std::vector<OperatorCall>& longer, const std::vector<OperatorCall>& shorter, std::size_t i) {
  if (i >= shorter.size()) return true;
  if (longer.size() <= shorter.size()) return false;
  const auto rest = static_cast<std::ptrdiff_t>(i);
  return std::equal(shorter.begin() + rest, shorter.end(), longer.end() - (shorter.end() - shorter.begin() - rest),
                    longer.end(), same_call);
}

std::string after(const std::vector<OperatorCall>& calls, std::size_t index) {
  return index == 0 ? "at the beginning of the step" : "after " + described(calls[index - 1]);
}

/// Whether an argument is a tensor, or a list that begins with one.
bool is_tensor(const std::string& text) {
  const std::size_t begin = text.starts_with("[") ? 1 : 0;
  return trace::digest_from(text.substr(begin, text.find_first_of(",]") - begin)).has_value();
}

std::string fed(const OperatorCall& left, const OperatorCall& right, std::size_t operand) {
  const std::string which = described(right) + " gets a different input " + std::to_string(operand);
  if (is_tensor(left.inputs[operand]) || is_tensor(right.inputs[operand]))
    return which +
           "; all earlier operators agree: the tensor was changed outside of them, by a collective, or before the "
           "step";
  return which + ": " + left.inputs[operand] + " on the left, " + right.inputs[operand] + " on the right";
}

}  // namespace

std::string_view name_of(OperatorFinding::Says says) {
  switch (says) {
    case OperatorFinding::Says::kComputes:
      return "computes";
    case OperatorFinding::Says::kIsFed:
      return "is_fed";
    case OperatorFinding::Says::kIsCalled:
      return "is_called";
  }
  return "";
}

bool draws(const OperatorCall& call) {
  for (const char* name : {"rand", "dropout", "bernoulli", "normal", "uniform", "exponential", "multinomial", "poisson",
                           "cauchy", "geometric"}) {
    if (call.name.find(name) != std::string::npos) return true;
  }
  return false;
}

std::string described(const OperatorCall& call) {
  std::string text = call.name + " in " + call.phase;
  if (!call.node.empty()) text += " (" + call.node + ")";
  if (!call.parameters.empty()) text += " on " + some_of(call.parameters, 3);
  return text;
}

std::optional<OperatorFinding> first_operator(const std::vector<OperatorCall>& left,
                                              const std::vector<OperatorCall>& right) {
  using Says = OperatorFinding::Says;
  for (std::size_t i = 0; i < std::max(left.size(), right.size()); ++i) {
    if (i < left.size() && i < right.size() && left[i] == right[i]) continue;
    if (has_more(right, left, i))
      return OperatorFinding{Says::kIsCalled, i, right[i],
                             "only the right side calls " + described(right[i]) + ", " + after(right, i)};
    if (has_more(left, right, i))
      return OperatorFinding{Says::kIsCalled, i, left[i],
                             "only the left side calls " + described(left[i]) + ", " + after(left, i)};
    if (!same_call(left[i], right[i]))
      return OperatorFinding{Says::kIsCalled, i, right[i],
                             "the left side calls " + described(left[i]) + ", the right side " + described(right[i]) +
                                 ", " + after(right, i)};
    const auto [mine, others] = std::mismatch(left[i].inputs.begin(), left[i].inputs.end(), right[i].inputs.begin());
    if (mine != left[i].inputs.end()) {
      const auto operand = static_cast<std::size_t>(mine - left[i].inputs.begin());
      const bool by_value = !is_tensor(left[i].inputs[operand]) && !is_tensor(right[i].inputs[operand]);
      return OperatorFinding{Says::kIsFed, i, right[i], fed(left[i], right[i], operand), by_value};
    }
    if (left[i].outputs != right[i].outputs)
      return OperatorFinding{Says::kComputes, i, right[i],
                             described(right[i]) + " computes a different output from the same inputs"};
  }
  return std::nullopt;
}

}  // namespace lockstep::compare
