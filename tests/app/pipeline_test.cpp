// Selections, and results that are written whole.
#include "harness/app/pipeline.h"

#include <cstdint>
#include <filesystem>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>
#include <unistd.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

#include "tests/app/refused.h"
#include "tests/support/support.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;
using test::refused;

TEST(Selection, TakesTheScenariosOfAFolderInOrder) {
  const test::Scratch scratch;
  for (const char* name : {"b.jsonc", "a.json", "notes.md", "lockstep.json"}) scratch.write(name, "{}");
  Problems problems;
  const std::vector<fs::path> files = select({scratch.path()}, problems);
  EXPECT_TRUE(problems.all().empty());
  EXPECT_EQ(files, (std::vector<fs::path>{scratch.path() / "a.json", scratch.path() / "b.jsonc"}));
}

TEST(Selection, NamesEachMissingPath) {
  const test::Scratch scratch;
  Problems problems;
  select({scratch.path() / "one.json", scratch.path() / "two"}, problems);
  ASSERT_EQ(problems.all().size(), 2U);
}

TEST(Selection, OfNothingIsRefused) {
  const test::Scratch scratch;
  scratch.write("notes.md", "");
  EXPECT_NE(refused([&] { load({.scenarios = {scratch.path()}}); }).find("nothing is selected"), std::string::npos);
}

TEST(Selection, ReportsTheErrorsOfAllScenarios) {
  const test::Scratch scratch;
  scratch.write("a.json", R"({"name": "a", "variants": {"v": {}}, "chekcs": []})");
  scratch.write("b.json", "{");
  const std::string error = refused([&] { load({.scenarios = {scratch.path()}}); });
  EXPECT_NE(error.find("chekcs"), std::string::npos) << error;
  EXPECT_NE(error.find("b.json"), std::string::npos) << error;
}

TEST(Channels, AnUnknownOneIsAnsweredByTheNearest) {
  EXPECT_EQ(channel_option("gradient.local"), trace::Channel::kGradientLocal);
  EXPECT_NE(refused([] { channel_option("gradeint"); }).find("gradient"), std::string::npos);
}

TEST(Results, NoGoldenAndNoScenarioIsReplaced) {
  const test::Scratch scratch;
  RunOptions options;
  options.scenarios = {scratch.path()};
  for (const char* name : {"two.golden", "two.jsonc", "two.json"}) {
    const std::filesystem::path kept = scratch.path() / name;
    replace_file(kept, "{}\n");
    options.reports = {{"csv", kept}};
    EXPECT_NE(refused([&] { make_way(options); }), "") << name;
    EXPECT_EQ(read_file(kept), "{}\n") << name;
  }
  options.reports = {{"csv", scratch.path() / "two.csv"}};
  EXPECT_EQ(refused([&] { make_way(options); }), "");
}

TEST(Results, AnOptionThatCannotBeWrittenIsNamedBeforeTheWork) {
  const test::Scratch scratch;
  const fs::path lost = scratch.path() / "no/such/result.json";
  EXPECT_NE(refused([&] { make_way("--markdown", lost); }).find("--markdown " + lost.string()), std::string::npos);
  EXPECT_NE(refused([&] { make_way("--json", scratch.path()); }), "") << "a folder";
  RunOptions options;
  options.reports["junit"] = lost;
  EXPECT_NE(refused([&] { make_way(options); }).find("--report junit=" + lost.string()), std::string::npos);
  for (const char* free : {"", "-", "/dev/null"}) EXPECT_EQ(refused([&] { make_way("--json", free); }), "");
  make_way("--json", scratch.path() / "result.json");
}

TEST(Results, AnEarlierOneGoesBeforeTheWork) {
  const test::Scratch scratch;
  RunOptions options;
  options.reports = {
      {"json", scratch.write("a", "old")}, {"junit", scratch.path() / "no/such"}, {"text", scratch.write("b", "old")}};
  EXPECT_NE(refused([&] { make_way(options); }), "");
  EXPECT_TRUE(entries_of(scratch.path()).empty()) << "also where another cannot be written";
  make_way("--json", "/dev/null");
  EXPECT_TRUE(is_there("/dev/null"));
}

TEST(Results, AnEarlierFolderIsEmptiedAndNoOther) {
  const test::Scratch scratch;
  const fs::path folder = scratch.path() / "runs";
  RunOptions options;
  options.reports["tensorboard"] = folder;
  EXPECT_EQ(refused([&] { make_way(options); }), "") << "a new one";
  make_directories(folder / "tiny/a/0");
  write_result(folder / "tiny/a/0" / report::kEventFile, "old");
  EXPECT_EQ(refused([&] { make_way(options); }), "");
  EXPECT_TRUE(entries_of(folder).empty());
  write_result(folder / report::kEventFile, "old");
  write_result(folder / "notes.md", "mine");
  EXPECT_NE(refused([&] { make_way(options); }).find("notes.md"), std::string::npos);
  EXPECT_EQ(entries_of(folder).size(), 2U) << "nothing is removed";
  options.reports["tensorboard"] = scratch.write("train.py", "mine");
  EXPECT_NE(refused([&] { make_way(options); }), "") << "a file";
  EXPECT_TRUE(is_there(scratch.path() / "train.py"));
  options.reports["tensorboard"] = scratch.path() / "no/such";
  EXPECT_NE(refused([&] { make_way(options); }).find("--report tensorboard=" + (scratch.path() / "no/such").string()),
            std::string::npos);
}

TEST(Results, ThatVouchForFilesAllowNoOtherValues) {
  const test::Scratch scratch;
  RunOptions options;
  options.reports["in-toto"] = scratch.write("a.json", "old");
  options.overrides = {"repeats=3", "launch.kind=exec"};
  EXPECT_EQ(refused([&] { make_way(options); }), "") << "they change nothing that is computed";
  options.overrides.emplace_back("train.steps=1");
  EXPECT_NE(refused([&] { make_way(options); }).find("--set train.steps=1"), std::string::npos);
  EXPECT_TRUE(entries_of(scratch.path()).empty()) << "the statement of an earlier run is gone";
}

TEST(Results, ReplaceAFileWhole) {
  const test::Scratch scratch;
  const fs::path file = scratch.write("result.json", "something longer than the result");
  write_json(file, {{"status", "agree"}});
  EXPECT_EQ(Json::parse(read_file(file)), (Json{{"status", "agree"}}));
  EXPECT_EQ(entries_of(scratch.path()).size(), 1U) << "nothing half-written stays";
  EXPECT_THROW(write_result(scratch.path() / "no/such", "text"), Error);
}

TEST(Results, PortsDiffer) {
  Ports ports;
  const std::set<std::uint16_t> all = {ports.next(), ports.next(), ports.next()};
  EXPECT_EQ(all.size(), 3U);
}

/// What a command line asks for, or why it is refused.
std::string asked(const std::vector<std::string>& words, RunOptions& options) {
  return refused([&] {
    CLI::App app;
    add_report_options(app, options);
    std::vector<std::string> last_first(words.rbegin(), words.rend());  // as CLI11 takes them
    app.parse(std::move(last_first));
  });
}

TEST(Reports, AreAskedForByKind) {
  RunOptions options;
  EXPECT_EQ(asked({"--report", "junit=a.xml", "--report", "markdown=-", "--json", "b=c.json"}, options), "");
  EXPECT_EQ(options.reports,
            (std::map<std::string, fs::path>{{"json", "b=c.json"}, {"junit", "a.xml"}, {"markdown", "-"}}));
  EXPECT_EQ(options.json(), "b=c.json");
}

TEST(Reports, ThatCannotBeMeantAreRefused) {
  const std::pair<std::vector<std::string>, const char*> rows[] = {
      {{"--report", "junti=a.xml"}, "junit"},
      {{"--report", "junit"}, "needs a file"},
      {{"--report", "junit="}, "needs a file"},
      {{"--report", "=a"}, "no such report"},
      {{"--report", "tensorboard=-"}, "cannot go to stdout"},
      {{"--report", "json=a", "--json", "b"}, "asked for twice"},
      {{"--report", "junit=-", "--report", "json=-"}, "one place"},
      {{"--report", "junit=a.xml", "--report", "text=./a.xml"}, "one place"},
      {{"--report", "junit=a.xml", "--report", "text=" + fs::absolute("no/../a.xml").string()}, "one place"},
  };
  for (const auto& [words, why] : rows) {
    RunOptions options;
    const std::string error = asked(words, options);
    EXPECT_NE(error.find(why), std::string::npos) << words[1] << ": " << error;
  }
}

/// A pipe is no terminal.
TEST(Color, IsAsTheOptionSaysThenTheVariables) {
  ::unsetenv("NO_COLOR");
  ::unsetenv("FORCE_COLOR");
  int pipe_ends[2];
  ASSERT_EQ(::pipe(pipe_ends), 0);
  EXPECT_FALSE(app::may_color(pipe_ends[1]));
  ::setenv("FORCE_COLOR", "1", 1);
  EXPECT_TRUE(app::may_color(pipe_ends[1]));
  ::setenv("NO_COLOR", "1", 1);
  EXPECT_FALSE(app::may_color(pipe_ends[1]));
  app::choose_color(app::Color::kAlways);
  EXPECT_TRUE(app::may_color(pipe_ends[1]));
  app::choose_color(app::Color::kNever);
  ::unsetenv("NO_COLOR");
  EXPECT_FALSE(app::may_color(pipe_ends[1]));
  app::choose_color(app::Color::kWhereItShows);
  ::unsetenv("FORCE_COLOR");
  for (const int end : pipe_ends) ::close(end);
}

}  // namespace
}  // namespace lockstep::app
