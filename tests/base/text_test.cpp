#include "harness/base/text.h"

#include <limits>

#include <gtest/gtest.h>

namespace lockstep {
namespace {

const std::vector<std::string> kNames = {"momentum", "weight_decay", "nesterov", "lr"};

std::string base64(std::vector<std::uint64_t> values) {
  std::string text = "x";
  append_base64(text, values);
  return text.substr(1);
}

TEST(Printable, KeepsTextAndEscapesWhatActs) {
  EXPECT_EQ(printable(""), "");
  EXPECT_EQ(printable("gr\u00fcn \u20ac \U0001F600 a:b ::c"), "gr\u00fcn \u20ac \U0001F600 a:b ::c");
  EXPECT_EQ(printable("a\n::error::b\r\n\tc"), "a\\n::error::b\\r\\n\\tc");
  EXPECT_EQ(printable(std::string("a\x1b[31m\0b\x7f", 9)), "a\\x1b[31m\\x00b\\x7f");
  EXPECT_EQ(printable("a\xff\xfe"), "a\ufffd\ufffd");
  EXPECT_EQ(printable("a\u0085b\u009b31m"), "a\\u0085b\\u009b31m") << "C1";
  EXPECT_EQ(printable("a\u202eb\u2066c\u2028d\u200fe\ufeff"), "a\\u202eb\\u2066c\\u2028d\\u200fe\\ufeff")
      << "bidi, lines";
}

/// Azure's runner finds "##vso[" anywhere in a line, GitHub's "##[" likewise.
TEST(Printable, BreaksUpWhatARunnerTakesForACommand) {
  EXPECT_EQ(printable("x ##vso[task.complete]"), "x #\\x23vso[task.complete]");
  EXPECT_EQ(printable("##teamcity[a] ##[b] ###[c]"), "#\\x23teamcity[a] #\\x23[b] ##\\x23[c]");
  EXPECT_EQ(printable("## heading, #1"), "## heading, #1");
}

TEST(Base64, DropsZerosAtTheEnd) {
  EXPECT_EQ(base64({}), "");
  EXPECT_EQ(base64({0}), "");
  EXPECT_EQ(base64({0, 0}), ",");
  EXPECT_EQ(base64({std::uint64_t{1} << 63, 1, ~std::uint64_t{0}}), "g,AAAAAAAAAAE,__________8");
}

TEST(Base64, ReadsBackWhatItWrote) {
  std::uint64_t value = 1;
  for (int i = 0; i < 20000; ++i) {
    value = value * 6364136223846793005 + 1442695040888963407;
    const std::uint64_t sparse = value << (i % 64);
    ASSERT_EQ(from_base64(base64({sparse})), sparse);
  }
  EXPECT_EQ(from_base64(""), 0);
}

TEST(Base64, RefusesEverythingElse) {
  for (const char* text : {"A", "gA", "+", "g,", "__________9", "AAAAAAAAAAAB", "=", " "})
    EXPECT_FALSE(from_base64(text).has_value()) << text;
}

TEST(Text, HexOfBytesHasTwoDigitsForEach) {
  EXPECT_EQ(to_hex(std::string_view("\x00\x0f\xf0\xff", 4)), "000ff0ff");
  EXPECT_EQ(to_hex(std::string_view()), "");
}

TEST(Text, HexOfNumberRoundTrips) {
  EXPECT_EQ(to_hex(std::uint64_t{0x0123456789abcdef}), "0123456789abcdef");
  for (const std::uint64_t value : {std::uint64_t{0}, std::uint64_t{1}, std::uint64_t{1} << 63, ~std::uint64_t{0}}) {
    EXPECT_EQ(from_hex(to_hex(value)), value);
  }
}

TEST(Text, HexIsAppended) {
  std::string text = "x";
  append_hex(text, 0x0123456789abcdef);
  append_hex(text, 0);
  EXPECT_EQ(text, "x0123456789abcdef0000000000000000");
}

TEST(Text, HexReadsNothingButSixteenLowerCaseDigits) {
  for (const char* text : {"", "0", "0123456789abcde", "0123456789abcdef0", "0123456789ABCDEF", "0x23456789abcdef",
                           "0123456789abcde ", "0123456789abcdeg", "+123456789abcdef", "0123456789abcde/"}) {
    EXPECT_FALSE(from_hex(text).has_value()) << text;
  }
}

TEST(Text, DecimalIsShortestAndReadsBack) {
  EXPECT_EQ(to_decimal(0.1), "0.1");
  EXPECT_EQ(to_decimal(-0.0), "-0");
  EXPECT_EQ(to_decimal(std::numeric_limits<double>::quiet_NaN()), "nan");
  EXPECT_EQ(to_decimal(std::numeric_limits<double>::infinity()), "inf");
  EXPECT_EQ(to_decimal(-std::numeric_limits<double>::infinity()), "-inf");
  for (const double value : {1.0 / 3, 5e-324, 2.2250738585072014e-308, -1.7976931348623157e308, 123456789012345678.0}) {
    EXPECT_EQ(std::strtod(to_decimal(value).c_str(), nullptr), value);
  }
}

TEST(Text, NearestForgivesASlip) {
  EXPECT_EQ(nearest("momentun", kNames), "momentum");
  EXPECT_EQ(nearest("momnetum", kNames), "momentum");
  EXPECT_EQ(nearest("weight-decay", kNames), "weight_decay");
  EXPECT_EQ(nearest("rl", kNames), "lr");
}

TEST(Text, NearestCountsASwapOfNeighboursOnce) { EXPECT_EQ(nearest("abcd", {"abxy", "abdc"}), "abdc"); }

TEST(Text, NearestTakesTheFirstOfEquals) { EXPECT_EQ(nearest("w3", {"w1", "w2"}), "w1"); }

TEST(Text, NearestGivesUpOnAnotherWord) {
  EXPECT_FALSE(nearest("accumulation", kNames).has_value());
  EXPECT_FALSE(nearest("x", {}).has_value());
}

TEST(Text, NearestLooksAtNothingThatIsTooLongForASlip) {
  EXPECT_FALSE(nearest(std::string(10000000, 'm'), kNames).has_value());
}

TEST(Text, SuggestNamesOneOrAll) {
  EXPECT_EQ(suggest("momentun", kNames), "did you mean 'momentum'?");
  EXPECT_EQ(suggest("accumulation", kNames), "choose one of: momentum, weight_decay, nesterov, lr");
  EXPECT_EQ(suggest("accumulation", {}), "");
}

TEST(Text, JoinPutsSeparatorsBetweenAll) {
  EXPECT_EQ(join({}, ", "), "");
  EXPECT_EQ(join({"a"}, ", "), "a");
  EXPECT_EQ(join({"a", "b", "c"}, ", "), "a, b, c");
  EXPECT_EQ(join({"", "a", ""}, ","), ",a,");
}

TEST(ShellQuoted, IsOneWordThatAShellReadsBack) {
  EXPECT_EQ(shell_quoted("scenarios/gate/a-1.json"), "scenarios/gate/a-1.json");
  EXPECT_EQ(shell_quoted("train.optimizer.lr=0.1"), "train.optimizer.lr=0.1");
  EXPECT_EQ(shell_quoted("a b$c"), "'a b$c'");
  EXPECT_EQ(shell_quoted("it's"), "'it'\\''s'");
  EXPECT_EQ(shell_quoted(""), "''");
  EXPECT_EQ(shell_quoted("a\n'b'\\"), "$'a\\x0a\\x27b\\x27\\x5c'") << "as bash reads it";
  EXPECT_EQ(printable(shell_quoted("\u202e##vso[")), "$'\\xe2\\x80\\xae\\x23\\x23vso['");
}

TEST(Text, ALongOneLosesItsMiddle) {
  EXPECT_EQ(without_middle("short"), "short");
  EXPECT_EQ(without_middle("abcdefghij", 10), "abcdefghij");
  EXPECT_EQ(without_middle("abcdefghijk", 4), "ab [7 bytes left out] jk");
  const std::string cut = without_middle("a" + std::string(10'000'000, 'x') + "b");
  EXPECT_LT(cut.size(), kMostOfMessage + 100);
  EXPECT_TRUE(cut.starts_with("ax") && cut.ends_with("xb"));
  EXPECT_EQ(without_middle("\u00e9\u00e9\u00e9\u00e9", 6), "\u00e9 [4 bytes left out] \u00e9") << "no half characters";
}

}  // namespace
}  // namespace lockstep
