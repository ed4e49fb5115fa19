// Files of --report: for whom, when and where they are written.
#include "harness/base/files.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class Reports : public EndToEnd {};

TEST_F(Reports, ForCiSystemsHoldTheVerdict) {
  Json wrong = scenario({{"variants", {{"a", Json::object()}, {"b", {{"train", {{"optimizer", {{"lr", 0.2}}}}}}}}},
                         {"checks",
                          {check("equal", {{"variants", {"a", "b"}}}), check("ranks_agree"),
                           check("equal", {{"variants", {"a", "b"}},
                                           {"expect", {{"status", "divergence"}, {"reason", "another rate"}}}})}}});
  const fs::path junit = scratch_.path() / "junit.xml", page = scratch_.path() / "page.md",
                 statement = scratch_.path() / "statement.json", curves = scratch_.path() / "curves.csv",
                 events = scratch_.path() / "events";
  const Outcome outcome =
      run_lockstep({"run", write(wrong), "--report", "junit=" + junit.string(), "--report", "markdown=" + page.string(),
                    "--report", "github=-", "--report", "in-toto=" + statement.string(), "--report",
                    "csv=" + curves.string(), "--report", "tensorboard=" + events.string()});
  EXPECT_EQ(outcome.exit_code, 1) << outcome.err;
  EXPECT_TRUE(outcome.out.starts_with("::error file=")) << outcome.out;
  expect_says(outcome.out, {"checks.0 equal (a%2C b)", "cause lr.", "::notice title=lockstep::divergence: "});
  expect_says(read_file(page), {"### lockstep: divergence", "**divergence**: tiny", "\n  cause       lr."});
  expect_says(read_file(statement), {"\"FAILED\"", "tiny.json"});
  expect_says(read_file(curves), {"\ntiny,a,0,0,", "\ntiny,b,0,3,"});
  EXPECT_GT(fs::file_size(events / "tiny/b/0" / "events.out.tfevents.0.lockstep"), 200U);
  const Outcome read = run_program({"python3", "-c", R"(
import collections, sys, xml.etree.ElementTree as tree
root = tree.parse(sys.argv[1]).getroot()
for case in root.iter("testcase"): print(case.get("name"), [one.tag for one in case])
for one in (root, *root):
    found = collections.Counter(outcome.tag for case in one.iter("testcase") for outcome in case)
    counts = {"failures": found["failure"], "errors": found["error"], "tests": len(list(one.iter("testcase")))}
    for name, count in counts.items(): assert one.get(name) == str(count), (one.attrib, counts)
)",
                                    junit.string()});
  EXPECT_EQ(read.out,
            "checks.0 equal (a, b) ['failure']\nchecks.1 ranks_agree (a, b) []\nchecks.2 equal (a, b) ['skipped']\n")
      << read.err;
  EXPECT_EQ(read.exit_code, 0) << read.err;
}

// Such a command has no verdict: a page that a CI system would take for one must not be asked for.
TEST_F(Reports, AreRefusedWhereThereIsNoVerdict) {
  const fs::path file = write(scenario()), junit = scratch_.path() / "junit.xml";
  const std::vector<std::string> commands[] = {{"--mutations"}, {"--prepare", scratch_.path() / "prepared"}};
  for (std::vector<std::string> words : commands) {
    words.insert(words.begin(), {"run", file});
    words.insert(words.end(), {"--report", "junit=" + junit.string()});
    const Outcome outcome = run_lockstep(words);
    EXPECT_EQ(outcome.exit_code, 2) << words[2];
    expect_says(outcome.err, {words[2], "--json"});
    EXPECT_FALSE(fs::exists(junit));
  }
  EXPECT_FALSE(fs::exists(scratch_.path() / "prepared"));
}

// A runner uploads what it finds: the green page of an earlier run must not be there.
TEST_F(Reports, OfAnEarlierRunDoNotOutliveAnError) {
  const fs::path wrong = scratch_.path() / "missing";
  for (const char* command : {"run", "gate", "judge", "blame", "diff", "check"}) {
    const bool has_reports = command[0] == 'r' || command[0] == 'g' || command[0] == 'j';
    const fs::path json = scratch_.write("result.json", R"({"status": "agree"})");
    const fs::path junit = scratch_.write("result.xml", "<testsuites/>");
    std::vector<std::string> words = {command, wrong, "--json", json};
    if (has_reports) words.insert(words.end(), {"--report", "junit=" + junit.string()});
    if (command[0] == 'j') words.insert(words.end(), {"--traces", scratch_.path()});
    if (command[0] == 'd') words.push_back(wrong);
    EXPECT_EQ(run_lockstep(words).exit_code, 2) << command;
    EXPECT_FALSE(fs::exists(json)) << command;
    EXPECT_EQ(fs::exists(junit), !has_reports) << command;
  }
}

TEST_F(Reports, DoNotReplaceTheMarkOfAProject) {
  const fs::path mark = scratch_.write("lockstep.json", "{}");
  for (const char* command : {"run", "check"}) {
    const Outcome outcome = run_lockstep({command, write(scenario()), "--json", "lockstep.json"}, scratch_.path());
    EXPECT_EQ(outcome.exit_code, 2) << command;
    expect_says(outcome.err, {"the file that marks a project", "lockstep.json"});
    EXPECT_EQ(read_file(mark), "{}") << command;
  }
}

// "./a.xml" is another way to write "a.xml": one report would replace the other.
TEST_F(Reports, ToOnePlaceAreRefused) {
  const Outcome outcome =
      run_lockstep({"run", write(scenario()), "--report", "junit=a.xml", "--report", "text=./a.xml"}, scratch_.path());
  EXPECT_EQ(outcome.exit_code, 2);
  expect_says(outcome.err, {"two reports go to one place", "--report text=./a.xml"});
}

}  // namespace
}  // namespace lockstep::test
