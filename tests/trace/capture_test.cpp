// harness/trace/capture and what the recorder keeps of a captured step.
#include "harness/trace/capture.h"

#include <cstring>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/record/rank_recorder.h"

#include "tests/support/support.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;

const std::vector<OperatorCall> kCalls = {
    {.name = "aten::linear",
     .phase = "forward",
     .node = "",
     .parameters = {"fc"},
     .inputs = {"a", "0.5"},
     .outputs = {}},
    {.name = "aten::mm", .phase = "backward", .node = "MmBackward0", .parameters = {}, .inputs = {}, .outputs = {"b"}}};

TEST(Capture, OperatorsAreReadAsTheyWereWritten) {
  const Scratch scratch;
  EXPECT_EQ(read_operators(scratch.write("log", to_lines(kCalls))), kCalls);
  EXPECT_TRUE(read_operators(scratch.write("log", "")).empty());
}

TEST(Capture, DamagedLogsNameTheLine) {
  const Scratch scratch;
  const std::string whole = to_lines(kCalls);
  EXPECT_THROW(read_operators(scratch.path() / "none"), InputError);
  for (const std::string& content : {whole.substr(0, whole.size() - 5), whole + "{}", whole + "[1]"}) {
    try {
      read_operators(scratch.write("log", content));
      ADD_FAILURE() << "not refused: " << content;
    } catch (const DamagedFile& error) {
      EXPECT_NE(error.problem().where.find("log, line "), std::string::npos) << error.what();
    }
  }
}

TEST(Capture, TheRecorderKeepsWhatIsAskedFor) {
  const Scratch scratch;
  record::Recorder recorder(scratch.path() / "rank1.jsonl", 1, 2, Json::object(),
                            {.channels = {Channel::kGradient, Channel::kWeight},
                             .captures = {{.step = 3, .channel = Channel::kGradient, .tensor = "fc*"}}});
  const std::vector<float> values = {1, 2, 3, 4, 5, 6};
  const std::int64_t shape[] = {3, 2}, transposed[] = {1, 3};
  for (const std::int64_t step : {2, 3}) {
    recorder.begin_step(step);
    EXPECT_EQ(recorder.captures(), step == 3);
    const record::TensorView view{
        .data = values.data(), .dtype = DType::kFloat32, .shape = shape, .strides = transposed};
    recorder.tensor(Channel::kGradient, "fc1.weight", view);
    recorder.tensor(Channel::kGradient, "conv.weight", view);
    recorder.tensor(Channel::kWeight, "fc1.weight", view);
    if (recorder.captures()) recorder.operators(kCalls);
    recorder.end_step();
  }
  recorder.finish();
  const auto kept = read_captured(scratch.path(), 3, 1, Channel::kGradient, "fc1.weight");
  ASSERT_TRUE(kept);
  EXPECT_EQ(kept->shape, (std::vector<std::int64_t>{3, 2}));
  const std::vector<float> dense = {1, 4, 2, 5, 3, 6};
  EXPECT_EQ(kept->bytes.size(), sizeof(float) * dense.size());
  EXPECT_EQ(std::memcmp(kept->bytes.data(), dense.data(), kept->bytes.size()), 0);
  EXPECT_FALSE(read_captured(scratch.path(), 3, 1, Channel::kGradient, "conv.weight"));
  EXPECT_FALSE(read_captured(scratch.path(), 3, 1, Channel::kWeight, "fc1.weight"));
  EXPECT_FALSE(read_captured(scratch.path(), 2, 1, Channel::kGradient, "fc1.weight"));
  EXPECT_FALSE(read_captured(scratch.path(), 3, 0, Channel::kGradient, "fc1.weight"));
  EXPECT_EQ(read_operators(captured_operators_path(scratch.path(), 3, 1)), kCalls);
  EXPECT_FALSE(std::filesystem::exists(captured_operators_path(scratch.path(), 2, 1)));
}

}  // namespace
}  // namespace lockstep::trace
