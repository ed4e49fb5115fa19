#pragma once

#include <cstddef>
#include <vector>

#include "harness/recipe/train_spec.h"

#include "tests/support/tiny/network.h"

namespace lockstep::test {

/// How the ranks' gradients become one.
struct Ring {
  bool in_rank_order = false;
  bool averages = true;
  bool one_bucket = true;   ///< else one for each parameter
  std::size_t shift = 0;    ///< elements by which the first bucket lies otherwise than the later ones
  bool by_hand = false;     ///< each rank adds in an order of its own
  std::size_t by_rank = 0;  ///< that adds
};

/// The sum over the ranks, or their mean, in the order of a ring: it begins with another rank in each part of a bucket.
template <typename Real>
Tensors<Real> reduced(const std::vector<Tensors<Real>>& all, const Ring& ring) {
  Tensors<Real> sum = all[0];
  const std::size_t ranks = all.size();
  std::size_t place = ring.shift, of_bucket = 0;
  for (const auto& [name, values] : sum) of_bucket += values.size();
  for (auto& [name, values] : sum) {
    if (!ring.one_bucket) place = 0, of_bucket = values.size();
    for (std::size_t i = 0; i < values.size(); ++i, ++place) {
      std::size_t first = ring.by_hand ? ring.by_rank : place * ranks / of_bucket + 1;
      if (ring.in_rank_order) first = 0;
      Real value = 0;
      for (std::size_t k = 0; k < ranks; ++k) value += all[(first + k) % ranks].at(name)[i];
      values[i] = ring.averages ? value / static_cast<Real>(ranks) : value;
    }
  }
  return sum;
}

}  // namespace lockstep::test
