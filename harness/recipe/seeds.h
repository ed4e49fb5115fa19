#pragma once

#include <cstdint>
#include <vector>

#include "harness/recipe/train_spec.h"

namespace lockstep::recipe {

/// Results of `count` calls of randint(0, 2**32 - 1) on Python's random.Random(seed).
/// *Source*: CPython 3, Modules/_randommodule.c (init_by_array) and Lib/random.py (_randbelow_with_getrandbits).
std::vector<std::uint64_t> python_random_integers(std::uint64_t seed, std::int64_t count);

/// Seed of a rank, for a policy that sets seeds.
std::uint64_t seed_of_rank(const SeedSpec& spec, std::int64_t rank);

}  // namespace lockstep::recipe
