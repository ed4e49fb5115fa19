// What lockstep prints of files: their texts start no line, and the file system's own words come with a place.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

constexpr const char* kCommand = "\n::error::x\r\n  ##vso[task.complete]\x1b[2J\u202e";

/// No line that a runner would take for a command, and no character that acts.
void expect_harmless(const std::string& text) {
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = std::min(text.find('\n', begin), text.size());
    const std::string line = text.substr(begin, end - begin);
    const std::size_t first = std::min(line.find_first_not_of(" \t"), line.size());
    EXPECT_NE(line.compare(first, 2, "::"), 0) << text;
    begin = end + 1;
  }
  for (const char* part : {"##vso[", "\x1b", "\r", "\u202e"}) EXPECT_EQ(text.find(part), std::string::npos) << text;
}

class Printed : public EndToEnd {};

TEST_F(Printed, TextsOfARefusedScenarioStartNoLine) {
  const std::string command = kCommand;
  Json wrong = scenario();
  wrong[command] = command;
  wrong["name"] = command;
  wrong["variants"] = {{command, Json::object()}};
  wrong["train"]["model"]["kind"] = command;
  wrong["launch"] = {{"environment", {{command, command}}}};
  wrong["checks"] = {check("equal", {{"variants", {command}}}), check(command), check("ledger", {{"on", command}})};
  const fs::path folder = scratch_.path() / ("x" + command);
  fs::create_directories(folder);
  const Outcome outcome = run_lockstep({"run", scratch_.write(fs::path(folder.filename()) / "s.json", wrong.dump())});
  EXPECT_EQ(outcome.exit_code, 2);
  expect_says(outcome.err, {"errors\n1. ", "\\n::error::x\\r\\n  #\\x23vso["});
  expect_harmless(outcome.out + outcome.err);
  expect_harmless(run_lockstep({"run", "--bogus" + command}).err);
  expect_harmless(run_lockstep({command}).err);
}

TEST_F(Printed, ALogsLinesStayLinesBehindASign) {
  const fs::path worker = script_worker("printf '::error::x\\n  ::warning::y\\n##vso[z]\\033[2J\\n'; exit 3");
  const Result result = run(scenario(), {"--worker", worker});
  EXPECT_NE(result.exit_code(), 0);
  expect_says(result.process.out,
              {"  log         | ::error::x\n              |   ::warning::y\n              | #\\x23vso[z]\\x1b"});
  expect_harmless(result.said());
}

TEST_F(Printed, ShowBeginsWithTheStepsAndHasTheHeaderOnRequest) {
  const Result whole = run(scenario({{"train", {{"steps", 2}}}}));
  expect_green(whole);
  const std::string trace = whole.out / "tiny/main/0";
  const Outcome plain = run_lockstep({"show", trace});
  EXPECT_EQ(plain.exit_code, 0);
  EXPECT_TRUE(plain.out.starts_with("step ")) << plain.out.substr(0, 200);
  const Outcome with_header = run_lockstep({"show", trace, "--header"});
  EXPECT_TRUE(with_header.out.starts_with("{\n")) << with_header.out.substr(0, 200);
  EXPECT_TRUE(with_header.out.ends_with(plain.out));
  for (const char* step : {"99999999999999999999", "7", "-5"}) {
    const Outcome beyond = run_lockstep({"show", trace, "--step", step, "--header"});
    EXPECT_EQ(beyond.exit_code, 2);
    EXPECT_EQ(beyond.out, "");
    EXPECT_NE(beyond.err, "");
  }
}

TEST_F(Printed, LinksInACircleAreToldWithTheirPlace) {
  const fs::path a = scratch_.path() / "a";
  fs::create_symlink("b", a);
  fs::create_symlink("a", scratch_.path() / "b");
  fs::create_directories(scratch_.path() / "pictures/0");
  fs::create_symlink("loop", scratch_.path() / "pictures/0/loop");
  const fs::path file = write(scenario());
  const auto of = [&](const Json& data) {
    Json training = scenario();
    training["train"]["data"] = data;
    return scratch_.write(data.at("kind").get<std::string>() + ".json", training.dump());
  };
  const Json folder = {{"kind", "image_folder"}, {"path", (scratch_.path() / "pictures").string()}, {"size", 8}};
  const std::vector<std::vector<std::string>> commands = {{"run", a},
                                                          {"gate", a / "x"},
                                                          {"run", file, "--golden", a},
                                                          {"run", file, "--out", a},
                                                          {"run", of({{"kind", "digits"}, {"path", a.string()}})},
                                                          {"run", of(folder)},
                                                          {"golden", "accept", file, "--reason", "r", "--golden", a},
                                                          {"golden", "accept", a, "--reason", "r"},
                                                          {"blame", a},
                                                          {"show", a},
                                                          {"diff", a, a / "y"}};
  for (const auto& command : commands) {
    SCOPED_TRACE(::testing::PrintToString(command));
    const Outcome outcome = run_lockstep(command);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    EXPECT_EQ(outcome.err.find("filesystem error"), std::string::npos) << outcome.err;
    expect_says(outcome.err, {"where:"});
  }
}

}  // namespace
}  // namespace lockstep::test
