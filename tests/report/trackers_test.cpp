// Curves for trackers, read back as their readers do.
#include <bit>
#include <limits>

#include "harness/base/text.h"
#include "harness/judge/illustrate.h"
#include "harness/report/event_file.h"
#include "harness/report/renderer.h"

#include "tests/support/tiny/judged.h"

namespace lockstep::test {
namespace {

using golden::CurvePoint;

std::uint64_t little_endian(std::string_view bytes) {
  std::uint64_t value = 0;
  for (std::size_t i = bytes.size(); i-- > 0;) value = value << 8 | static_cast<unsigned char>(bytes[i]);
  return value;
}

/// The first bytes of a text, which it then lacks.
std::string_view take(std::string_view& text, std::size_t bytes) {
  if (bytes > text.size()) throw std::runtime_error("the file is too short");
  const std::string_view taken = text.substr(0, bytes);
  text.remove_prefix(bytes);
  return taken;
}

std::uint64_t take_varint(std::string_view& text) {
  std::uint64_t value = 0;
  for (int shift = 0;; shift += 7) {
    const auto byte = static_cast<unsigned char>(take(text, 1)[0]);
    value |= std::uint64_t{byte & 0x7fU} << shift;
    if (byte < 0x80) return value;
  }
}

/// The fields of a message, in order, in words: "2=7" of a number, "3='text'", "5={…}" of a message.
std::string message(std::string_view bytes, const std::string& inside = "") {
  std::string text;
  while (!bytes.empty()) {
    const std::uint64_t key = take_varint(bytes), field = key >> 3;
    const std::string path = inside + std::to_string(field);
    text += (text.empty() ? "" : " ") + path + "=";
    if (key % 8 == 0) {
      text += std::to_string(take_varint(bytes));
    } else if (key % 8 == 5) {
      text += to_decimal(std::bit_cast<float>(static_cast<std::uint32_t>(little_endian(take(bytes, 4)))));
    } else {
      const std::string_view content = take(bytes, take_varint(bytes));
      const bool is_message = path == "5" || path == "5.1";
      text += is_message ? "{" + message(content, path + ".") + "}" : "'" + std::string(content) + "'";
    }
  }
  return text;
}

std::uint32_t unmasked(std::uint64_t crc) { return std::rotl(static_cast<std::uint32_t>(crc) - 0xa282ead8U, 15); }

/// The records of an event file, after their checksums.
std::vector<std::string> events_in(std::string_view file) {
  std::vector<std::string> events;
  while (!file.empty()) {
    const std::string_view length = take(file, 8);
    EXPECT_EQ(unmasked(little_endian(take(file, 4))), report::crc32c(length));
    const std::string_view event = take(file, little_endian(length));
    EXPECT_EQ(unmasked(little_endian(take(file, 4))), report::crc32c(event));
    events.push_back(message(event));
  }
  return events;
}

TEST(EventFile, HasTheChecksumsOfRfc3720) {
  std::string ascending;
  for (char i = 0; i < 32; ++i) ascending += i;
  EXPECT_EQ(report::crc32c(std::string(32, '\0')), 0x8a9136aaU);
  EXPECT_EQ(report::crc32c(std::string(32, '\xff')), 0x62a8ab43U);
  EXPECT_EQ(report::crc32c(ascending), 0x46dd794eU);
  EXPECT_EQ(report::crc32c("123456789"), 0xe3069283U);
}

TEST(EventFile, HoldsAnEventForEachStep) {
  const std::vector<CurvePoint> curve = {{.step = 0, .loss = 2.5, .gradient = 0.125, .rate = 0.5},
                                         {.step = 300, .loss = std::numeric_limits<double>::infinity()}};
  EXPECT_EQ(events_in(report::event_file(curve)),
            (std::vector<std::string>{"3='brain.Event:2'",
                                      "2=0 5={5.1={5.1.1='loss' 5.1.2=2.5} 5.1={5.1.1='gradient_norm' 5.1.2=0.125} "
                                      "5.1={5.1.1='learning_rate' 5.1.2=0.5}}",
                                      "2=300 5={5.1={5.1.1='loss' 5.1.2=inf}}"}));
}

/// Two variants that differ, of which one runs twice.
struct TwoRates {
  TwoRates()
      : judged({{"repeats", 2},
                {"variants", {{"a", Json::object()}, {"b", {{"train", {{"optimizer", {{"lr", 0.25}}}}}}}}},
                {"checks", {{{"that", "ranks_agree"}}}}}) {
    verdict = judged.verdict();
    judge::draw_curves(verdict, judged.plan, judged.evidence());
  }

  Judged judged;
  judge::Verdict verdict;
};

TEST(Trackers, HaveARowForEachStepOfEachRun) {
  const TwoRates two;
  const std::string text = report::find_format("csv")->make()->render(two.verdict, two.judged.plan);
  std::vector<std::string> rows;
  for (std::istringstream lines(text); std::getline(lines, rows.emplace_back());) {
  }
  rows.pop_back();
  ASSERT_EQ(rows.size(), 1U + 4 * 4) << text;
  EXPECT_EQ(rows[0], "scenario,variant,repeat,step,loss,gradient_norm,learning_rate");
  const CurvePoint first = golden::points_of(two.judged.traces[2])[0];
  EXPECT_EQ(rows[9], "tiny,b,0,0," + to_decimal(*first.loss) + "," + to_decimal(*first.gradient) + ",0.25");
  EXPECT_EQ(std::stod(rows[9].substr(std::string("tiny,b,0,0,").size())), *first.loss) << "no digit is lost";
  EXPECT_TRUE(rows[16].starts_with("tiny,b,1,3,")) << rows[16];
}

TEST(Trackers, HaveAnEventFileForEachRun) {
  const TwoRates two;
  const report::Files files = report::find_format("tensorboard")->files(two.verdict, two.judged.plan);
  ASSERT_EQ(files.size(), 4U);
  const std::vector<std::string> events = events_in(files.at("tiny/b/1/events.out.tfevents.0.lockstep"));
  ASSERT_EQ(events.size(), 5U);
  EXPECT_NE(events[4].find("2=3 5={"), std::string::npos) << events[4];
  EXPECT_NE(events[4].find("'learning_rate' 5.1.2=0.25"), std::string::npos) << events[4];
}

TEST(Trackers, LeaveOutARunWithoutATrace) {
  TwoRates two;
  two.verdict.pictures[0].curves.clear();
  EXPECT_TRUE(report::tensorboard_files(two.verdict, two.judged.plan).empty());
}

}  // namespace
}  // namespace lockstep::test
