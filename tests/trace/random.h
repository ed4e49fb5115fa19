#pragma once

#include <cmath>
#include <cstdint>
#include <numbers>

namespace lockstep::trace::test {

/// Random numbers that are the same with every standard library. *Source*: Steele, Lea, Flood 2014 (SplitMix64).
class Random {
 public:
  explicit Random(std::uint64_t seed) : state_(seed) {}

  std::uint64_t bits() {
    std::uint64_t z = state_ += 0x9E3779B97F4A7C15U;
    z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9U;
    z = (z ^ (z >> 27)) * 0x94D049BB133111EBU;
    return z ^ (z >> 31);
  }

  /// Uniform in [0, limit).
  std::size_t below(std::size_t limit) { return bits() % limit; }

  /// Uniform in (0, 1].
  double uniform() { return (static_cast<double>(bits() >> 11) + 1) * 0x1p-53; }

  /// Standard normal (Box and Muller).
  double normal() { return std::sqrt(-2 * std::log(uniform())) * std::cos(2 * std::numbers::pi * uniform()); }

 private:
  std::uint64_t state_;
};

}  // namespace lockstep::trace::test
