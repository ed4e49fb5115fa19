// Where a resumed run goes on, by its weights and by the checkpoint that it read.
#include "harness/compare/continuation.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using compare::Continuation;
using compare::RunAndFiles;
using trace::Channel;
using trace::CheckpointFile;

using Files = std::vector<CheckpointFile>;

const Files kWritten = {{.written = true, .updates = 3, .sha256 = "a"}, {.written = true, .updates = 5, .sha256 = "b"}};

CheckpointFile read(const std::string& sha256) { return {.written = false, .updates = 0, .sha256 = sha256}; }

/// A training of eight updates, and one whose recorder began to count anew after five of them.
class ContinuationTest : public testing::Test {
 protected:
  ContinuationTest() : source_(bench_.run("a")), resumed_(resumed_from(source_, 5, "resumed/0")) {
    for (trace::Trace& rank : resumed_.ranks) {
      for (trace::Step& step : rank.steps) step.step -= 5;
    }
  }

  Continuation found(const Files& written = {}, const Files& read = {}) const {
    return compare::continuation_of({source_, written}, {resumed_, read});
  }

  void set_weights(std::int64_t step) {
    for (const char* name : {"fc.bias", "fc.weight"}) {
      for (const std::int64_t rank : {0, 1})
        put(resumed_, rank, trace::kInitialStep, at(source_, 0, step, Channel::kWeight, name));
    }
  }

  static Json changes() { return {{"train", {{"steps", 8}}}, {"checks", {{{"that", "ranks_agree"}}}}}; }

  Bench bench_{changes()};
  trace::RunTrace source_, resumed_;
};

TEST_F(ContinuationTest, TheWeightsTell) {
  EXPECT_EQ(found().begins, 4);
  EXPECT_EQ(found().saved, 4);
}

TEST_F(ContinuationTest, AnotherFileThanTheWeightsAreOfIsSeen) {
  EXPECT_EQ(found(kWritten, {read("a")}).begins, 4);
  EXPECT_EQ(found(kWritten, {read("a")}).saved, 2);
  EXPECT_EQ(found(kWritten, {read("b")}).saved, 4);
  EXPECT_EQ(found(kWritten, {read("a"), read("b")}).saved, 4) << "it reads both, and takes one";
}

/// A save of which nothing else is known: a thread may have written it after the next update.
TEST_F(ContinuationTest, AFileMayBeWrittenLaterThanItsTensorsWereTaken) {
  const Files later = {{.written = true, .updates = 6, .sha256 = "c"}};
  EXPECT_EQ(found(later, {read("c")}).begins, 4);
  EXPECT_EQ(found(later, {read("c")}).saved, 4);
  set_weights(trace::kInitialStep);
  EXPECT_EQ(found(later, {read("c")}).saved, 5) << "but it was not loaded at all";
}

TEST_F(ContinuationTest, TheTensorsOfAFileTellItsMoment) {
  Files later = {{.written = true, .updates = 7, .sha256 = "c", .tensors = std::map<std::string, std::string>()}};
  const auto hold = [&](const std::string& name, std::int64_t step) {
    (*later[0].tensors)["model." + name] = to_text(at(source_, 0, step, Channel::kWeight, name).digest);
  };
  hold("fc.bias", 4);
  hold("fc.weight", 4);
  EXPECT_EQ(found(later, {read("c")}).saved, 4);
  spoil(resumed_, 0, trace::kInitialStep, Channel::kWeight, "fc.bias");
  EXPECT_EQ(found(later, {read("c")}).begins, 4) << "and weights do not";
  hold("fc.bias", 5);
  EXPECT_EQ(found(later, {read("c")}).begins, 5) << "of two moments the later";
}

TEST_F(ContinuationTest, TheFileTellsWhereWeightsDoNot) {
  spoil(resumed_, 0, trace::kInitialStep, Channel::kWeight, "fc.bias");
  EXPECT_FALSE(found(kWritten).begins);
  EXPECT_NE(found(kWritten).why.find("after none of its steps"), std::string::npos) << found(kWritten).why;
  EXPECT_EQ(found(kWritten, {read("b")}).begins, 4);
  EXPECT_FALSE(found(kWritten, {read("")}).begins);
}

TEST_F(ContinuationTest, WeightsOfSeveralStepsTellNothing) {
  for (trace::Trace& rank : source_.ranks) rank.steps[4].records = rank.steps[5].records;
  EXPECT_EQ(found().several, (std::vector<std::int64_t>{3, 4}));
  EXPECT_FALSE(found().begins);
  EXPECT_EQ(found(kWritten, {read("b")}).begins, 4) << "but the file does";
}

TEST_F(ContinuationTest, ATrainingThatLoadsNothing) {
  set_weights(trace::kInitialStep);
  EXPECT_FALSE(found().begins) << "nothing shows that a checkpoint was there";
  EXPECT_EQ(found(kWritten).begins, -1);
  EXPECT_EQ(found(kWritten).saved, 4) << "the newest one was there to be read";
  EXPECT_EQ(found(kWritten, {read("a")}).saved, 2);
}

TEST_F(ContinuationTest, ATrainingThatWasResumedItselfCountsOn) {
  const trace::RunTrace source = resumed_from(source_, 3, "half/0");
  const Files written = {{.written = true, .updates = 2, .sha256 = "c"}}, seen = {read("c")};
  EXPECT_EQ(compare::continuation_of({source, written}, {resumed_, seen}).saved, 4);
}

TEST_F(ContinuationTest, StepsAndTotalsAreCountedOn) {
  const auto held = [](const trace::RunTrace& run, std::int64_t step, const char* name) {
    const trace::Record* record = run.ranks[1].find(step, Channel::kLedger, name);
    return record == nullptr ? -1 : record->integers.at(0);
  };
  for (std::int64_t step = 0; step < 3; ++step) {
    for (const std::int64_t rank : {0, 1}) {
      put(resumed_, rank, step, integer("updates", step + 1));
      put(resumed_, rank, step, integer("samples_taken", 4 * (step + 1)));
      put(resumed_, rank, step, integer("epoch", 0));
    }
  }
  compare::count_on(resumed_, source_, 4);
  EXPECT_EQ(resumed_.ranks[1].steps.front().step, 4);
  EXPECT_EQ(held(resumed_, 6, "updates"), 7);
  EXPECT_EQ(held(resumed_, 6, "samples_taken"), 8 + held(source_, 4, "samples_taken"));
  EXPECT_EQ(held(resumed_, 6, "epoch"), -1) << "how much of one was done nobody knows";
  const trace::Record* updates = resumed_.ranks[0].find(6, Channel::kLedger, "updates");
  EXPECT_TRUE(trace::same_bits(updates, source_.ranks[0].find(6, Channel::kLedger, "updates")));
}

}  // namespace
}  // namespace lockstep::test
