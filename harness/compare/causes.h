#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

/// The closed vocabulary of causes: what a finding may name, and nothing else.
namespace lockstep::compare {

/// What kind of difference it is.
enum class Class {
  kSemantic,        ///< another function is computed: a bug, or another recipe
  kRounding,        ///< the same function in another order or precision
  kNondeterminism,  ///< the same program gives other bits when it runs again
  kEnvironment,     ///< machine, library or variables differ
  kLiveness,        ///< crash, hang, lost rank
  kExpected,        ///< a difference by design, that must be named
};

std::string_view name_of(Class class_);

/// One row of the table.
struct Cause {
  std::string_view id;  ///< "grad.reduce_sum"
  Class class_;
  std::string_view sentence;  ///< what is wrong
  std::string_view remedy;    ///< what usually helps
  std::string_view sources;   ///< addresses, with spaces between; empty where it is our own
  bool is_named = true;       ///< whether a finding may name it; false: it is known, and not recognised yet
};

/// A cause, and why it is thought to be the one.
struct Suspect {
  std::string cause;  ///< its id
  std::vector<std::string> evidence;

  bool operator==(const Suspect&) const = default;
};

/// All rows, by family: data, loss, gradients, collectives, clipping, buffers and models, optimizer, learning rate,
/// control flow, checkpoints, initialisation, randomness, floating point, memory and hardware, processes, environment.
std::span<const Cause> causes();

/// Their ids, in order.
std::vector<std::string> cause_ids();

/// Nothing when no row has this id.
const Cause* find_cause(std::string_view id);

}  // namespace lockstep::compare
