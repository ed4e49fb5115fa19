// A recorder with a thread of its own writes the trace that a plain one writes.
#include "harness/record/staged_recorder.h"

#include <numeric>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <sys/resource.h>

#include "harness/base/files.h"

#include "tests/support/support.h"

namespace lockstep::record {
namespace {

using lockstep::test::Scratch;
using trace::Channel;
using trace::DType;

const std::set<Channel> kChannels = {Channel::kLoss,   Channel::kGradient, Channel::kWeight,
                                     Channel::kLedger, Channel::kSamples,  Channel::kCollective};

std::vector<float> numbers(std::size_t count, float first) {
  std::vector<float> values(count);
  std::iota(values.begin(), values.end(), first);
  return values;
}

/// Steps −1 to 4 with tensors of all sizes, one of them strided; each is destroyed as soon as the call ends.
template <typename TakeTensors, typename AnyRecorder>
void record_steps(AnyRecorder& to, TakeTensors take) {
  for (std::int64_t step = -1; step < 5; ++step) {
    to.begin_step(step);
    const std::vector<std::int64_t> ids = {step, step + 7};
    to.integers(Channel::kSamples, "ids", ids);
    to.number(Channel::kLoss, "local", 0.5 * static_cast<double>(step));
    {
      auto data = numbers(60'000, static_cast<float>(step));
      const std::int64_t large[] = {200, 300}, back[] = {1, 200}, small[] = {3}, none[] = {0};
      std::vector<NamedTensor> tensors = {{Channel::kGradient, "large", {data.data(), DType::kFloat32, large, {}}},
                                          {Channel::kWeight, "turned", {data.data(), DType::kFloat32, large, back}},
                                          {Channel::kWeight, "empty", {nullptr, DType::kInt64, none, {}}},
                                          {Channel::kLoss, "scalar", {data.data() + 5, DType::kFloat32, {}, {}}},
                                          {Channel::kRng, "not kept", {data.data(), DType::kFloat32, small, {}}}};
      for (int i = 0; i < 600; ++i)
        tensors.push_back({Channel::kWeight, "w" + std::to_string(i), {data.data() + i, DType::kFloat32, small, {}}});
      take(tensors);
      std::fill(data.begin(), data.end(), -1.0F);
    }
    to.integer(Channel::kLedger, "updates", step + 1);
    to.text(Channel::kCollective, "0", "allreduce Float[4] SUM");
    if (step == 2) {
      to.drop_step();
    } else {
      to.end_step();
    }
  }
  to.finish();
}

std::string staged_trace(std::size_t staging_bytes, std::int64_t every, bool one_by_one) {
  const Scratch scratch;
  StagedRecorder recorder(scratch.path() / "f", 1, 4, {{"a", 1}}, {.channels = kChannels, .every = every},
                          staging_bytes);
  record_steps(recorder, [&](const std::vector<NamedTensor>& tensors) {
    if (!one_by_one) return recorder.tensors(tensors);
    for (const NamedTensor& tensor : tensors) recorder.tensors({tensor});
  });
  return read_file(scratch.path() / "f");
}

std::string plain_trace(std::int64_t every) {
  const Scratch scratch;
  Recorder recorder(scratch.path() / "f", 1, 4, {{"a", 1}}, {.channels = kChannels, .every = every});
  record_steps(recorder, [&](const std::vector<NamedTensor>& tensors) {
    for (const NamedTensor& tensor : tensors) {
      trace::Record record = recorder.observe(tensor.channel, tensor.name, tensor.view);
      if (tensor.name == "scalar") record.number = *static_cast<const float*>(tensor.view.data);
      recorder.add(record);
    }
  });
  return read_file(scratch.path() / "f");
}

TEST(StagedRecorder, ItsTraceIsThePlainOneByteForByte) {
  const std::string plain = plain_trace(1);
  EXPECT_GT(plain.size(), 100'000U);
  EXPECT_EQ(staged_trace(StagedRecorder::kStagingBytes, 1, false), plain);
  EXPECT_EQ(staged_trace(StagedRecorder::kStagingBytes, 1, true), plain);
  EXPECT_EQ(staged_trace(StagedRecorder::kStagingBytes, 2, false), plain_trace(2));
}

TEST(StagedRecorder, LittleRoomChangesNothing) {
  const std::string plain = plain_trace(1);
  EXPECT_EQ(staged_trace(4096, 1, false), plain);     // the large tensors have no room at all
  EXPECT_EQ(staged_trace(300'000, 1, false), plain);  // one of them has
}

std::int64_t page_faults() {
  rusage usage = {};
  ::getrusage(RUSAGE_THREAD, &usage);
  return usage.ru_minflt;
}

TEST(StagedRecorder, LaterStepsTouchNoNewPages) {
  const Scratch scratch;
  StagedRecorder recorder(scratch.path() / "f", 0, 1, {}, {.channels = kChannels});
  const auto data = numbers(1 << 20, 0);
  const std::int64_t shape[] = {1 << 20};  // 4 MiB: 1024 pages
  std::int64_t faults = 0;
  for (std::int64_t step = 0; step < 12; ++step) {
    recorder.begin_step(step);
    const std::int64_t before = page_faults();
    recorder.tensors({{Channel::kWeight, "w", {data.data(), DType::kFloat32, shape, {}}}});
    if (step >= 4) faults += page_faults() - before;
    recorder.end_step();
    const std::string line = "\"step\":" + std::to_string(step);
    while (read_file(scratch.path() / "f").find(line) == std::string::npos) {
    }
  }
  EXPECT_LT(faults, 8 * 100);
  recorder.finish();
}

}  // namespace
}  // namespace lockstep::record
