// What recorders tell beside two traces: the tensors of checkpoints, and passes after the last update.
#include "harness/compare/checkpoints.h"

#include "harness/compare/rests.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using compare::CheckpointComparison;
using trace::CheckpointFile;

using Files = std::vector<CheckpointFile>;
using Tensors = std::optional<std::map<std::string, std::string>>;

CheckpointFile written(std::int64_t updates, const Tensors& tensors, const std::string& sha256 = "s",
                       std::int64_t rank = 0) {
  return {.written = true, .updates = updates, .sha256 = sha256, .rank = rank, .name = "ck.pt", .tensors = tensors};
}

class CheckpointsTest : public testing::Test {
 protected:
  CheckpointComparison compared(const Files& left, const Files& right) {
    return compare::compare_checkpoints({bench_.run("a"), left}, {bench_.run("b"), right});
  }

  Bench bench_{Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}}}};
};

TEST_F(CheckpointsTest, EqualTensorsAreOneCheckpointWhateverElseTheFilesHold) {
  const auto found =
      compared({written(2, {{{"w", "1"}, {"b", "2"}}}, "x")}, {written(2, {{{"b", "2"}, {"w", "1"}}}, "y")});
  EXPECT_FALSE(found.first);
  EXPECT_TRUE(found.notes.empty());
}

TEST_F(CheckpointsTest, ATensorThatDiffersIsNamed) {
  const Files left = {written(2, {{{"w", "1"}}}), written(4, {{{"w", "1"}}}, "s", 1)};
  const auto found = compared(left, {written(2, {{{"w", "1"}}}), written(4, {{{"w", "9"}}}, "s", 1)});
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->place_and_rank(), "step 3, in the checkpoint ck.pt, rank 1");
  EXPECT_EQ(found.first->expected, "tensor w: digest 1");
  EXPECT_EQ(found.first->actual, "tensor w: digest 9");
}

TEST_F(CheckpointsTest, ATensorThatOneLacksIsNamed) {
  const Files less = {written(2, {{{"b", "2"}}})}, more = {written(2, {{{"b", "2"}, {"w", "1"}}})};
  ASSERT_TRUE(compared(less, more).first);
  EXPECT_EQ(compared(less, more).first->expected, "tensor w: not there");
  ASSERT_TRUE(compared(more, less).first);
  EXPECT_EQ(compared(more, less).first->actual, "tensor w: not there");
}

TEST_F(CheckpointsTest, WhatCannotBeComparedIsSaid) {
  const Files one = {written(2, {{{"w", "1"}}})}, unknown = {written(2, std::nullopt, "y")};
  for (const auto& found :
       {compared(one, {}), compared({}, one), compared(one, {one[0], one[0]}), compared(one, unknown)}) {
    EXPECT_FALSE(found.first);
    EXPECT_EQ(found.notes.size(), 1U);
  }
  EXPECT_TRUE(compared(unknown, unknown).notes.empty());
}

TEST_F(CheckpointsTest, UpdatesOfAResumedRunAreCountedOn) {
  for (trace::Trace& rank : bench_.run("b").ranks) {
    std::erase_if(rank.steps, [](const trace::Step& step) { return step.step < 1; });
  }
  const auto found = compared({written(4, {{{"w", "1"}}})}, {written(2, {{{"w", "9"}}})});
  ASSERT_TRUE(found.first);
  EXPECT_EQ(found.first->step, 3);
}

TEST_F(CheckpointsTest, PassesAfterTheLastUpdateAreCompared) {
  using Rest = std::optional<trace::Rest>;
  const Rest none, whole = trace::Rest{.micro_batches = 2, .losses = {"x", "y"}, .samples = {1, 2}};
  const auto differ = [&](const Rest& left, const Rest& right) {
    return compare::compare_rests({bench_.run("a"), left}, {bench_.run("b"), right}, 1);
  };
  Rest one_less = whole, other_sample = whole, other_loss = whole;
  one_less->micro_batches = 1;
  other_sample->samples[1] = 3;
  other_loss->losses.pop_back();
  EXPECT_FALSE(differ(whole, whole));
  EXPECT_FALSE(differ(none, none));
  EXPECT_EQ(differ(none, whole)->place_and_rank(), "step 4, in passes that no update follows, rank 1");
  EXPECT_EQ(differ(whole, none)->actual, "micro-batches: 0");
  EXPECT_EQ(differ(whole, one_less)->actual, "micro-batches: 1");
  EXPECT_EQ(differ(whole, other_sample)->actual, "sample 3");
  EXPECT_EQ(differ(whole, other_loss)->expected, "loss: digest y");
}

}  // namespace
}  // namespace lockstep::test
