#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <lockstep/recorder.h>

#include "harness/trace/reader.h"

#include "tests/support/support.h"

namespace lockstep::test {

/// One recorder of the library, and what its calls do.
class RecorderCalls : public ::testing::Test {
 protected:
  ~RecorderCalls() override { lockstep_recorder_free(recorder_); }

  lockstep_recorder_config config() const {
    return {.size = sizeof(lockstep_recorder_config),
            .folder = folder_.c_str(),
            .rank = 0,
            .world_size = 1,
            .header = nullptr,
            .channels = nullptr,
            .channel_count = 0,
            .every = 0};
  }

  void open() {
    const lockstep_recorder_config whole = config();
    ASSERT_EQ(lockstep_recorder_open(&whole, &recorder_), LOCKSTEP_OK) << lockstep_recorder_error(nullptr);
    ASSERT_EQ(lockstep_recorder_begin_step(recorder_, 3), LOCKSTEP_OK);
  }

  /// Opening fails, says all of these, and leaves no file.
  void expect_refused(const lockstep_recorder_config& wrong, const std::vector<std::string>& parts) {
    ASSERT_EQ(lockstep_recorder_open(&wrong, &recorder_), LOCKSTEP_MISUSE);
    EXPECT_EQ(recorder_, nullptr);
    expect_says(lockstep_recorder_error(nullptr), parts);
    EXPECT_FALSE(std::filesystem::exists(folder_));
  }

  void expect_misuse(lockstep_status status, const std::vector<std::string>& parts) const {
    EXPECT_EQ(status, LOCKSTEP_MISUSE);
    expect_says(lockstep_recorder_error(recorder_), parts);
  }

  static void expect_says(const std::string& text, const std::vector<std::string>& parts) {
    for (const std::string& part : parts) EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }

  lockstep_status tensor(const lockstep_tensor& tensor) const {
    return lockstep_recorder_tensor(recorder_, "weight", "w", &tensor);
  }
  static lockstep_tensor view(const std::vector<std::int64_t>& shape, const void* data) {
    return {
        .dtype = LOCKSTEP_FLOAT32, .dimensions = shape.size(), .shape = shape.data(), .strides = nullptr, .data = data};
  }

  trace::Trace trace() const { return trace::read_trace(folder_ + "/rank0.jsonl"); }

  Scratch scratch_;
  std::string folder_ = (scratch_.path() / "run").string();
  lockstep_recorder* recorder_ = nullptr;
  float data_[8] = {1, 2, 3, 4, 5, 6, 7, 8};
};

}  // namespace lockstep::test
