#pragma once

#include <cstdint>

namespace lockstep::train {

/// A number that depends on every bit of `z`. *Source*: SplitMix64 (Steele, Lea, Flood 2014).
constexpr std::uint64_t split_mix(std::uint64_t z) {
  z += 0x9E3779B97F4A7C15ULL;
  z = (z ^ (z >> 30)) * 0xBF58476D1CE4E5B9ULL;
  z = (z ^ (z >> 27)) * 0x94D049BB133111EBULL;
  return z ^ (z >> 31);
}

}  // namespace lockstep::train
