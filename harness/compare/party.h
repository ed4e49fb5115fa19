#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <utility>

namespace lockstep::compare {

/// Things that one side of a divergence may lack at its place.
enum class Missing { kNothing, kStep, kRecord };

/// One side of a divergence: a run, one of its ranks, or what a run is compared with.
struct Party {
  std::string run;                   ///< "w1/0"; if it is no run, a name for it: "golden", "closed form"
  std::optional<std::int64_t> rank;  ///< if the side is one rank
  Missing missing = Missing::kNothing;

  Party() = default;
  Party(const char* what) : run(what) {}
  Party(std::string of_run, std::optional<std::int64_t> of_rank = {}) : run(std::move(of_run)), rank(of_rank) {}

  /// "w1/0", "w1/0 rank 2"
  std::string name() const { return rank ? run + " rank " + std::to_string(*rank) : run; }
};

}  // namespace lockstep::compare
