#include "harness/trace/writer.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/trace/line.h"
#include "harness/trace/reader.h"

#include "tests/support/support.h"
#include "tests/trace/samples.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;

TEST(Writer, WritesHeaderStepsAndEnd) {
  const Scratch scratch;
  const std::vector<Step> steps = test::sample_steps();
  Json header = test::sample_header();
  header["format"] = kTraceFormat;
  const std::string before = line_of_header(header) + line_of(steps[0]) + line_of(steps[1]);
  EXPECT_EQ(test::write_sample(scratch.path() / "f"), before + line_of_end(3, sha256(before)));
}

TEST(Writer, EachLineIsThereAfterAFlush) {
  const Scratch scratch;
  Writer writer(scratch.path() / "f", test::sample_header());
  EXPECT_EQ(read_trace(scratch.path() / "f").world_size, 1);
  writer.write(line_of(test::sample_steps()[0]));
  writer.flush();
  EXPECT_EQ(read_trace(scratch.path() / "f").steps.size(), 1U);
}

TEST(Writer, LinesHandedOverAreWrittenEvenWithoutFinish) {
  const Scratch scratch;
  {
    Writer writer(scratch.path() / "f", test::sample_header());
    for (const Step& step : test::sample_steps()) writer.write(line_of(step));
  }
  const Trace trace = read_trace(scratch.path() / "f");
  EXPECT_EQ(trace.steps.size(), test::sample_steps().size());
  EXPECT_FALSE(trace.complete);
}

TEST(Writer, NeverGoesOnWithAnOldFile) {
  const Scratch scratch;
  test::write_sample(scratch.path() / "f");
  EXPECT_THROW(Writer(scratch.path() / "f", test::sample_header()), ResourceError);
  EXPECT_TRUE(read_trace(scratch.path() / "f").complete);
}

TEST(Writer, EqualContentHasEqualBytes) {
  const Scratch scratch;
  EXPECT_EQ(test::write_sample(scratch.path() / "f"), test::write_sample(scratch.path() / "g"));
}

}  // namespace
}  // namespace lockstep::trace
