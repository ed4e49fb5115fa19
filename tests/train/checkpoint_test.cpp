#include "harness/train/checkpoint.h"

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

#include "tests/support/support.h"

namespace lockstep::train {
namespace {

Checkpoint sample() {
  const at::Tensor rng = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  return {.world_size = 1,
          .updates = 7,
          .samples_taken = 70,
          .learning_rate = 0.1 * 0.3,
          .position = {.epoch = 2, .position = 10, .epoch_rng = rng},
          .buckets = {{1, 0}},
          .weights = {{"w", at::arange(6, at::kFloat).view({2, 3}).t()}, {"b", at::ones({2}, at::kDouble)}},
          .optimizer = {{"w.momentum_buffer", at::full({3, 2}, 0.25F)}},
          .rng = rng};
}

/// A checkpoint in a folder of its own, written by one rank.
class CheckpointTest : public ::testing::Test {
 protected:
  CheckpointTest() : folder_(scratch_.path() / "checkpoint") {
    launch::ProgressWriter progress(scratch_.path() / "rank0.progress");
    Collective alone({.rank = 0, .world_size = 1}, progress);
    save_checkpoint(folder_, sample(), 0, alone);
  }

  test::Scratch scratch_;
  std::filesystem::path folder_;
};

TEST_F(CheckpointTest, RoundTripKeepsEveryBit) {
  const Checkpoint expected = sample(), loaded = load_checkpoint(folder_, 0, 1, /*per_rank=*/true);
  EXPECT_EQ(loaded.updates, 7);
  EXPECT_EQ(loaded.samples_taken, 70);
  EXPECT_EQ(loaded.learning_rate, expected.learning_rate);
  EXPECT_EQ(loaded.buckets, expected.buckets);
  EXPECT_EQ(loaded.position.epoch, 2);
  EXPECT_EQ(loaded.position.position, 10);
  EXPECT_TRUE(at::equal(loaded.rng, expected.rng));
  ASSERT_EQ(loaded.weights.size(), 2U);
  EXPECT_TRUE(at::equal(loaded.weights[0].tensor, expected.weights[0].tensor));
  EXPECT_EQ(loaded.weights[1].tensor.scalar_type(), at::kDouble);
  EXPECT_TRUE(at::equal(loaded.optimizer[0].tensor, expected.optimizer[0].tensor));
}

TEST_F(CheckpointTest, AnyChangedFileIsNamed) {
  for (const char* name : {"weights.safetensors", "optimizer.safetensors", "rng.rank0.safetensors"}) {
    const std::string whole = read_file(folder_ / name);
    std::string damaged = whole;
    damaged.back() = static_cast<char>(damaged.back() ^ 1);
    replace_file(folder_ / name, damaged);
    try {
      load_checkpoint(folder_, 0, 1, true);
      ADD_FAILURE() << name << " was accepted";
    } catch (const DamagedFile& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
    replace_file(folder_ / name, whole);
  }
}

TEST_F(CheckpointTest, AnInterruptedSaveIsNoCheckpoint) {
  std::filesystem::remove(folder_ / "state.json");
  EXPECT_THROW(load_checkpoint(folder_, 0, 1, true), InputError);
}

TEST_F(CheckpointTest, AnotherWorldSizeIsRefusedForWhatBelongsToRanks) {
  EXPECT_THROW(load_checkpoint(folder_, 0, 2, /*per_rank=*/true), InputError);
  EXPECT_NO_THROW(load_checkpoint(folder_, 1, 2, /*per_rank=*/false));
}

TEST(CopyWeights, NamesWhatDoesNotFit) {
  const std::vector<NamedTensor> model{{"a", at::zeros({2})}, {"b", at::zeros({3})}};
  EXPECT_THROW(copy_weights({{"a", at::ones({2})}}, model), DamagedFile);
  EXPECT_THROW(copy_weights({{"a", at::ones({2})}, {"b", at::ones({4})}}, model), DamagedFile);
  EXPECT_THROW(copy_weights({{"a", at::ones({2})}, {"b", at::ones({3})}, {"c", at::ones({1})}}, model), DamagedFile);
  copy_weights({{"b", at::ones({3})}, {"a", at::ones({2})}}, model);
  EXPECT_TRUE(at::equal(model[1].tensor, at::ones({3})));
}

}  // namespace
}  // namespace lockstep::train
