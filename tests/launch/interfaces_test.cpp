#include "harness/launch/interfaces.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

const std::set<std::string> kHere = {"docker0", "eth0", "eth1", "lo"};

TEST(Interfaces, ValuesAreReadAsGlooAndNcclReadThem) {
  const std::tuple<const char*, const char*, InterfaceChoice> cases[] = {
      {kGlooInterfaces, "eth0", {.names = {"eth0"}}},
      {kGlooInterfaces, "eth0,ib0", {.names = {"eth0", "ib0"}}},
      {kGlooInterfaces, "=eth0", {.names = {"=eth0"}}},
      {kGlooInterfaces, "^lo", {.names = {"^lo"}}},
      {kGlooInterfaces, "eth0,,lo", {.names = {"eth0", "", "lo"}}},
      {kGlooInterfaces, "", {}},
      {kGlooInterfaces, "x", {}},
      {kNcclInterfaces, "eth", {.names = {"eth"}, .exact = false, .each = false}},
      {kNcclInterfaces, "eth,,ib:1", {.names = {"eth", "ib"}, .exact = false, .each = false}},
      {kNcclInterfaces, "=eth0:1,ib0", {.names = {"eth0", "ib0"}, .exact = true, .each = false}},
      {kNcclInterfaces, "^docker,lo", {.names = {"docker", "lo"}, .excludes = true, .exact = false, .each = false}},
      {kNcclInterfaces, "^=lo", {.names = {"lo"}, .excludes = true, .exact = true, .each = false}},
      {kNcclInterfaces, "e", {.exact = false, .each = false}}};
  for (const auto& [variable, value, choice] : cases)
    EXPECT_EQ(parse_interface_choice(variable, value), choice) << variable << "=" << value;
}

TEST(Interfaces, AChoiceThatFindsNothingIsRefused) {
  for (const char* good : {"lo", "eth0,lo", "", "x"})
    EXPECT_NO_THROW(require_interfaces({{kGlooInterfaces, good}}, {kGlooInterfaces}, kHere)) << good;
  for (const char* good : {"eth", "ib,eth", "=ib0,lo:0", "^docker,lo", "^=eth", "^ib"})
    EXPECT_NO_THROW(require_interfaces({{kNcclInterfaces, good}}, {kNcclInterfaces}, kHere)) << good;
  for (const char* bad : {"nowhere0", "eth0,nowhere0", "eth", "=eth0", "^lo", "eth0, lo", "eth0,,lo"})
    EXPECT_THROW(require_interfaces({{kGlooInterfaces, bad}}, {kGlooInterfaces}, kHere), InputError) << bad;
  for (const char* bad : {"ib", "=eth", "=ib0,ib1", "^docker,eth,lo", "^=docker0,eth0,eth1,lo"})
    EXPECT_THROW(require_interfaces({{kNcclInterfaces, bad}}, {kNcclInterfaces}, kHere), InputError) << bad;
}

TEST(Interfaces, ARefusalNamesVariableValueAndWhatIsThere) {
  try {
    require_interfaces({{kGlooInterfaces, "eth0,nowhere0"}}, {kGlooInterfaces, kNcclInterfaces}, kHere);
    FAIL();
  } catch (const InputError& error) {
    for (const char* part : {"names no interface of this machine: 'nowhere0'", "GLOO_SOCKET_IFNAME=eth0,nowhere0",
                             "docker0, eth0, eth1, lo"})
      EXPECT_NE(std::string(error.what()).find(part), std::string::npos) << error.what();
  }
}

TEST(Interfaces, OnlyTheVariablesOfTheDeviceAreLookedAt) {
  const auto cpu = interface_variables_of("cpu"), gpu = interface_variables_of("cuda");
  EXPECT_NO_THROW(require_interfaces({{kNcclInterfaces, "ib"}}, cpu, kHere));
  EXPECT_THROW(require_interfaces({{kNcclInterfaces, "ib"}}, gpu, kHere), InputError);
  EXPECT_THROW(require_interfaces({{kGlooInterfaces, "ib"}}, gpu, kHere), InputError);
}

TEST(Interfaces, OfThisMachineTheLoopbackIsOne) { EXPECT_TRUE(interfaces_with_address().contains("lo")); }

TEST(Interfaces, ARunIsRefusedBeforeAnyIsStarted) {
  const Scratch scratch;
  const Job first = scratch.job("first", 1, {"mark", "in"});
  Job job = scratch.job("run", 2, {});
  job.interface_variables = {kGlooInterfaces};
  job.rank_environment[1][kGlooInterfaces] = "nowhere0";
  EXPECT_THROW(run_locally({first, job}, 4), InputError);
  job.rank_environment.clear();
  job.environment[kGlooInterfaces] = "nowhere0";
  EXPECT_THROW(run_locally({first, job}, 4), InputError);
  EXPECT_FALSE(std::filesystem::exists(first.directory / "in.0"));
  job.environment[kGlooInterfaces] = "lo";
  EXPECT_EQ(run_locally({first, job}, 4)[1].status, RunOutcome::Status::kFinished);
  EXPECT_TRUE(std::filesystem::exists(first.directory / "in.0"));
}

}  // namespace
}  // namespace lockstep::launch
