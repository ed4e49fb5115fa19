// lockstep_recorder_tensors: one call for many tensors.
#include <cstdint>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/files.h"

#include "tests/record/fixture.h"

namespace lockstep::test {
namespace {

/// Six tensors, one of them a scalar and one strided, in two channels.
class ManyTensors : public RecorderCalls {
 protected:
  ManyTensors() {
    for (std::size_t i = 0; i < 4; ++i) add(i % 2 == 0 ? "weight" : "optimizer", view(two_, data_ + i));
    lockstep_tensor strided = view(two_, data_ + 1);
    strided.strides = &backwards_;
    add("weight", strided);
    add("loss", {.dtype = LOCKSTEP_FLOAT32, .dimensions = 0, .shape = nullptr, .strides = nullptr, .data = data_ + 2});
  }

  void add(const char* channel, const lockstep_tensor& tensor) {
    names_.push_back(kNames[tensors_.size()]);
    channels_.push_back(channel);
    tensors_.push_back(tensor);
  }

  lockstep_status all() const {
    return lockstep_recorder_tensors(recorder_, tensors_.size(), channels_.data(), names_.data(), tensors_.data());
  }

  std::string close() const {
    EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
    EXPECT_EQ(lockstep_recorder_close(recorder_), LOCKSTEP_OK) << lockstep_recorder_error(recorder_);
    return read_file(folder_ + "/rank0.jsonl");
  }

  static constexpr const char* kNames[] = {"a", "b", "c", "d", "e", "f", "g"};
  const std::vector<std::int64_t> two_ = {2};
  const std::int64_t backwards_ = -1;
  std::vector<const char*> channels_, names_;
  std::vector<lockstep_tensor> tensors_;
};

TEST_F(ManyTensors, TheTraceIsThatOfSingleCalls) {
  open();
  EXPECT_EQ(all(), LOCKSTEP_OK);
  for (float& value : data_) value = -1;  // the library has its copies
  const std::string together = close();
  for (std::size_t i = 0; i < 8; ++i) data_[i] = static_cast<float>(i + 1);
  lockstep_recorder_free(recorder_);
  folder_ += "-single";
  open();
  for (std::size_t i = 0; i < tensors_.size(); ++i)
    EXPECT_EQ(lockstep_recorder_tensor(recorder_, channels_[i], names_[i], &tensors_[i]), LOCKSTEP_OK);
  EXPECT_EQ(together, close());
  EXPECT_NE(together.find("\"f\""), std::string::npos);
}

TEST_F(ManyTensors, AWrongOneIsNamedAndNoneIsRecorded) {
  const std::vector<std::int64_t> negative = {-1};
  add("weight", view(negative, data_));
  open();
  expect_misuse(all(), {"negative extent", "step 3, weight 'g'"});
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  expect_misuse(lockstep_recorder_close(recorder_), {"stays torn"});
  EXPECT_TRUE(trace().steps.at(0).records.empty());
}

TEST_F(ManyTensors, MissingArgumentsAreRefused) {
  EXPECT_EQ(all(), LOCKSTEP_MISUSE);
  open();
  EXPECT_EQ(lockstep_recorder_tensors(recorder_, 0, nullptr, nullptr, nullptr), LOCKSTEP_OK);
  const auto call = [&](auto* channels, auto* names, auto* tensors) {
    return lockstep_recorder_tensors(recorder_, 2, channels, names, tensors);
  };
  const char* const* none = nullptr;
  const lockstep_tensor* no_tensors = nullptr;
  expect_misuse(call(none, names_.data(), tensors_.data()), {"channels is NULL"});
  expect_misuse(call(channels_.data(), none, tensors_.data()), {"names is NULL"});
  expect_misuse(call(channels_.data(), names_.data(), no_tensors), {"tensors is NULL"});
  names_[1] = nullptr;
  expect_misuse(all(), {"name is NULL"});
  channels_[0] = "weights";
  expect_misuse(all(), {"unknown channel 'weights'"});
}

TEST_F(ManyTensors, NeedAStep) {
  const auto whole = config();
  ASSERT_EQ(lockstep_recorder_open(&whole, &recorder_), LOCKSTEP_OK);
  expect_misuse(all(), {"no step has begun"});
}

/// 320 MiB for 128 MiB of room.
lockstep_status record_more_than_there_is_room_for(lockstep_recorder* recorder) {
  constexpr std::int64_t kElements = 4 << 20;
  const std::vector<float> values(kElements, 1.5F);
  const lockstep_tensor tensor = {
      .dtype = LOCKSTEP_FLOAT32, .dimensions = 1, .shape = &kElements, .strides = nullptr, .data = values.data()};
  const std::vector<lockstep_tensor> tensors(20, tensor);
  const std::vector<const char*> channels(20, "weight"), names(20, "w");
  return lockstep_recorder_tensors(recorder, 20, channels.data(), names.data(), tensors.data());
}

TEST_F(ManyTensors, AFullRoomIsWaitedForAndClosedWhole) {
  open();
  ASSERT_EQ(record_more_than_there_is_room_for(recorder_), LOCKSTEP_OK);
  close();
  const trace::Trace whole = trace();
  ASSERT_TRUE(whole.complete);
  ASSERT_EQ(whole.steps.at(0).records.size(), 20U);
  for (const trace::Record& record : whole.steps[0].records) EXPECT_EQ(record.digest, whole.steps[0].records[0].digest);
}

TEST_F(ManyTensors, FreeWithAFullRoomLeavesATornTraceOfWholeSteps) {
  open();
  ASSERT_EQ(record_more_than_there_is_room_for(recorder_), LOCKSTEP_OK);
  EXPECT_EQ(lockstep_recorder_end_step(recorder_), LOCKSTEP_OK);
  lockstep_recorder_free(recorder_);
  recorder_ = nullptr;
  EXPECT_FALSE(trace().complete);
  EXPECT_EQ(trace().steps.at(0).records.size(), 20U);
}

}  // namespace
}  // namespace lockstep::test
