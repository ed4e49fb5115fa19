#include "harness/trace/line.h"

#include <gtest/gtest.h>

#include "harness/base/hash.h"
#include "harness/base/text.h"

#include "tests/trace/samples.h"

namespace lockstep::trace {
namespace {

std::string without_newline(std::string line) {
  EXPECT_EQ(line.back(), '\n');
  line.pop_back();
  return line;
}

TEST(Line, SealIsTheChecksumOfTheBytesBefore) {
  std::string line = "{\"a\":1";
  seal(line);
  EXPECT_EQ(line, "{\"a\":1,\"check\":\"" + to_hex(checksum("{\"a\":1")) + "\"}\n");
  EXPECT_TRUE(is_sealed(without_newline(line)));
}

TEST(Line, EveryChangeBreaksTheSeal) {
  std::string line = "{\"a\":1";
  seal(line);
  line.pop_back();
  for (std::size_t at = 0; at < line.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string other = line;
      other[at] = static_cast<char>(other[at] ^ (1 << bit));
      EXPECT_FALSE(is_sealed(other)) << other;
    }
    EXPECT_FALSE(is_sealed(std::string_view(line).substr(0, at)));
    EXPECT_FALSE(is_sealed(std::string_view(line).substr(at + 1)));
  }
  EXPECT_FALSE(is_sealed(line + " "));
}

TEST(Line, StepRoundTrips) {
  for (const Step& step : test::sample_steps()) {
    const std::string line = without_newline(line_of(step));
    EXPECT_TRUE(is_sealed(line));
    EXPECT_EQ(line.find('\n'), std::string::npos);
    test::expect_same({step_from(Json::parse(line))}, {step});
  }
}

TEST(Line, RowsRoundTrip) {
  Record record{.channel = Channel::kInput, .name = "x", .dtype = DType::kFloat32, .shape = {3, 4}};
  record.rows = {0, 1, 0xfedcba9876543210};
  EXPECT_EQ(step_from(Json::parse(line_of({.step = 0, .records = {record}}))).records.at(0).rows, record.rows);
}

TEST(Line, StepLooksLikeTheFormat) {
  Record record{.channel = Channel::kLoss, .name = "reduced", .dtype = DType::kFloat64, .digest = {.low = 0xab}};
  record.number = 0.5;
  Record ids{.channel = Channel::kSamples, .name = "ids", .dtype = DType::kInt64, .shape = {2}, .integers = {4, -2}};
  std::string expected =
      R"({"step":3,"samples":[{"name":"ids","digest":"00000000000000000000000000000000","dtype":"int64","shape":[2],)"
      R"("integers":[4,-2]}],"loss":[{"name":"reduced","digest":"000000000000000000000000000000ab",)"
      R"("dtype":"float64","shape":[],"bits":"3fe0000000000000","decimal":"0.5"}])";
  seal(expected);
  EXPECT_EQ(line_of({.step = 3, .records = {ids, record}}), expected);
}

TEST(Line, StepWithoutRecordsRoundTrips) {
  const Step step{.step = 4, .records = {}};
  EXPECT_EQ(step_from(Json::parse(line_of(step))), step);
}

// A program may name its tensors with any bytes; recording must not end its training.
TEST(Line, BytesThatAreNoUtf8DoNotThrow) {
  Record record{.channel = Channel::kWeight, .name = "\xff\xfe", .dtype = DType::kUInt8, .shape = {2}};
  record.text = "\xc3";
  const std::string line = without_newline(line_of({.step = 0, .records = {record}}));
  EXPECT_TRUE(is_sealed(line));
  EXPECT_EQ(step_from(Json::parse(line)).records.at(0).name, "\ufffd\ufffd");
  EXPECT_TRUE(is_sealed(without_newline(line_of_header({{"user", "\xff"}}))));
}

TEST(Line, EndCountsAndHashes) {
  std::string expected = R"({"end":true,"lines":12,"sha256":"ab")";
  seal(expected);
  EXPECT_EQ(line_of_end(12, "ab"), expected);
}

TEST(Line, StepRefusesWhatItDoesNotKnow) {
  const Json whole = Json::parse(line_of(test::sample_steps()[0]));
  EXPECT_NO_THROW(step_from(whole));
  const auto changed = [&whole](const char* pointer, const Json& value) {
    Json other = whole;
    other[Json::json_pointer(pointer)] = value;
    return other;
  };
  EXPECT_THROW(step_from(changed("/weights", Json::array())), std::exception);
  EXPECT_THROW(step_from(changed("/samples/0/dtype", "int65")), std::exception);
  EXPECT_THROW(step_from(changed("/samples/0/digest", "00")), std::exception);
  EXPECT_THROW(step_from(changed("/samples/0/shape", "3")), std::exception);
  EXPECT_THROW(step_from(changed("/samples/0/name", 3)), std::exception);
  EXPECT_THROW(step_from(changed("/weight/0/sketch", std::string(511, '0'))), std::exception);
  EXPECT_THROW(step_from(changed("/weight/0/norm", "0")), std::exception);
  EXPECT_THROW(step_from(changed("/loss/0/bits", 1.5)), std::exception);
  EXPECT_THROW(step_from(changed("/samples", 3)), std::exception);
  EXPECT_THROW(step_from(changed("/step", "x")), std::exception);
  for (const char* key : {"name", "digest", "dtype", "shape"}) {
    Json other = whole;
    other["samples"][0].erase(key);
    EXPECT_THROW(step_from(other), std::exception) << key;
  }
}

}  // namespace
}  // namespace lockstep::trace
