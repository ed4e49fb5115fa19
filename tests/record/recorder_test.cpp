// What is recorded of a tensor, and when.
#include <cmath>
#include <cstring>
#include <numeric>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/record/rank_recorder.h"
#include "harness/trace/reader.h"

#include "tests/support/allocation.h"
#include "tests/support/support.h"

namespace lockstep::record {
namespace {

using lockstep::test::Scratch;
using trace::Channel;
using trace::DType;
using trace::Record;
using Shape = std::vector<std::int64_t>;

/// Observes `data` from `offset` on.
template <typename T>
Record observed(DType dtype, const std::vector<T>& data, const Shape& shape, const Shape& strides = {},
                std::size_t offset = 0) {
  return observe(Channel::kWeight, "x",
                 {.data = data.data() + offset, .dtype = dtype, .shape = shape, .strides = strides});
}
Record floats(const std::vector<float>& data, const Shape& shape, const Shape& strides = {}, std::size_t offset = 0) {
  return observed(DType::kFloat32, data, shape, strides, offset);
}

std::vector<float> counting(std::size_t size) {
  std::vector<float> data(size);
  std::iota(data.begin(), data.end(), 1.0F);
  return data;
}

/// The trace that `fill` records.
template <typename Fill>
std::vector<trace::Step> recorded(const Selection& selection, Fill fill) {
  const Scratch scratch;
  Recorder recorder(scratch.path() / "f", 1, 4, {{"scenario", "s"}}, selection);
  fill(recorder);
  recorder.finish();
  const trace::Trace trace = trace::read_trace(scratch.path() / "f");
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.rank, 1);
  EXPECT_EQ(trace.world_size, 4);
  EXPECT_EQ(trace.header["scenario"], "s");
  return trace.steps;
}

const Selection kAll{
    .channels = {Channel::kSamples, Channel::kLoss, Channel::kGradient, Channel::kWeight, Channel::kCollective}};

TEST(Observe, TransposeEqualsItsDenseCopy) {
  EXPECT_EQ(floats({1, 2, 3, 4, 5, 6}, {3, 2}, {1, 3}), floats({1, 4, 2, 5, 3, 6}, {3, 2}));
  EXPECT_NE(floats({1, 2, 3, 4, 5, 6}, {3, 2}, {1, 3}).digest, floats({1, 2, 3, 4, 5, 6}, {3, 2}).digest);
}

TEST(Observe, PermutationOfThreeDimensionsEqualsItsDenseCopy) {
  const std::vector<float> data = counting(24);  // [2, 3, 4] seen as [4, 2, 3]
  std::vector<float> dense;
  for (std::size_t k = 0; k < 4; ++k) {
    for (std::size_t i = 0; i < 2; ++i) {
      for (std::size_t j = 0; j < 3; ++j) dense.push_back(data[i * 12 + j * 4 + k]);
    }
  }
  EXPECT_EQ(floats(data, {4, 2, 3}, {1, 12, 4}), floats(dense, {4, 2, 3}));
}

TEST(Observe, ExpandedEqualsItsDenseCopy) {
  EXPECT_EQ(floats({1, 2, 3}, {2, 3}, {0, 1}), floats({1, 2, 3, 1, 2, 3}, {2, 3}));
  EXPECT_EQ(floats({1, 2}, {2, 3}, {1, 0}), floats({1, 1, 1, 2, 2, 2}, {2, 3}));
  EXPECT_EQ(floats({7}, {2, 2}, {0, 0}), floats({7, 7, 7, 7}, {2, 2}));
}

TEST(Observe, SliceEqualsItsDenseCopy) {
  const std::vector<float> data = counting(12);                                      // [3, 4]
  EXPECT_EQ(floats(data, {3, 2}, {4, 1}, 1), floats({2, 3, 6, 7, 10, 11}, {3, 2}));  // x[:, 1:3]
  EXPECT_EQ(floats(data, {3}, {4}, 2), floats({3, 7, 11}, {3}));                     // x[:, 2]
  EXPECT_EQ(floats(data, {6}, {2}), floats({1, 3, 5, 7, 9, 11}, {6}));               // x.flatten()[::2]
  EXPECT_EQ(floats(data, {2, 4}, {4, 1}, 4), floats({5, 6, 7, 8, 9, 10, 11, 12}, {2, 4}));
}

TEST(Observe, StridesOfDimensionsOfOneDoNotMatter) {
  EXPECT_EQ(floats({1, 2, 3}, {1, 3, 1}, {99, 1, 77}), floats({1, 2, 3}, {1, 3, 1}));
}

TEST(Observe, DenseViewsAreNotCopied) {
  const std::vector<float> data = counting(10'000);
  test::forget_allocations();
  floats(data, {100, 1, 100}, {100, 7, 1});
  EXPECT_LT(test::largest_allocation(), data.size());
  floats(data, {100, 1, 100}, {1, 7, 100});
  EXPECT_GE(test::largest_allocation(), data.size() * sizeof(float));
}

TEST(Observe, ElementsOfEverySizeAreGathered) {
  EXPECT_EQ(observed(DType::kUInt8, std::vector<std::uint8_t>{1, 2, 3, 4}, {2, 2}, {1, 2}),
            observed(DType::kUInt8, std::vector<std::uint8_t>{1, 3, 2, 4}, {2, 2}));
  EXPECT_EQ(observed(DType::kBFloat16, std::vector<std::uint16_t>{1, 2, 3, 4}, {2, 2}, {1, 2}),
            observed(DType::kBFloat16, std::vector<std::uint16_t>{1, 3, 2, 4}, {2, 2}));
  EXPECT_EQ(observed(DType::kFloat64, std::vector<double>{1, 2, 3, 4}, {2, 2}, {1, 2}),
            observed(DType::kFloat64, std::vector<double>{1, 3, 2, 4}, {2, 2}));
}

TEST(Observe, NoElementsNeedNoMemory) {
  const auto empty = [](const Shape& shape, const Shape& strides) {
    return observe(Channel::kWeight, "x",
                   {.data = nullptr, .dtype = DType::kFloat32, .shape = shape, .strides = strides});
  };
  for (const Shape& shape : {Shape{0}, Shape{0, 3}, Shape{3, 0}, Shape{2, 0, 4}}) {
    EXPECT_EQ(empty(shape, Shape(shape.size(), 1)), empty(shape, {}));
    EXPECT_EQ(empty(shape, {}).digest, trace::digest_of(DType::kFloat32, shape, {}));
    EXPECT_EQ(empty(shape, {}).norm, 0.0);
  }
}

TEST(Observe, ScalarHasNoDimensions) {
  const Record scalar = floats({2.5F}, {});
  EXPECT_TRUE(scalar.shape.empty());
  EXPECT_EQ(scalar.norm, 2.5);
}

TEST(Observe, FloatingTensorsHaveNormMaximumAndSketch) {
  const Record record = floats({3, -4}, {2});
  EXPECT_EQ(record.norm, 5.0);
  EXPECT_EQ(record.max_abs, 4.0);
  const std::vector<float> data = {3, -4};
  EXPECT_EQ(record.sketch, trace::sketch_of(DType::kFloat32, std::as_bytes(std::span(data))));
  EXPECT_EQ(record.name, "x");
  EXPECT_EQ(record.channel, Channel::kWeight);
}

TEST(Observe, OtherTensorsHaveADigestOnly) {
  const Record record = observed(DType::kInt64, std::vector<std::int64_t>{3, -4}, {2});
  EXPECT_FALSE(record.norm || record.max_abs || record.sketch);
  EXPECT_TRUE(record.integers.empty());
}

TEST(Observe, InputsHaveADigestOfEachSample) {
  const std::vector<std::int64_t> data = {1, 2, 3, 4, 1, 2};
  const Shape shape = {3, 2};
  const TensorView view{.data = data.data(), .dtype = DType::kInt64, .shape = shape, .strides = {}};
  const Record input = observe(Channel::kInput, "x", view);
  ASSERT_EQ(input.rows.size(), 3U);
  EXPECT_EQ(input.rows[0], input.rows[2]);
  EXPECT_NE(input.rows[0], input.rows[1]);
  EXPECT_TRUE(observe(Channel::kWeight, "x", view).rows.empty());
}

TEST(Observe, RefusesStridesOfAnotherRank) {
  EXPECT_THROW(floats({1, 2, 3, 4}, {2, 2}, {1}), InternalError);
  EXPECT_THROW(floats({1, 2, 3, 4}, {4}, {2, 1}), InternalError);
}

TEST(Recorder, RecordsInTheOrderOfChannelsThenOfTheTraining) {
  const auto steps = recorded(kAll, [](Recorder& r) {
    r.begin_step(0);
    r.integer(Channel::kWeight, "b", 1);
    r.integer(Channel::kWeight, "a", 2);
    r.integer(Channel::kSamples, "late", 3);
    r.integer(Channel::kCollective, "c", 4);
    r.integer(Channel::kSamples, "later", 5);
    r.end_step();
  });
  std::vector<std::string> names;
  for (const Record& record : steps.at(0).records) names.push_back(record.name);
  EXPECT_EQ(names, (std::vector<std::string>{"late", "later", "b", "a", "c"}));
}

TEST(Recorder, KeepsOnlySelectedChannels) {
  const Selection selection{.channels = {Channel::kLoss}};
  const auto steps = recorded(selection, [](Recorder& r) {
    r.begin_step(0);
    EXPECT_TRUE(r.wants(Channel::kLoss));
    EXPECT_FALSE(r.wants(Channel::kWeight));
    const std::int64_t ids[] = {1};
    const float x = 1;
    r.number(Channel::kLoss, "kept", 1);
    r.number(Channel::kWeight, "n", 1);
    r.integer(Channel::kWeight, "i", 1);
    r.integers(Channel::kSamples, "is", ids);
    r.text(Channel::kCollective, "t", "x");
    r.tensor(Channel::kWeight, "x", {.data = &x, .shape = {}, .strides = {}});
    r.add({.channel = Channel::kWeight, .name = "added"});
    r.end_step();
  });
  ASSERT_EQ(steps.at(0).records.size(), 1U);
  EXPECT_EQ(steps[0].records[0].name, "kept");
}

TEST(Recorder, KeepsTheInitialStateEverySoManyStepsAndTheLast) {
  Selection selection = kAll;
  selection.every = 3;
  selection.last = 7;
  const auto steps = recorded(selection, [](Recorder& r) {
    for (std::int64_t step = -1; step < 8; ++step) {
      r.begin_step(step);
      EXPECT_EQ(r.wants(Channel::kWeight), step == -1 || step == 7 || step % 3 == 0) << step;
      r.integer(Channel::kWeight, "step", step);
      r.end_step();
    }
  });
  std::vector<std::int64_t> kept;
  for (const trace::Step& step : steps) {
    kept.push_back(step.step);
    ASSERT_EQ(step.records.size(), 1U);
    EXPECT_EQ(step.records[0].integers, std::vector{step.step});
  }
  EXPECT_EQ(kept, (std::vector<std::int64_t>{-1, 0, 3, 6, 7}));
}

TEST(Recorder, ScalarsTextAndIdsCarryTheirValueAndItsDigest) {
  const auto steps = recorded(kAll, [](Recorder& r) {
    const std::int64_t ids[] = {5, -6};
    r.begin_step(0);
    r.integers(Channel::kSamples, "ids", ids);
    r.integers(Channel::kSamples, "none", {});
    r.number(Channel::kLoss, "number", -0.0);
    r.integer(Channel::kLoss, "integer", 9);
    r.text(Channel::kCollective, "text", "all\u00e9\n");
    r.text(Channel::kCollective, "empty", "");
    r.end_step();
  });
  const trace::Step& step = steps.at(0);
  const auto digest = [](DType dtype, const Shape& shape, const void* data, std::size_t bytes) {
    return trace::digest_of(dtype, shape, {static_cast<const std::byte*>(data), bytes});
  };
  const std::int64_t ids[] = {5, -6}, nine = 9;
  const double zero = -0.0;
  EXPECT_EQ(step.find(Channel::kSamples, "ids")->integers, (std::vector<std::int64_t>{5, -6}));
  EXPECT_EQ(step.find(Channel::kSamples, "ids")->digest, digest(DType::kInt64, {2}, ids, 16));
  EXPECT_EQ(step.find(Channel::kSamples, "none")->shape, Shape{0});
  EXPECT_TRUE(std::signbit(*step.find(Channel::kLoss, "number")->number));
  EXPECT_EQ(step.find(Channel::kLoss, "number")->digest, digest(DType::kFloat64, {}, &zero, 8));
  EXPECT_EQ(step.find(Channel::kLoss, "integer")->integers, Shape{9});
  EXPECT_EQ(step.find(Channel::kLoss, "integer")->digest, digest(DType::kInt64, {}, &nine, 8));
  EXPECT_EQ(step.find(Channel::kCollective, "text")->text, "all\u00e9\n");
  EXPECT_EQ(step.find(Channel::kCollective, "text")->shape, Shape{6});
  EXPECT_EQ(step.find(Channel::kCollective, "empty")->text, "");
}

TEST(Recorder, ForgetsTheStepBefore) {
  const auto steps = recorded(kAll, [](Recorder& r) {
    for (const std::int64_t step : {0, 1}) {
      r.begin_step(step);
      r.integer(Channel::kWeight, "x", step);
      r.end_step();
    }
  });
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].records.size(), 1U);
}

}  // namespace
}  // namespace lockstep::record
