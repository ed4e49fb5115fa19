#pragma once

#include <cstddef>
#include <cstdint>
#include <vector>

#include "harness/scenario/scenario.h"

/// Samples of the tiny trainings.
namespace lockstep::test {

inline constexpr std::size_t kInputs = 8;   ///< numbers of a sample
inline constexpr std::size_t kOutputs = 4;  ///< numbers of its target

/// Multiples of 1/256 in [-1, 1); what is drawn depends on `seed` alone.
std::vector<float> drawn(std::uint64_t seed, std::size_t count);

/// A sample, its target, and several samples behind each other.
const std::vector<float>& input_of(std::int64_t id);
const std::vector<float>& target_of(std::int64_t id);
std::vector<float> inputs_of(const std::vector<std::int64_t>& ids);

/// One rank's place in the data, in the order that the sampler has by its law.
struct Share {
  std::int64_t rank = 0, epoch = -1, batches = 0;
  std::vector<std::int64_t> order;
  std::size_t position = 0;

  bool at_end() const { return position >= order.size(); }

  /// Begins the next epoch. `drawn`: of the rank's generator, for a sampler that has no seed of its own. `drops_last`:
  /// leaves out a short last micro-batch.
  void begin_epoch(const scenario::Variant& variant, std::uint64_t drawn, bool drops_last);

  /// The samples of the next micro-batch.
  std::vector<std::int64_t> next(const scenario::Variant& variant);
};

}  // namespace lockstep::test
