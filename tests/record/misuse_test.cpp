// Whatever a caller from C gets wrong is an error that says so, and spoils the trace: never a crash, never a false
// whole.
#include <cstdint>
#include <cstring>
#include <limits>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/trace/channel.h"

#include "tests/record/fixture.h"

namespace lockstep::test {
namespace {

constexpr std::int64_t kHuge = std::numeric_limits<std::int64_t>::max();

class Misuse : public RecorderCalls {};

TEST_F(Misuse, OpeningNamesTheArgument) {
  EXPECT_EQ(lockstep_recorder_open(nullptr, &recorder_), LOCKSTEP_MISUSE);
  expect_says(lockstep_recorder_error(nullptr), {"config is NULL"});
  auto wrong = config();
  EXPECT_EQ(lockstep_recorder_open(&wrong, nullptr), LOCKSTEP_MISUSE);
  expect_says(lockstep_recorder_error(nullptr), {"recorder is NULL"});
  wrong.folder = nullptr;
  expect_refused(wrong, {"folder is NULL"});
  wrong.folder = "";
  expect_refused(wrong, {"folder is empty"});
  wrong = config();
  wrong.every = -1;
  expect_refused(wrong, {"every is negative", "-1"});
}

TEST_F(Misuse, ARankMustBeOneOfItsWorld) {
  const std::pair<std::int64_t, std::int64_t> places[] = {{0, 0}, {1, 1}, {-1, 1}, {0, -1}, {kHuge, 1}};
  for (const auto& [rank, world_size] : places) {
    auto wrong = config();
    wrong.rank = rank;
    wrong.world_size = world_size;
    expect_refused(wrong, {"the rank is outside its world size", std::to_string(rank) + " of "});
  }
}

TEST_F(Misuse, TheHeaderIsReadBeforeAnythingIsWritten) {
  const std::pair<const char*, std::vector<std::string>> wrongs[] = {
      {"", {"not valid JSON", "header:1:1"}},
      {"{\"a\": 1,\n  \"b\": }", {"not valid JSON", "header:2:8"}},
      {"{\"a\": 1, \"a\": 2}", {"'a' appears twice"}},
      {"[1]", {"no JSON object", "array"}},
      {"{\"rank\": 0}", {"may not hold the key 'rank'"}},
      {"{\"check\": \"\"}", {"may not hold the key 'check'"}},
      {"{\"format\": \"mine\"}", {"may not hold the key 'format'"}},
      {"{\"samples\": \"many\"}", {"'samples' has another type", "a natural number", "many"}},
      {"{\"samples\": -1}", {"'samples' has another type"}},
      {"{\"scenario\": 1}", {"'scenario' has another type", "a string"}},
      {"{\"environment\": []}", {"'environment' has another type", "an object"}},
      {"{\"warnings\": [1]}", {"'warnings' has another type", "an array of strings"}},
      {"{\"arithmetic\": \"float19\"}", {"'arithmetic' has another type"}},
      {"\xff", {"not valid JSON"}},
  };
  for (const auto& [header, parts] : wrongs) {
    SCOPED_TRACE(header);
    auto wrong = config();
    wrong.header = header;
    expect_refused(wrong, parts);
  }
  std::string deep(200, '[');
  auto wrong = config();
  wrong.header = deep.c_str();
  expect_refused(wrong, {"nested too deeply"});
}

TEST_F(Misuse, AnUnknownChannelListsTheKnownOnes) {
  const char* channels[] = {"loss", "gradients"};
  auto wrong = config();
  wrong.channels = channels;
  wrong.channel_count = 2;
  expect_refused(wrong, {"unknown channel 'gradients'", "samples, input, rng", "did you mean 'gradient'?"});
  open();
  std::vector<std::string> parts = {"unknown channel 'weights'", "did you mean 'weight'?", "rank0.jsonl, step 3"};
  for (const std::string& name : trace::channel_names()) parts.push_back(name);
  expect_misuse(lockstep_recorder_number(recorder_, "weights", "w", 1), parts);
  int wanted = 7;
  expect_misuse(lockstep_recorder_wants(recorder_, "", &wanted), {"unknown channel ''"});
  EXPECT_EQ(wanted, 7);
}

TEST_F(Misuse, AConfigOfALaterHeaderIsTakenWhereItAsksNothingNew) {
  struct Later {
    lockstep_recorder_config known;
    std::int64_t more;
  } later{config(), 0};
  later.known.size = 8;
  expect_refused(later.known, {"size is too small"});
  later.known.size = sizeof later;
  later.more = 1;
  expect_refused(later.known, {"does not know"});
  later.more = 0;
  EXPECT_EQ(lockstep_recorder_open(&later.known, &recorder_), LOCKSTEP_OK);
}

TEST_F(Misuse, NullsAreNamed) {
  open();
  const std::vector<std::int64_t> two = {2};
  const lockstep_tensor good = view(two, data_);
  expect_misuse(lockstep_recorder_tensor(recorder_, nullptr, "w", &good), {"channel is NULL"});
  expect_misuse(lockstep_recorder_tensor(recorder_, "weight", nullptr, &good), {"name is NULL"});
  expect_misuse(lockstep_recorder_tensor(recorder_, "weight", "w", nullptr), {"tensor is NULL", "weight 'w'"});
  expect_misuse(tensor(view({2}, nullptr)), {"data is NULL"});
  lockstep_tensor shapeless = good;
  shapeless.shape = nullptr;
  expect_misuse(tensor(shapeless), {"shape is NULL"});
  expect_misuse(lockstep_recorder_integers(recorder_, "samples", "ids", nullptr, 2), {"values is NULL"});
  expect_misuse(lockstep_recorder_text(recorder_, "rng", "torch", nullptr), {"text is NULL"});
  expect_misuse(lockstep_recorder_wants(recorder_, "loss", nullptr), {"wanted is NULL"});
}

TEST_F(Misuse, EveryFunctionTakesANullRecorder) {
  const std::vector<std::int64_t> two = {2};
  const lockstep_tensor good = view(two, data_);
  int wanted = 0;
  EXPECT_EQ(lockstep_recorder_begin_step(nullptr, 0), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_wants(nullptr, "loss", &wanted), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_tensor(nullptr, "weight", "w", &good), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_number(nullptr, "loss", "l", 0), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_integer(nullptr, "ledger", "updates", 0), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_integers(nullptr, "samples", "ids", nullptr, 0), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_text(nullptr, "rng", "t", ""), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_end_step(nullptr), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_drop_step(nullptr), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_hold(nullptr, 1), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_release(nullptr, 0, nullptr, nullptr, nullptr), LOCKSTEP_MISUSE);
  char text[LOCKSTEP_RECORDER_DIGEST_SIZE];
  EXPECT_EQ(lockstep_recorder_digest(nullptr, text), LOCKSTEP_MISUSE);
  const lockstep_tensor scalar = {.dtype = LOCKSTEP_FLOAT32, .data = text};
  EXPECT_EQ(lockstep_recorder_digest(&scalar, nullptr), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_close(nullptr), LOCKSTEP_MISUSE);
  expect_says(lockstep_recorder_error(nullptr), {"recorder is NULL"});
  lockstep_recorder_free(nullptr);
}

TEST_F(Misuse, ShapesThatNoMemoryHasAreRefused) {
  open();
  expect_misuse(tensor(view({2, -1}, data_)), {"negative extent", "[2, -1]", "step 3, weight 'w'"});
  expect_misuse(tensor(view({kHuge}, data_)), {"larger than any memory"});
  expect_misuse(tensor(view({kHuge, kHuge}, data_)), {"larger than any memory"});
  expect_misuse(tensor(view({0, kHuge, kHuge}, data_)), {"larger than any memory"});
  const std::vector<std::int64_t> ones(65, 1);
  expect_misuse(tensor(view(ones, data_)), {"too many dimensions", "65"});
  const std::vector<std::int64_t> square = {2, 2};
  lockstep_tensor strided = view(square, data_);
  for (const std::int64_t stride : {kHuge, -kHuge, std::numeric_limits<std::int64_t>::min()}) {
    const std::int64_t strides[] = {stride, 1};
    strided.strides = strides;
    expect_misuse(tensor(strided), {"strides reach beyond memory"});
  }
  expect_misuse(lockstep_recorder_integers(recorder_, "samples", "ids", nullptr, 2), {"values is NULL"});
  const std::int64_t one = 1;
  expect_misuse(lockstep_recorder_integers(recorder_, "samples", "ids", &one, std::numeric_limits<std::size_t>::max()),
                {"more integers than any memory holds"});
}

TEST_F(Misuse, UnknownDTypesAndUnalignedDataAreRefused) {
  open();
  const std::vector<std::int64_t> two = {2};
  lockstep_tensor wrong = view(two, data_);
  for (const int code : {-1, 10, 1000}) {
    std::memcpy(&wrong.dtype, &code, sizeof code);
    expect_misuse(tensor(wrong), {"unknown dtype", std::to_string(code)});
  }
  wrong = view(two, reinterpret_cast<const char*>(data_) + 1);
  expect_misuse(tensor(wrong), {"not aligned", "4"});
}

TEST_F(Misuse, NamesMustBeFoundAgain) {
  open();
  expect_misuse(lockstep_recorder_number(recorder_, "loss", "", 1), {"empty name"});
  expect_misuse(lockstep_recorder_number(recorder_, "loss", "\xff", 1), {"no UTF-8"});
  EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", "\u00e9\n", 1), LOCKSTEP_OK);
}

TEST_F(Misuse, StepsComeOneAfterTheOther) {
  open();
  expect_misuse(lockstep_recorder_begin_step(recorder_, 4), {"step 3 has not ended"});
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  expect_misuse(lockstep_recorder_number(recorder_, "loss", "local", 1), {"no step has begun"});
  expect_misuse(lockstep_recorder_end_step(recorder_), {"no step has begun"});
  expect_misuse(lockstep_recorder_drop_step(recorder_), {"no step has begun"});
  int wanted = 0;
  expect_misuse(lockstep_recorder_wants(recorder_, "loss", &wanted), {"no step has begun"});
  expect_misuse(lockstep_recorder_begin_step(recorder_, 3), {"does not come after", "more than 3"});
  expect_misuse(lockstep_recorder_begin_step(recorder_, -1), {"does not come after", "more than 3"});
  EXPECT_EQ(lockstep_recorder_begin_step(recorder_, 4), LOCKSTEP_OK);
}

TEST_F(Misuse, NothingIsHeldBackForEver) {
  open();
  EXPECT_EQ(lockstep_recorder_hold(recorder_, 1), LOCKSTEP_OK);
  expect_misuse(lockstep_recorder_release(recorder_, 1, nullptr, nullptr, nullptr), {"channels is NULL"});
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  expect_misuse(lockstep_recorder_release(recorder_, 0, nullptr, nullptr, nullptr), {"no step has begun"});
  expect_misuse(lockstep_recorder_close(recorder_), {"records are held back"});
}

TEST_F(Misuse, NoStepComesBeforeTheInitialState) {
  const auto whole = config();
  ASSERT_EQ(lockstep_recorder_open(&whole, &recorder_), LOCKSTEP_OK);
  expect_misuse(lockstep_recorder_begin_step(recorder_, -2), {"-1 or more"});
  expect_misuse(lockstep_recorder_begin_step(recorder_, std::numeric_limits<std::int64_t>::min()), {"-1 or more"});
}

// A program that looks at the status of close alone still learns that something is missing.
TEST_F(Misuse, ARefusedRecordSpoilsTheTrace) {
  open();
  EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", "", 1), LOCKSTEP_MISUSE);
  EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", "local", 1), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  expect_misuse(lockstep_recorder_close(recorder_), {"stays torn", "empty name"});
  EXPECT_FALSE(trace().complete);
  EXPECT_EQ(trace().steps.size(), 1U);
}

TEST_F(Misuse, CloseInAStepLeavesTheTraceTorn) {
  open();
  expect_misuse(lockstep_recorder_close(recorder_), {"step 3 has not ended", "end_step before close"});
  EXPECT_FALSE(trace().complete);
}

TEST_F(Misuse, AClosedRecorderTakesNothingMore) {
  open();
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  EXPECT_STREQ(lockstep_recorder_error(recorder_), "");
  EXPECT_EQ(lockstep_recorder_close(recorder_), LOCKSTEP_OK) << lockstep_recorder_error(recorder_);
  expect_misuse(lockstep_recorder_begin_step(recorder_, 4), {"the recorder is closed"});
  expect_misuse(lockstep_recorder_number(recorder_, "loss", "local", 1), {"the recorder is closed"});
  expect_misuse(lockstep_recorder_close(recorder_), {"the recorder is closed"});
  EXPECT_TRUE(trace().complete);
}

TEST_F(Misuse, AFolderThatCannotBeMadeIsAnErrorOfTheSystem) {
  const std::string file = scratch_.write("file", "").string() + "/run";
  auto wrong = config();
  wrong.folder = file.c_str();
  EXPECT_EQ(lockstep_recorder_open(&wrong, &recorder_), LOCKSTEP_SYSTEM);
  expect_says(lockstep_recorder_error(nullptr), {"Not a directory", file});
  const std::string endless(10'000, 'x');
  wrong.folder = endless.c_str();
  EXPECT_EQ(lockstep_recorder_open(&wrong, &recorder_), LOCKSTEP_SYSTEM);
}

}  // namespace
}  // namespace lockstep::test
