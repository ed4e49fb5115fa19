// A trace is evidence only when it is whole: every truncation and every flipped bit of a small one.
#include <algorithm>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/trace/reader.h"

#include "tests/support/support.h"
#include "tests/trace/patient.h"
#include "tests/trace/samples.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;

/// Three lines of little else than the format, so that every bit can be tried.
std::string small_trace(const Scratch& scratch) {
  Record record{.channel = Channel::kLoss, .name = "J*", .dtype = DType::kFloat64};
  record.number = -0.0;
  record.norm = 0.0;
  return test::write_sample(scratch.path() / "small", {{"rank", 0}, {"world_size", 1}},
                            {{.step = 5, .records = {record}}});
}

std::size_t line_at(const std::string& text, std::size_t byte) {
  return 1 + static_cast<std::size_t>(std::count(text.begin(), text.begin() + static_cast<long>(byte), '\n'));
}

TEST(Damage, NoTruncationReadsAsComplete) {
  const Scratch scratch;
  const std::string whole = test::write_sample(scratch.path() / "whole");
  ASSERT_TRUE(read_trace(scratch.path() / "whole").complete);
  const auto file = scratch.write("torn", whole);
  for (std::size_t size = whole.size(); size-- > 0;) {
    std::filesystem::resize_file(file, size);
    for (const Damage damage : {Damage::kRefuse, Damage::kReport}) {
      const Trace trace = read_trace(file, damage);
      ASSERT_FALSE(trace.complete) << size;
      ASSERT_FALSE(trace.torn.empty()) << size;
      const std::size_t lines = line_at(whole, size) - 1;  // whole ones
      ASSERT_EQ(trace.steps.size(), lines == 0 ? 0 : lines - 1) << size;
      ASSERT_TRUE(trace.damage.empty()) << size;
    }
  }
}

TEST(Damage, EveryFlippedBitIsNamedByItsLine) {
  const Scratch scratch;
  const std::string whole = small_trace(scratch);
  test::Patient file(scratch.path() / "flipped", whole);
  ASSERT_EQ(line_at(whole, whole.size() - 1), 3U);
  for (std::size_t at = 0; at < whole.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      file.flip(at, bit);
      try {
        const Trace trace = read_trace(file.path());
        ASSERT_FALSE(trace.complete) << "byte " << at << " bit " << bit;
        ASSERT_EQ(at, whole.size() - 1) << "only the last newline may turn damage into a tear";
      } catch (const DamagedFile& error) {
        ASSERT_EQ(error.problem().where, file.path().string() + ", line " + std::to_string(line_at(whole, at))) << at;
      }
    }
    file.heal(at);
  }
}

TEST(Damage, EveryByteOfEveryKindOfRecordIsGuarded) {
  const Scratch scratch;
  const std::string whole = test::write_sample(scratch.path() / "whole");
  test::Patient file(scratch.path() / "flipped", whole);
  for (std::size_t at = 0; at < whole.size() - 1; ++at) {
    file.flip(at, static_cast<int>(at % 8));
    try {
      read_trace(file.path());
      FAIL() << "byte " << at;
    } catch (const DamagedFile& error) {
      ASSERT_EQ(error.problem().where, file.path().string() + ", line " + std::to_string(line_at(whole, at))) << at;
    }
    file.heal(at);
  }
}

TEST(Damage, ReportedDamageIsNeverSilent) {
  const Scratch scratch;
  const std::string whole = small_trace(scratch);
  test::Patient file(scratch.path() / "flipped", whole);
  std::size_t read = 0;
  for (std::size_t at = 0; at < whole.size() - 1; ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      file.flip(at, bit);
      try {
        const Trace trace = read_trace(file.path(), Damage::kReport);
        ++read;
        ASSERT_FALSE(trace.damage.empty()) << "byte " << at << " bit " << bit;
        ASSERT_EQ(trace.damage[0].find("line " + std::to_string(line_at(whole, at)) + ": "), 0U) << trace.damage[0];
      } catch (const Error&) {
      }
    }
    file.heal(at);
  }
  EXPECT_GT(read, 500U);
}

TEST(Damage, ReportKeepsTheDamagedRecord) {
  const Scratch scratch;
  std::string text = small_trace(scratch);
  const std::size_t digest = text.find("\"digest\":\"") + 10;
  text[digest] = '1';
  const Trace trace = read_trace(scratch.write("f", text), Damage::kReport);
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.damage, (std::vector<std::string>{"line 2: its checksum does not match",
                                                    "line 3: its SHA-256 does not match the lines before"}));
  EXPECT_EQ(trace.steps.at(0).records.at(0).digest.high, std::uint64_t{1} << 60);
}

TEST(Damage, ReportRefusesALineThatCannotBeUnderstood) {
  const Scratch scratch;
  std::string text = small_trace(scratch);
  text[text.find("{\"step\"")] = '[';
  const auto file = scratch.write("f", text);
  try {
    read_trace(file, Damage::kReport);
    FAIL() << "it was read";
  } catch (const DamagedFile& error) {
    EXPECT_EQ(error.problem().where, file.string() + ", line 2");
  }
}

}  // namespace
}  // namespace lockstep::trace
