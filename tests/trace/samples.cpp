#include "tests/trace/samples.h"

#include <bit>
#include <limits>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/trace/line.h"
#include "harness/trace/writer.h"

namespace lockstep::trace::test {
namespace {

using Bits = std::optional<std::uint64_t>;

Bits bits(std::optional<double> value) { return value ? Bits(std::bit_cast<std::uint64_t>(*value)) : std::nullopt; }

void expect_same_record(const Record& left, const Record& right) {
  SCOPED_TRACE(left.name);
  EXPECT_EQ(left.channel, right.channel);
  EXPECT_EQ(left.name, right.name);
  EXPECT_EQ(left.dtype, right.dtype);
  EXPECT_EQ(left.shape, right.shape);
  EXPECT_EQ(left.digest, right.digest);
  EXPECT_EQ(bits(left.norm), bits(right.norm));
  EXPECT_EQ(bits(left.max_abs), bits(right.max_abs));
  EXPECT_EQ(left.integers, right.integers);
  EXPECT_EQ(bits(left.number), bits(right.number));
  EXPECT_EQ(left.text, right.text);
  ASSERT_EQ(left.sketch.has_value(), right.sketch.has_value());
  if (!left.sketch) return;
  EXPECT_EQ(bits(left.sketch->norm), bits(right.sketch->norm));
  EXPECT_EQ(bits(left.sketch->max_abs), bits(right.sketch->max_abs));
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) {
    EXPECT_EQ(bits(left.sketch->buckets[i]), bits(right.sketch->buckets[i])) << i;
  }
}

Record floating(Channel channel, std::string name, double value) {
  Record record{.channel = channel, .name = std::move(name), .dtype = DType::kFloat32, .shape = {2, 3}};
  record.digest = {.high = 0xfedcba9876543210, .low = 1};
  record.norm = value;
  record.max_abs = -value;
  record.sketch = Sketch{.norm = value, .max_abs = -value};
  for (std::size_t i = 0; i < Sketch::kBuckets; ++i) record.sketch->buckets[i] = i % 2 == 0 ? value : -value;
  return record;
}

Record number(std::string name, double value) {
  Record record{.channel = Channel::kLoss, .name = std::move(name), .dtype = DType::kFloat64};
  record.digest = {.high = 2, .low = 3};
  record.number = value;
  return record;
}

}  // namespace

std::vector<Step> sample_steps() {
  using Limits = std::numeric_limits<double>;
  Record ids{.channel = Channel::kSamples, .name = "ids", .dtype = DType::kInt64, .shape = {3}};
  ids.integers = {std::numeric_limits<std::int64_t>::min(), 0, std::numeric_limits<std::int64_t>::max()};
  Record text{.channel = Channel::kCollective, .name = "J*", .dtype = DType::kUInt8, .shape = {4}};
  text.text = std::string("a\0\n\"\\\x1f\x7f", 7) + "\u00e9\u221e\U0001f600";
  Record empty{.channel = Channel::kBuffer, .name = "", .dtype = DType::kBool, .shape = {0, 5}};
  return {{.step = kInitialStep,
           .records = {ids, number("nan", Limits::quiet_NaN()), number("zero", -0.0),
                       floating(Channel::kWeight, "layer.\"0\".\\\n\u00e9", 1.0 / 3)}},
          {.step = 7,
           .records = {number("small", Limits::denorm_min()), number("large", -Limits::infinity()),
                       floating(Channel::kGradient, "nan", std::bit_cast<double>(0xfff8000000000123U)),
                       floating(Channel::kWeight, "zero", -0.0), empty, text}}};
}

Json sample_header(std::int64_t rank, std::int64_t world_size) {
  return {{"rank", rank}, {"world_size", world_size}, {"scenario", "s\"\u00e9"}, {"environment", {{"threads", 1}}}};
}

std::string write_sample(const std::filesystem::path& file, const Json& header, const std::vector<Step>& steps) {
  Writer writer(file, header);
  for (const Step& step : steps) writer.write(line_of(step));
  writer.finish();
  return read_file(file);
}

void expect_same(const std::vector<Step>& left, const std::vector<Step>& right) {
  ASSERT_EQ(left.size(), right.size());
  for (std::size_t i = 0; i < left.size(); ++i) {
    EXPECT_EQ(left[i].step, right[i].step);
    ASSERT_EQ(left[i].records.size(), right[i].records.size());
    for (std::size_t j = 0; j < left[i].records.size(); ++j)
      expect_same_record(left[i].records[j], right[i].records[j]);
  }
}

}  // namespace lockstep::trace::test
