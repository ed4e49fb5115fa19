#include "harness/recipe/seeds.h"

#include <gtest/gtest.h>

namespace lockstep::scenario {
namespace {

TEST(Seeds, FollowTheirPolicy) {
  EXPECT_EQ(recipe::seed_of_rank({.base = 5, .policy = recipe::SeedPolicy::kSame}, 3), 5U);
  EXPECT_EQ(recipe::seed_of_rank({.base = 5, .policy = recipe::SeedPolicy::kAfterModel}, 3), 5U);
  EXPECT_EQ(recipe::seed_of_rank({.base = 5, .policy = recipe::SeedPolicy::kAddRank}, 3), 8U);
  EXPECT_EQ(recipe::seed_of_rank({.base = 2, .policy = recipe::SeedPolicy::kMtList}, 2), 3588440356U);
}

// python3 -c "import random; r = random.Random(2); print([r.randint(0, 2**32 - 1) for _ in range(8)])"
TEST(Seeds, PythonsRandomIntegers) {
  const std::vector<std::uint64_t> of_2{242886303,  364522461,  3588440356, 1323436024,
                                        2602510382, 2606193617, 4077622522, 117874757};
  EXPECT_EQ(recipe::python_random_integers(2, 8), of_2);
}

// python3 -c "import random; r = random.Random(2**40 + 7); print([r.randint(0, 2**32 - 1) for _ in range(700)][-1])"
TEST(Seeds, OfMoreThan32BitsAndBeyondTheFirstBlock) {
  EXPECT_EQ(recipe::python_random_integers((std::uint64_t{1} << 40) + 7, 700).back(), 1907570157U);
}

}  // namespace
}  // namespace lockstep::scenario
