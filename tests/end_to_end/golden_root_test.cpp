// A golden stands beside the scenario's project, from wherever lockstep is called.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class GoldenRootEndToEnd : public EndToEnd {
 protected:
  static Json training(const std::string& name) {
    return scenario({{"name", name},
                     {"world_size", 1},
                     {"train", {{"steps", 2}, {"determinism", {{"cpu", "portable"}}}}},
                     {"checks", Json::array({check("golden")})}});
  }

  fs::path at(const std::string& place) const { return scratch_.path() / place; }

  Outcome accept(const std::string& scenario, const fs::path& from) const {
    return run_lockstep({"golden", "accept", scenario, "--reason", "x"}, from);
  }
};

TEST_F(GoldenRootEndToEnd, EachScenarioHasThatOfItsProjectFromEverywhere) {
  scratch_.write("a/lockstep.json", "{}\n");
  const std::string a = scratch_.write("a/deep/a.json", training("a").dump());
  const std::string b = scratch_.write("b/scenarios/gate/b.json", training("b").dump());
  fs::create_directories(at("elsewhere"));

  const Outcome accepted = accept("a.json", at("a/deep"));
  EXPECT_EQ(accepted.exit_code, 0) << accepted.err;
  expect_says(accepted.out, {"new", (at("a/golden/a/main.golden")).string()});
  EXPECT_TRUE(fs::exists(at("a/golden/a/main.golden")));

  const Outcome missing = run_lockstep({"run", a, b}, at("elsewhere"));
  EXPECT_EQ(missing.exit_code, 3) << missing.out << missing.err;
  expect_says(missing.out,
              {"there is no golden " + at("b/golden/b/main.golden").string() + " (beside the folder scenarios/)"});
  const std::size_t next = missing.out.find("lockstep golden accept ");
  ASSERT_NE(next, std::string::npos) << missing.out;
  const std::string command = missing.out.substr(next, missing.out.find('\n', next) - next);

  const Outcome followed =
      run_program({"/bin/sh", "-c", "unset CI; exec \"$0\"" + command.substr(std::string("lockstep").size()),
                   lockstep_program().string()},
                  300, at("elsewhere"));
  EXPECT_EQ(followed.exit_code, 0) << command << "\n" << followed.err;
  const Outcome green = run_lockstep({"run", a, b}, at("elsewhere"));
  EXPECT_EQ(green.exit_code, 0) << green.out << green.err;
  EXPECT_TRUE(fs::is_empty(at("elsewhere")));
}

TEST_F(GoldenRootEndToEnd, AProjectFileThatSaysMoreIsRefusedBeforeTheWork) {
  scratch_.write("lockstep.json", R"({"goldens": "x"})");
  const Outcome outcome = run_lockstep({"run", write(training("a")), "--out", at("runs")});
  EXPECT_EQ(outcome.exit_code, 2);
  expect_says(outcome.err, {"lockstep.json", "goldens", "{}"});
  EXPECT_FALSE(fs::exists(at("runs")));
}

TEST_F(GoldenRootEndToEnd, ACiJobAcceptsNothing) {
  const std::string file = write(training("a"));
  const auto accept_with = [&](const std::string& ci, const std::string& more) {
    return run_program({"/usr/bin/env", ci, lockstep_program(), "golden", "accept", file, "--reason", "x", more});
  };
  for (const char* ci : {"CI=1", "CI=true"}) {
    const Outcome refused = accept_with(ci, "--variant=main");
    EXPECT_EQ(refused.exit_code, 2) << refused.out;
    expect_says(refused.err, {"CI", "not set, empty, 0 or false", "--in-ci"});
    EXPECT_FALSE(fs::exists(at("golden")));
  }
  EXPECT_EQ(accept_with("CI=1", "--in-ci").exit_code, 0);
  for (const char* ci : {"CI=", "CI=0", "CI=false"}) EXPECT_EQ(accept_with(ci, "--variant=main").exit_code, 0) << ci;
  EXPECT_TRUE(fs::exists(at("golden/a/main.golden")));
}

}  // namespace
}  // namespace lockstep::test
