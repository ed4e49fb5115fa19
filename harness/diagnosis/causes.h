#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/class.h"

/// The closed vocabulary of causes: what a finding may name, and nothing else.
namespace lockstep::diagnosis {

/// What control runs, operators and elements show of a finding, and what refutes causes: a set.
enum Shown : unsigned {
  kNothing = 0,
  kNoSingleEvent = 1,  ///< it came out the same again, or otherwise each time
  kVaries = 2,         ///< the same program gives other bits each time
  kNoRounding = 4,     ///< no order of additions explains it
  kToldOtherwise = 8,  ///< the first operator that parts was told something else, or draws
  kOtherValue = 16,    ///< it was told another number
  kSameLayout = 32,    ///< the elements are not those of another memory layout
};

/// What refutes each cause of a class.
constexpr unsigned refuters_of(scenario::Class class_) {
  const Shown of_random = class_ == scenario::Class::kNondeterminism ? kNothing : kVaries;
  const Shown of_rounding = class_ == scenario::Class::kRounding ? kNoRounding : kNothing;
  return of_random | of_rounding;
}

/// One row of the table.
struct Cause {
  std::string_view id;  ///< "grad.reduce_sum"
  scenario::Class class_;
  std::string_view sentence;  ///< what is wrong
  std::string_view remedy;    ///< what usually helps
  std::string_view sources;   ///< addresses, with spaces between; empty where it is our own
  bool is_named = true;       ///< whether a finding may name it; false: it is known, and not recognised yet
  unsigned refuted_by = refuters_of(class_);  ///< what shows that it is not the cause
};

/// All rows, by family: data, loss, gradients, collectives, clipping, buffers and models, optimizer, learning rate,
/// control flow, checkpoints, initialisation, randomness, floating point, memory and hardware, processes, environment.
std::span<const Cause> causes();

/// Their ids, in order.
std::vector<std::string> cause_ids();

/// Nothing when no row has this id.
const Cause* find_cause(std::string_view id);

}  // namespace lockstep::diagnosis
