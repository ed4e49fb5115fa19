#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/class.h"

/// The closed list of causes that a finding may name.
namespace lockstep::diagnosis {

/// Facts that control runs, operators and elements show about a finding, as a bit set. Each cause lists those that
/// refute it.
enum Shown : unsigned {
  kNothing = 0,
  kNoSingleEvent = 1,  ///< replays gave the same result, or a new one each time: no one-off event
  kVaries = 2,         ///< the same program gives different bits each time
  kNoRounding = 4,     ///< rounding does not explain it
  kToldOtherwise = 8,  ///< the first differing operator got a different argument, or draws random numbers
  kOtherValue = 16,    ///< that argument is a different number
  kSameLayout = 32,    ///< another memory layout does not explain the elements
};

/// Facts that refute every cause of a class.
constexpr unsigned refuters_of(scenario::Class class_) {
  const Shown of_random = class_ == scenario::Class::kNondeterminism ? kNothing : kVaries;
  const Shown of_rounding = class_ == scenario::Class::kRounding ? kNoRounding : kNothing;
  return of_random | of_rounding;
}

/// How a cause is known.
enum class Known {
  kBySigns,  ///< chance may leave the same signs, so replays have to rule it out
  kByLaw,    ///< a factor, a formula, an order or whole streams of draws fit; chance does not keep a law twice
  kBefore,   ///< it was told before anything ran
};

/// One row of the table.
struct Cause {
  std::string_view id;  ///< "grad.reduce_sum"
  scenario::Class class_;
  std::string_view sentence;                  ///< what is wrong
  std::string_view remedy;                    ///< what usually helps
  std::string_view sources;                   ///< URLs, separated by spaces; empty if the cause is our own
  Known known = Known::kBySigns;              ///< not by signs: one replay is enough
  bool is_named = true;                       ///< whether a finding may name it; false: not recognised yet
  unsigned refuted_by = refuters_of(class_);  ///< facts that rule it out
};

/// All rows, by family: data, loss, gradients, collectives, clipping, buffers and models, optimizer, learning rate,
/// control flow, checkpoints, initialisation, randomness, floating point, memory and hardware, processes, launch,
/// environment, recipe.
std::span<const Cause> causes();

/// Ids of all causes, in order.
std::vector<std::string> cause_ids();

/// Nothing when no row has this id.
const Cause* find_cause(std::string_view id);

}  // namespace lockstep::diagnosis
