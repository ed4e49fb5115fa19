// What the library records of right calls.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/trace/channel.h"
#include "harness/trace/dtype.h"

#include "tests/record/fixture.h"

namespace lockstep::test {
namespace {

TEST_F(RecorderCalls, EveryDTypeAndAnyStrideIsRecordedAsItsDenseCopy) {
  open();
  const std::int64_t shape[] = {2}, backwards[] = {-1}, spread[] = {0};
  const double zeros[2] = {};
  for (int code = 0; code < 10; ++code) {
    lockstep_tensor each = {
        .dtype = static_cast<lockstep_dtype>(code), .dimensions = 1, .shape = shape, .strides = nullptr, .data = zeros};
    EXPECT_EQ(lockstep_recorder_tensor(recorder_, "buffer", std::to_string(code).c_str(), &each), LOCKSTEP_OK);
  }
  lockstep_tensor strided = {
      .dtype = LOCKSTEP_FLOAT32, .dimensions = 1, .shape = shape, .strides = backwards, .data = data_ + 1};
  EXPECT_EQ(lockstep_recorder_tensor(recorder_, "weight", "backwards", &strided), LOCKSTEP_OK);
  strided.strides = spread;
  EXPECT_EQ(lockstep_recorder_tensor(recorder_, "weight", "spread", &strided), LOCKSTEP_OK);
  const float dense[] = {2, 1}, twos[] = {2, 2};
  lockstep_tensor copy = {
      .dtype = LOCKSTEP_FLOAT32, .dimensions = 1, .shape = shape, .strides = nullptr, .data = dense};
  EXPECT_EQ(lockstep_recorder_tensor(recorder_, "weight", "reversed", &copy), LOCKSTEP_OK);
  copy.data = twos;
  EXPECT_EQ(lockstep_recorder_tensor(recorder_, "weight", "twos", &copy), LOCKSTEP_OK);
  const lockstep_tensor empty = {
      .dtype = LOCKSTEP_FLOAT32, .dimensions = 1, .shape = &spread[0], .strides = nullptr, .data = nullptr};
  EXPECT_EQ(lockstep_recorder_tensor(recorder_, "weight", "empty", &empty), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_integers(recorder_, "samples", "ids", nullptr, 0), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  ASSERT_EQ(lockstep_recorder_close(recorder_), LOCKSTEP_OK) << lockstep_recorder_error(recorder_);
  const trace::Trace whole = trace();
  const trace::Step& step = whole.steps.at(0);
  const auto dtypes = {"bool", "uint8", "int8", "int16", "int32", "int64", "float16", "bfloat16", "float32", "float64"};
  int code = 0;
  for (const char* name : dtypes)
    EXPECT_EQ(name_of(step.find(trace::Channel::kBuffer, std::to_string(code++))->dtype), name);
  const auto digest = [&](const char* name) { return step.find(trace::Channel::kWeight, name)->digest; };
  char text[LOCKSTEP_RECORDER_DIGEST_SIZE];
  ASSERT_EQ(lockstep_recorder_digest(&strided, text), LOCKSTEP_OK);
  EXPECT_EQ(text, to_text(digest("spread"))) << "without a recorder";
  ASSERT_EQ(lockstep_recorder_digest(&empty, text), LOCKSTEP_OK);
  EXPECT_EQ(text, to_text(digest("empty")));
  EXPECT_EQ(digest("backwards"), digest("reversed"));
  EXPECT_EQ(digest("spread"), digest("twos"));
}

TEST_F(RecorderCalls, ADroppedStepLeavesNoLine) {
  open();
  EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", "local", 1), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_drop_step(recorder_), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_begin_step(recorder_, 4), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", "reduced", 1), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_begin_step(recorder_, 5), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_drop_step(recorder_), LOCKSTEP_OK);
  ASSERT_EQ(lockstep_recorder_close(recorder_), LOCKSTEP_OK) << lockstep_recorder_error(recorder_);
  const trace::Trace whole = trace();
  ASSERT_EQ(whole.steps.size(), 1U);
  EXPECT_EQ(whole.steps[0].step, 4);
  EXPECT_EQ(whole.steps[0].records.size(), 1U);
}

TEST_F(RecorderCalls, WhatIsHeldBackJoinsTheStepThatTakesIt) {
  open();
  const auto loss = [&](const char* name) {
    EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", name, 1), LOCKSTEP_OK);
  };
  loss("local");
  EXPECT_EQ(lockstep_recorder_hold(recorder_, 1), LOCKSTEP_OK);
  loss("local#1");
  loss("other");
  EXPECT_EQ(lockstep_recorder_hold(recorder_, 0), LOCKSTEP_OK);
  loss("reduced");
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_begin_step(recorder_, 4), LOCKSTEP_OK);
  const char *channels[] = {"loss"}, *names[] = {"local#1"}, *new_names[] = {"local"};
  EXPECT_EQ(lockstep_recorder_release(recorder_, 1, channels, names, new_names), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_hold(recorder_, 1), LOCKSTEP_OK);
  loss("local#1");
  EXPECT_EQ(lockstep_recorder_release(recorder_, 0, nullptr, nullptr, nullptr), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  ASSERT_EQ(lockstep_recorder_close(recorder_), LOCKSTEP_OK) << lockstep_recorder_error(recorder_);
  const trace::Trace whole = trace();
  const auto names_of = [&](std::size_t step) {
    std::vector<std::string> found;
    for (const trace::Record& record : whole.steps.at(step).records) found.push_back(record.name);
    return found;
  };
  EXPECT_EQ(names_of(0), (std::vector<std::string>{"local", "reduced"}));
  EXPECT_EQ(names_of(1), (std::vector<std::string>{"local", "other", "local#1"}));
}

TEST_F(RecorderCalls, AllChannelsAreKnownByTheNamesOfTheHeader) {
  open();
  const std::string header = read_file(source_root() / "harness/record/include/lockstep/recorder.h");
  for (const std::string& name : trace::channel_names()) {
    EXPECT_EQ(lockstep_recorder_number(recorder_, name.c_str(), "x", 1), LOCKSTEP_OK) << name;
    EXPECT_NE(header.find('"' + name + '"'), std::string::npos) << "recorder.h does not name the channel " << name;
  }
}

TEST_F(RecorderCalls, OnlyChosenChannelsAndStepsAreKept) {
  const char* channels[] = {"loss"};
  auto some = config();
  some.channels = channels;
  some.channel_count = 1;
  some.every = 2;
  ASSERT_EQ(lockstep_recorder_open(&some, &recorder_), LOCKSTEP_OK);
  for (std::int64_t step = -1; step < 4; ++step) {
    int wants_loss = -1, wants_weight = -1;
    EXPECT_EQ(lockstep_recorder_begin_step(recorder_, step), LOCKSTEP_OK);
    EXPECT_EQ(lockstep_recorder_wants(recorder_, "loss", &wants_loss), LOCKSTEP_OK);
    EXPECT_EQ(lockstep_recorder_wants(recorder_, "weight", &wants_weight), LOCKSTEP_OK);
    EXPECT_EQ(wants_loss, step == -1 || step % 2 == 0);
    EXPECT_EQ(wants_weight, 0);
    EXPECT_EQ(lockstep_recorder_number(recorder_, "loss", "local", 1), LOCKSTEP_OK);
    EXPECT_EQ(tensor(view({2}, data_)), LOCKSTEP_OK);
    EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  }
  ASSERT_EQ(lockstep_recorder_close(recorder_), LOCKSTEP_OK);
  std::vector<std::int64_t> steps;
  for (const trace::Step& step : trace().steps) {
    steps.push_back(step.step);
    EXPECT_EQ(step.records.size(), 1U);
  }
  EXPECT_EQ(steps, (std::vector<std::int64_t>{-1, 0, 2}));
}

}  // namespace
}  // namespace lockstep::test
