#pragma once

#include <cstdint>
#include <optional>
#include <string_view>

#include "harness/trace/trace.h"

namespace lockstep::trace {

/// A record of the channel `collective`, as far as it goes: "allreduce Float[650] SUM". format.md has the grammar.
struct Collective {
  std::string_view operation;
  std::string_view dtype;                ///< of the first tensor; empty where it has none
  std::optional<std::int64_t> elements;  ///< of the first tensor

  bool is_allreduce() const { return operation == "allreduce"; }
};

/// Nothing where the record is of another channel. *Lifetime*: of the record.
std::optional<Collective> collective_of(const Record& record);

}  // namespace lockstep::trace
