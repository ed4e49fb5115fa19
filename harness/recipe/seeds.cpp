#include "harness/recipe/seeds.h"

#include <algorithm>
#include <array>

namespace lockstep::recipe {
namespace {

/// MT19937 (Matsumoto, Nishimura 1998) seeded by an array, which std::mt19937 does not offer.
class MersenneTwister {
 public:
  explicit MersenneTwister(const std::vector<std::uint32_t>& key) {
    state_[0] = 19650218;
    for (std::uint32_t i = 1; i < kSize; ++i) state_[i] = 1812433253U * mixed(state_[i - 1]) + i;
    std::uint32_t i = 1;
    const auto advance = [&] {
      if (++i < kSize) return;
      state_[0] = state_[kSize - 1];
      i = 1;
    };
    std::uint32_t j = 0;
    for (std::size_t k = std::max<std::size_t>(kSize, key.size()); k > 0; --k, advance()) {
      state_[i] = (state_[i] ^ (mixed(state_[i - 1]) * 1664525U)) + key[j] + j;
      j = (j + 1) % static_cast<std::uint32_t>(key.size());
    }
    for (std::size_t k = kSize - 1; k > 0; --k, advance())
      state_[i] = (state_[i] ^ (mixed(state_[i - 1]) * 1566083941U)) - i;
    state_[0] = 0x80000000U;
  }

  std::uint32_t next() {
    if (at_ == kSize) refill();
    std::uint32_t y = state_[at_++];
    y ^= y >> 11;
    y ^= (y << 7) & 0x9D2C5680U;
    y ^= (y << 15) & 0xEFC60000U;
    return y ^ (y >> 18);
  }

 private:
  static constexpr std::uint32_t kSize = 624, kShift = 397;

  static std::uint32_t mixed(std::uint32_t word) { return word ^ (word >> 30); }

  void refill() {
    for (std::uint32_t i = 0; i < kSize; ++i) {
      const std::uint32_t y = (state_[i] & 0x80000000U) | (state_[(i + 1) % kSize] & 0x7FFFFFFFU);
      state_[i] = state_[(i + kShift) % kSize] ^ (y >> 1) ^ ((y & 1) != 0 ? 0x9908B0DFU : 0);
    }
    at_ = 0;
  }

  std::array<std::uint32_t, kSize> state_{};
  std::uint32_t at_ = kSize;
};

}  // namespace

std::vector<std::uint64_t> python_random_integers(std::uint64_t seed, std::int64_t count) {
  std::vector<std::uint32_t> key{static_cast<std::uint32_t>(seed)};
  if (seed >> 32 != 0) key.push_back(static_cast<std::uint32_t>(seed >> 32));
  MersenneTwister twister(key);
  std::vector<std::uint64_t> drawn;
  // 33 bits are drawn for a range of 2**32 values, and drawn again until the highest is 0.
  while (static_cast<std::int64_t>(drawn.size()) < count) {
    const std::uint32_t low = twister.next();
    if (twister.next() >> 31 == 0) drawn.push_back(low);
  }
  return drawn;
}

std::uint64_t seed_of_rank(const SeedSpec& spec, std::int64_t rank) {
  if (spec.policy == SeedPolicy::kAddRank) return spec.base + static_cast<std::uint64_t>(rank);
  if (spec.policy == SeedPolicy::kMtList) return python_random_integers(spec.base, rank + 1).back();
  return spec.base;
}

}  // namespace lockstep::recipe
