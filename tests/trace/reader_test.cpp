#include "harness/trace/reader.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/hash.h"
#include "harness/trace/line.h"
#include "harness/trace/writer.h"

#include "tests/support/support.h"
#include "tests/trace/samples.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;
using test::sample_header;
using test::sample_steps;
using test::write_sample;

template <typename Expected, typename Action>
Problem problem_of(Action action) {
  try {
    action();
  } catch (const Expected& error) {
    return error.problem();
  }
  ADD_FAILURE() << "nothing was thrown";
  return {};
}

/// A whole, correctly sealed trace of these lines.
std::string sealed(const std::vector<std::string>& lines) {
  std::string text;
  for (const std::string& line : lines) text += line;
  return text + line_of_end(lines.size(), sha256(text));
}

std::string header_line(const Json& changes = Json::object()) {
  Json header = sample_header();
  header["format"] = kTraceFormat;
  merge_json(header, changes);
  return line_of_header(header);
}

TEST(Reader, RoundTripKeepsEveryField) {
  const Scratch scratch;
  write_sample(scratch.path() / "rank0.jsonl", sample_header(2, 5));
  const Trace trace = read_trace(scratch.path() / "rank0.jsonl");
  test::expect_same(trace.steps, sample_steps());
  EXPECT_EQ(trace.rank, 2);
  EXPECT_EQ(trace.world_size, 5);
  Json header = sample_header(2, 5);
  header["format"] = "lockstep.trace/1";
  EXPECT_EQ(trace.header, header);
  EXPECT_EQ(trace.origin, (scratch.path() / "rank0.jsonl").string());
  EXPECT_TRUE(trace.complete);
  EXPECT_EQ(trace.torn, "");
  EXPECT_TRUE(trace.damage.empty());
}

TEST(Reader, FindsStepsAndRecords) {
  const Scratch scratch;
  write_sample(scratch.path() / "f");
  const Trace trace = read_trace(scratch.path() / "f");
  ASSERT_NE(trace.find(7), nullptr);
  EXPECT_EQ(trace.find(0), nullptr);
  EXPECT_NE(trace.find(7)->find(Channel::kWeight, "zero"), nullptr);
  EXPECT_EQ(trace.find(7)->find(Channel::kGradient, "zero"), nullptr);
  EXPECT_EQ(trace.find(7)->find(Channel::kWeight, "zer"), nullptr);
}

TEST(Reader, TraceWithoutStepsIsWhole) {
  const Scratch scratch;
  write_sample(scratch.path() / "f", sample_header(), {});
  EXPECT_TRUE(read_trace(scratch.path() / "f").complete);
}

TEST(Reader, UnfinishedTraceIsTorn) {
  const Scratch scratch;
  Writer writer(scratch.path() / "f", sample_header());
  writer.write(line_of(sample_steps()[0]));
  writer.flush();
  const Trace trace = read_trace(scratch.path() / "f");
  EXPECT_FALSE(trace.complete);
  EXPECT_EQ(trace.torn, "it ends after line 2, without the closing line");
  test::expect_same(trace.steps, {sample_steps()[0]});
}

TEST(Reader, EmptyFileIsTorn) {
  const Scratch scratch;
  const Trace trace = read_trace(scratch.write("f", ""));
  EXPECT_FALSE(trace.complete);
  EXPECT_EQ(trace.torn, "the file is empty");
}

TEST(Reader, OtherVersionIsNoDamage) {
  const Scratch scratch;
  const auto file = scratch.write("f", sealed({header_line({{"format", "lockstep.trace/2"}})}));
  const Problem problem = problem_of<InputError>([&] { read_trace(file); });
  EXPECT_EQ(problem.expected, "lockstep.trace/1");
  EXPECT_EQ(problem.actual, "lockstep.trace/2");
  EXPECT_EQ(problem.where, file.string());
}

TEST(Reader, FileOfAnotherFormatIsNoTrace) {
  const Scratch scratch;
  for (const char* content : {"{\"name\": 1}\n", "hello\nworld\n", "\n", "PK\x03\x04\n\n", "[]\n", "null\n"}) {
    for (const Damage damage : {Damage::kRefuse, Damage::kReport}) {
      EXPECT_THROW(read_trace(scratch.write("f", content), damage), Error) << content;
    }
  }
}

TEST(Reader, MissingFileAndDirectoryAreInputErrors) {
  const Scratch scratch;
  EXPECT_THROW(read_trace(scratch.path() / "none"), InputError);
  EXPECT_THROW(read_trace(scratch.path()), InputError);
}

TEST(Reader, MoreAfterTheEndIsDamage) {
  const Scratch scratch;
  const std::string whole = write_sample(scratch.path() / "f");
  for (const std::string& more : {std::string("\n"), std::string("x"), std::string(1, '\0'), whole}) {
    const auto file = scratch.write("g", whole + more);
    const Problem problem = problem_of<DamagedFile>([&] { read_trace(file); });
    EXPECT_NE(problem.what.find("lines follow the closing line"), std::string::npos);
    EXPECT_EQ(problem.where, file.string() + ", line 4");
  }
}

TEST(Reader, StepsOutOfOrderAreDamage) {
  const Scratch scratch;
  const std::vector<Step> steps = sample_steps();
  const std::string first = line_of(steps[0]), second = line_of(steps[1]);
  for (const auto& lines : {std::vector{header_line(), second, first}, std::vector{header_line(), first, first}}) {
    const auto file = scratch.write("f", sealed(lines));
    const Problem problem = problem_of<DamagedFile>([&] { read_trace(file); });
    EXPECT_EQ(problem.where, file.string() + ", line 3");
    EXPECT_NE(problem.what.find("its step does not come after the step before"), std::string::npos);
  }
}

TEST(Reader, LineTakenOutIsDamage) {
  const Scratch scratch;
  const std::string one = line_of(sample_steps()[0]), two = line_of(sample_steps()[1]);
  const std::string end = sealed({header_line(), one, two}).substr(header_line().size() + one.size() + two.size());
  const auto file = scratch.write("f", header_line() + two + end);
  EXPECT_EQ(problem_of<DamagedFile>([&] { read_trace(file); }).where, file.string() + ", line 3");
  const Trace reported = read_trace(file, Damage::kReport);
  EXPECT_EQ(reported.damage, (std::vector<std::string>{"line 3: its line count is wrong",
                                                       "line 3: its SHA-256 does not match the lines before"}));
}

TEST(Reader, LineOfAnotherTraceIsDamage) {
  const Scratch scratch;
  std::vector<Step> steps = sample_steps();
  const std::string whole = write_sample(scratch.path() / "f");
  const std::string line = line_of(steps[1]);
  steps[1].records[0].digest.low ^= 1;
  std::string other = whole;
  other.replace(whole.find(line), line.size(), line_of(steps[1]));
  const auto file = scratch.write("g", other);
  const Problem problem = problem_of<DamagedFile>([&] { read_trace(file); });
  EXPECT_EQ(problem.where, file.string() + ", line 4");
  EXPECT_NE(problem.what.find("SHA-256"), std::string::npos);
}

TEST(Reader, HeaderWithoutAPossiblePlaceIsDamage) {
  const Scratch scratch;
  for (const Json& change :
       {Json{{"rank", -1}}, Json{{"world_size", 0}}, Json{{"world_size", -3}}, Json{{"rank", 4}, {"world_size", 4}},
        Json{{"rank", "0"}}, Json{{"world_size", nullptr}}}) {
    const auto file = scratch.write("f", sealed({header_line(change)}));
    EXPECT_EQ(problem_of<DamagedFile>([&] { read_trace(file); }).where, file.string() + ", line 1") << change;
  }
}

/// Damage is told in our words, with its line, however well the line is sealed.
TEST(Reader, WellSealedValuesOfAnotherTypeAreDamage) {
  const Scratch scratch;
  const std::vector<std::tuple<std::vector<std::string>, std::string, std::string>> wrongs = {
      {{header_line({{"samples", "x"}})}, "1", "its 'samples' is not a natural number"},
      {{header_line({{"train_digest", 3}})}, "1", "its 'train_digest' is not a string"},
      {{header_line({{"format", 1}})}, "1", "'format' has the wrong type"},
      {{header_line({{"rank", "0"}})}, "1", "'rank' has the wrong type"},
      {{header_line(), line_of_header({{"step", 0}, {"loss", {{{"digest", "0"}}}}})}, "2", "the key 'name' is missing"},
      {{header_line(), line_of_header({{"step", 0}, {"loss", {{{"name", 7}}}}})}, "2", "'name' has the wrong type"},
      {{header_line(), line_of_header({{"steps", 0}})}, "2", "the key 'step' is missing"},
      {{header_line(), "{\"step\"\n"}, "2", "its checksum does not match"},
  };
  for (const auto& [lines, line, what] : wrongs) {
    const auto file = scratch.write("f", sealed(lines));
    const Problem problem = problem_of<DamagedFile>([&] { read_trace(file); });
    EXPECT_EQ(problem.what, "damaged trace: " + what);
    EXPECT_EQ(problem.where, file.string() + ", line " + line);
  }
  const auto file = scratch.write("f", header_line() + "{\"step\"\n");
  EXPECT_EQ(problem_of<DamagedFile>([&] { read_trace(file, Damage::kReport); }).what,
            "damaged trace: it is not valid JSON");
}

}  // namespace
}  // namespace lockstep::trace
