#include <cstdlib>
#include <utility>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/launch/place/torchrun.h"

namespace lockstep::launch {
namespace {

const char* const kNames[] = {"RANK",
                              "LOCAL_RANK",
                              "WORLD_SIZE",
                              "MASTER_ADDR",
                              "MASTER_PORT",
                              "LOCKSTEP_LISTEN_FD",
                              "LOCKSTEP_SUPERVISOR_FD",
                              "LOCKSTEP_STEP_DELAY_MS"};

/// Sets exactly these place variables, and takes them away again.
class Variables {
 public:
  explicit Variables(const Environment& environment) {
    clear();
    for (const auto& [name, value] : environment) ::setenv(name.c_str(), value.c_str(), 1);
  }
  ~Variables() { clear(); }

 private:
  static void clear() {
    for (const char* name : kNames) ::unsetenv(name);
  }
};

/// The message of the InputError, or nothing when the place was accepted.
std::string refusal(const Environment& environment) {
  const Variables variables(environment);
  try {
    place_from_environment();
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

TEST(Environment, ReadsAPlace) {
  const Variables variables(
      {{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}});
  EXPECT_EQ(place_from_environment(),
            (Place{.rank = 3, .local_rank = 1, .world_size = 4, .master_address = "node1", .master_port = 29500}));
}

TEST(Environment, FillsInWhatIsClear) {
  const Variables variables({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}});
  EXPECT_EQ(place_from_environment(), (Place{.rank = 1, .local_rank = 1, .world_size = 2, .master_port = 1}));
}

TEST(Environment, ReadsBackWhatItSays) {
  const Place place{.rank = 2, .local_rank = 2, .world_size = 3, .master_port = 7, .step_delay_ms = 15};
  const Variables variables(torchrun_variables_of(place));
  EXPECT_EQ(place_from_environment(), place);
  EXPECT_FALSE(inherited_environment().contains("LOCKSTEP_STEP_DELAY_MS"));
}

TEST(Environment, SingleRankNeedsNoPort) {
  const Variables variables({{"RANK", "0"}, {"WORLD_SIZE", "1"}});
  EXPECT_EQ(place_from_environment(), Place{});
}

TEST(Environment, RefusalNamesTheVariable) {
  const std::pair<Environment, const char*> cases[] = {
      {{{"WORLD_SIZE", "1"}}, "RANK"},
      {{{"RANK", "2"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}, "RANK"},
      {{{"RANK", "-1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}, "RANK"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "0"}}, "WORLD_SIZE"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1 "}}, "WORLD_SIZE"},
      {{{"RANK", " 0"}, {"WORLD_SIZE", "1"}}, "RANK"},
      {{{"RANK", "+0"}, {"WORLD_SIZE", "1"}}, "RANK"},
      {{{"RANK", "0x0"}, {"WORLD_SIZE", "1"}}, "RANK"},
      {{{"RANK", ""}, {"WORLD_SIZE", "1"}}, "RANK"},
      {{{"RANK", "99999999999999999999"}, {"WORLD_SIZE", "1"}}, "RANK"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}}, "MASTER_PORT"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "0"}}, "MASTER_PORT"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "65536"}}, "MASTER_PORT"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}, {"MASTER_ADDR", ""}}, "MASTER_ADDR"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}, {"LOCAL_RANK", "2"}}, "LOCAL_RANK"},
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}, {"LOCKSTEP_LISTEN_FD", "5"}}, "LOCKSTEP_LISTEN_FD"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_LISTEN_FD", "x"}}, "LOCKSTEP_LISTEN_FD"}};
  for (const auto& [environment, name] : cases) {
    const std::string prefix = std::string("the environment variable ") + name + " ";
    EXPECT_EQ(refusal(environment).substr(0, prefix.size()), prefix) << testing::PrintToString(environment);
  }
}

TEST(Environment, RankWithoutALauncherLearnsWhatIsMissing) {
  for (const Environment& environment : {Environment{}, Environment{{"RANK", "0"}}}) {
    const std::string message = refusal(environment);
    EXPECT_NE(message.find("no launcher told this rank its place"), std::string::npos) << message;
    EXPECT_NE(message.find("WORLD_SIZE"), std::string::npos) << message;
  }
}

TEST(Environment, WhatIsWrittenIsRead) {
  const Place place{
      .rank = 0, .world_size = 8, .master_port = 4711, .listen_descriptor = 9, .supervisor_descriptor = 8};
  const Variables variables(torchrun_variables_of(place));
  EXPECT_EQ(place_from_environment(), place);
}

TEST(Environment, DescriptorsOfAnOuterLockstepAreNotInherited) {
  const Variables variables({{"LOCKSTEP_LISTEN_FD", "7"}, {"LOCKSTEP_SUPERVISOR_FD", "8"}, {"RANK", "5"}});
  const Environment environment = inherited_environment();
  EXPECT_FALSE(environment.contains("LOCKSTEP_SUPERVISOR_FD"));
  EXPECT_FALSE(environment.contains("LOCKSTEP_LISTEN_FD"));
  EXPECT_EQ(environment.at("RANK"), "5");
}

TEST(Environment, BlockIsInOrderOfNames) {
  const Environment environment = {{"AB", "1"}, {"A", "2"}, {"B", ""}};
  EXPECT_EQ(environment_block(environment, false), (std::vector<std::string>{"A=2", "AB=1", "B="}));
  EXPECT_EQ(environment_block(environment, true), (std::vector<std::string>{"B=", "AB=1", "A=2"}));
}

}  // namespace
}  // namespace lockstep::launch
