#pragma once

#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "harness/scenario/class.h"

/// The closed vocabulary of causes: what a finding may name, and nothing else.
namespace lockstep::diagnosis {

/// One row of the table.
struct Cause {
  std::string_view id;  ///< "grad.reduce_sum"
  scenario::Class class_;
  std::string_view sentence;  ///< what is wrong
  std::string_view remedy;    ///< what usually helps
  std::string_view sources;   ///< addresses, with spaces between; empty where it is our own
  bool is_named = true;       ///< whether a finding may name it; false: it is known, and not recognised yet
};

/// All rows, by family: data, loss, gradients, collectives, clipping, buffers and models, optimizer, learning rate,
/// control flow, checkpoints, initialisation, randomness, floating point, memory and hardware, processes, environment.
std::span<const Cause> causes();

/// Their ids, in order.
std::vector<std::string> cause_ids();

/// Nothing when no row has this id.
const Cause* find_cause(std::string_view id);

}  // namespace lockstep::diagnosis
