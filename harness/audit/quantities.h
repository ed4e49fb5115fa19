#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/audit/answer.h"
#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::audit {

/// The recipe as written at one number of ranks, and what it recorded.
struct Seen {
  std::int64_t world_size = 1;
  const scenario::Variant* variant = nullptr;  ///< null: it is no training
  std::string refusal;                         ///< why
  const trace::RunTrace* run = nullptr;        ///< null: it did not end well
};

/// Ids of all quantities, in order.
std::vector<std::string> quantity_ids();

/// Quantities of a recipe along the number of ranks: batch, epoch, rate, warm-up, decay, clipping, denominators, batch
/// normalization, generators, metrics. A quantity that the recipe lacks has no line.
std::vector<Line> quantities(const std::vector<Seen>& seen);

}  // namespace lockstep::audit
