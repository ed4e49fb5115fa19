#include "harness/launch/place.h"

#include <cstdlib>
#include <fstream>
#include <utility>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/launch/listener.h"
#include "harness/launch/place/manual.h"
#include "harness/launch/place/slurm.h"

#include "tests/launch/run_fixture.h"

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
std::string refusal(const Environment& environment, const std::vector<std::string>& arguments = {}) {
  try {
    resolve_place(environment, arguments);
  } catch (const InputError& error) {
    return error.what();
  }
  return "";
}

Environment with(Environment environment, const Environment& changes) {
  for (const auto& [name, value] : changes) environment[name] = value;
  return environment;
}

Environment without(Environment environment, const std::string& name) {
  environment.erase(name);
  return environment;
}

/// Variables as a launcher set them (environments/).
Environment recorded(const std::string& name) {
  std::ifstream file(recorded_environments() / (name + ".env"));
  Environment environment;
  for (std::string line; std::getline(file, line);) {
    const std::size_t equals = line.find('=');
    if (!line.starts_with("#")) environment[line.substr(0, equals)] = line.substr(equals + 1);
  }
  EXPECT_FALSE(environment.empty()) << name;
  return environment;
}

TEST(Place, RecordedEnvironmentsAreUnderstood) {
  struct Case {
    const char* name;
    const char* launcher;
    Place place;
  };
  const char* const store = "/worker/attempt_0";
  const Case cases[] = {
      {"torchrun-standalone",
       "torchrun",
       {.rank = 1, .local_rank = 1, .world_size = 2, .node = 0, .master_address = "localhost", .store_prefix = store}},
      {"torchrun-static",
       "torchrun",
       {.rank = 3, .local_rank = 1, .world_size = 4, .node = 1, .master_port = 29611, .store_prefix = store}},
      {"torchrun-c10d",
       "torchrun",
       {.rank = 3, .local_rank = 1, .world_size = 4, .node = 1, .master_address = "localhost", .store_prefix = store}},
      {"srun-torchrun",
       "torchrun",
       {.rank = 3, .local_rank = 1, .world_size = 4, .node = 1, .master_address = "localhost", .store_prefix = store}},
      {"accelerate", "torchrun", {.rank = 1, .local_rank = 1, .world_size = 2, .node = 0, .store_prefix = store}},
      {"open-mpi", "open_mpi", {.rank = 1, .local_rank = 1, .world_size = 2, .node = 0, .master_port = 29500}},
      {"srun",
       "slurm",
       {.rank = 3, .local_rank = 0, .world_size = 4, .node = 1, .master_address = "n1", .master_port = 29500}},
      {"pytorch-job-before",
       "nodes",
       {.rank = 3,
        .local_rank = 1,
        .world_size = 4,
        .node = 1,
        .master_address = "job-master-0",
        .master_port = 23456}},
      {"pytorch-job-after",
       "nodes",
       {.rank = 3,
        .local_rank = 1,
        .world_size = 4,
        .node = 1,
        .master_address = "job-master-0",
        .master_port = 23456}},
      {"sensecore",
       "nodes",
       {.rank = 7, .local_rank = 3, .world_size = 8, .node = 1, .master_address = "10.119.0.4", .master_port = 12345}}};
  for (const Case& one : cases) {
    Resolution found = resolve_place(recorded(one.name));
    EXPECT_EQ(found.launcher, one.launcher) << one.name;
    EXPECT_GT(found.place.master_port, 0) << one.name;
    EXPECT_FALSE(found.variables.empty());
    if (one.place.master_port == 0) found.place.master_port = 0;  // chosen by the launcher
    EXPECT_EQ(found.place, one.place) << one.name;
  }
}

TEST(Place, OtherMpisHaveTheirOwnNames) {
  const Environment mvapich = {
      {"MV2_COMM_WORLD_RANK", "2"},       {"MV2_COMM_WORLD_SIZE", "4"}, {"MV2_COMM_WORLD_LOCAL_RANK", "0"},
      {"MV2_COMM_WORLD_LOCAL_SIZE", "2"}, {"MASTER_ADDR", "a"},         {"MASTER_PORT", "9"}};
  const Environment mpich = {
      {"PMI_RANK", "2"}, {"PMI_SIZE", "4"}, {"MPI_LOCALRANKID", "0"}, {"MASTER_ADDR", "a"}, {"MASTER_PORT", "9"}};
  for (const auto& [name, environment] : {std::pair{"mvapich", mvapich}, std::pair{"pmi", mpich}}) {
    const Resolution found = resolve_place(environment);
    EXPECT_EQ(found.launcher, name);
    EXPECT_EQ(found.place,
              (Place{.rank = 2, .local_rank = 0, .world_size = 4, .master_address = "a", .master_port = 9}));
  }
}

/// As training-operator sets it for a job that does not say how many processes a pod has.
TEST(Place, APodThatCountsByItselfHasOneProcess) {
  const Environment pod = {{"MASTER_ADDR", "h"}, {"MASTER_PORT", "23456"}, {"PET_NPROC_PER_NODE", "auto"},
                           {"PET_NNODES", "2"},  {"PET_NODE_RANK", "1"},   {"RANK", "1"},
                           {"WORLD_SIZE", "2"}};
  const Place place = resolve_place(pod).place;
  EXPECT_EQ(place.rank, 1);
  EXPECT_EQ(place.local_rank, 0);
  EXPECT_EQ(place.world_size, 2);
  const Place of_two = resolve_place(with(pod, {{"NPROC_PER_NODE", "2"}, {"LOCAL_RANK", "1"}})).place;  // who says so
  EXPECT_EQ(of_two.rank, 3);
  EXPECT_EQ(of_two.world_size, 4);
}

TEST(Place, ALocalRankIsTakenFromTheShellIfTheLauncherTellsNone) {
  const Environment mpich = {{"PMI_RANK", "3"}, {"PMI_SIZE", "4"}, {"MASTER_PORT", "9"}};
  EXPECT_EQ(resolve_place(mpich).place.local_rank, 3);
  EXPECT_EQ(resolve_place(with(mpich, {{"LOCAL_RANK", "1"}})).place.local_rank, 1);
  EXPECT_NE(refusal(with(mpich, {{"LOCAL_RANK", "4"}})).find("LOCAL_RANK"), std::string::npos);
}

TEST(Place, SaysWhichVariablesItRead) {
  EXPECT_EQ(resolve_place(recorded("open-mpi")).variables,
            (std::vector<std::string>{"OMPI_COMM_WORLD_SIZE", "OMPI_COMM_WORLD_RANK", "OMPI_COMM_WORLD_LOCAL_RANK",
                                      "OMPI_COMM_WORLD_LOCAL_SIZE", "MASTER_PORT"}));
}

/// Contradictions, by the names that their message must hold.
TEST(Place, ContradictionsAreRefusedByName) {
  const Environment torchrun = recorded("torchrun-standalone"), srun = recorded("srun"), mpi = recorded("open-mpi"),
                    before = recorded("pytorch-job-before"), after = recorded("pytorch-job-after");
  const Environment manual = {{"RANK", "0"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  const std::pair<Environment, std::vector<std::string>> cases[] = {
      // torchrun's variables left over in a shell
      {with(torchrun, {{"RANK", "0"}}), {"RANK and ROLE_RANK", "left over"}},
      {with(torchrun, {{"WORLD_SIZE", "4"}}), {"WORLD_SIZE and ROLE_WORLD_SIZE", "left over"}},
      {with(torchrun, {{"LOCAL_RANK", "0"}}), {"RANK and LOCAL_RANK"}},
      {with(srun, torchrun), {"RANK and SLURM_PROCID", "torchrun: rank 1 of 2", "SLURM_PROCID=3"}},
      {with(recorded("srun-torchrun"), {{"SLURM_STEP_NUM_TASKS", "3"}}), {"RANK and SLURM_PROCID"}},
      {with(mpi, with(torchrun, {{"OMPI_COMM_WORLD_SIZE", "4"}})), {"RANK and OMPI_COMM_WORLD_RANK"}},
      {with(torchrun, {{"MASTER_PORT", "0"}}), {"MASTER_PORT"}},
      // variables of hand and of a launcher
      {with(srun, {{"RANK", "0"}, {"WORLD_SIZE", "4"}}), {"SLURM_PROCID and RANK", "slurm: rank 3 of 4", "RANK=0"}},
      {with(mpi, {{"RANK", "0"}}), {"OMPI_COMM_WORLD_RANK and RANK", "RANK=0"}},
      {with(mpi, {{"WORLD_SIZE", "4"}}), {"OMPI_COMM_WORLD_SIZE and WORLD_SIZE", "WORLD_SIZE=4"}},
      {with(mpi, {{"LOCAL_RANK", "0"}}), {"OMPI_COMM_WORLD_LOCAL_RANK and LOCAL_RANK"}},
      {with(srun, {{"LOCAL_RANK", "1"}}), {"SLURM_LOCALID and LOCAL_RANK"}},
      {with(mpi, with(srun, {{"SLURM_STEP_NUM_TASKS", "2"}, {"SLURM_PROCID", "0"}, {"SLURM_LOCALID", "1"}})),
       {"OMPI_COMM_WORLD_RANK and SLURM_PROCID"}},  // two tasks on one node are no daemons
      // sizes that no launcher sets
      {with(torchrun, {{"GROUP_RANK", "1"}}), {"GROUP_RANK", "0 to 0"}},
      {with(recorded("torchrun-c10d"), {{"GROUP_WORLD_SIZE", "8"}}), {"GROUP_WORLD_SIZE", "at most WORLD_SIZE"}},
      {with(recorded("torchrun-c10d"), {{"LOCAL_WORLD_SIZE", "4"}}), {"LOCAL_WORLD_SIZE"}},
      {with(manual, {{"NODE_RANK", "7"}}), {"NODE_RANK", "0 to 1"}},
      {with(manual, {{"MASTER_ADDR", "127.0.0.1:29501"}}), {"MASTER_ADDR", "a host alone"}},
      {with(manual, {{"MASTER_ADDR", "a b"}}), {"MASTER_ADDR", "a host alone"}},
      {with(mpi, {{"PMI_RANK", "0"}, {"PMI_SIZE", "2"}}), {"OMPI_COMM_WORLD_RANK and PMI_RANK"}},
      // nodes counted as processes
      {with(srun, {{"WORLD_SIZE", "2"}}), {"WORLD_SIZE and SLURM_STEP_NUM_TASKS", "counts processes"}},
      {without(before, "NPROC_PER_NODE"), {}},  // nothing tells it from two processes
      {with(without(recorded("sensecore"), "NPROC_PER_NODE"), {}), {"WORLD_SIZE and LOCAL_RANK", "NPROC_PER_NODE"}},
      {with(manual, {{"LOCAL_WORLD_SIZE", "4"}}), {"WORLD_SIZE and LOCAL_WORLD_SIZE", "NPROC_PER_NODE"}},
      {without(before, "LOCAL_RANK"), {"LOCAL_RANK", "RANK counts nodes"}},
      {with(after, {{"WORLD_SIZE", "3"}}), {"WORLD_SIZE and PET_NNODES", "WORLD_SIZE = 4"}},
      {with(after, {{"PET_NODE_RANK", "0"}}), {"RANK and PET_NODE_RANK"}},
      {with(after, {{"NPROC_PER_NODE", "4"}}), {"NPROC_PER_NODE and PET_NPROC_PER_NODE"}},
      {with(after, {{"PET_NPROC_PER_NODE", "auto"}}), {"WORLD_SIZE and PET_NNODES", "of 1 processes"}},
      {with(after, {{"PET_NPROC_PER_NODE", "many"}}), {"PET_NPROC_PER_NODE", "a number"}},
      {with(mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "8"}}), {"OMPI_COMM_WORLD_LOCAL_SIZE"}},
      {with(srun, {{"SLURM_NODEID", "7"}}), {"SLURM_NODEID", "0 to 1"}},
      {with(after, {{"PET_NNODES", "1:4"}}), {"PET_NNODES", "a number"}},
      {without(after, "MASTER_ADDR"), {"MASTER_ADDR", "not set"}},
      // no rank, or half of one
      {recorded("sbatch"), {"SLURM_STEP_NUM_TASKS", "a batch script is no rank"}},
      {without(srun, "MASTER_PORT"), {"MASTER_PORT", "not set"}},
      {without(mpi, "MASTER_PORT"), {"MASTER_PORT", "not set"}},
      {with(mpi, {{"OMPI_COMM_WORLD_LOCAL_SIZE", "1"}, {"OMPI_COMM_WORLD_LOCAL_RANK", "0"}}),
       {"MASTER_ADDR", "the host of rank 0"}},
      {without(mpi, "OMPI_COMM_WORLD_SIZE"), {"OMPI_COMM_WORLD_SIZE", "not set"}}};
  for (const auto& [environment, parts] : cases) {
    const std::string message = refusal(environment);
    EXPECT_EQ(message.empty(), parts.empty()) << message << testing::PrintToString(environment);
    for (const std::string& part : parts) EXPECT_NE(message.find(part), std::string::npos) << part << ":\n" << message;
  }
}

TEST(Place, LaunchersThatAgreeAreAccepted) {
  const Environment srun = recorded("srun"), batch = recorded("sbatch");
  EXPECT_EQ(resolve_place(with(srun, {{"RANK", "3"}, {"WORLD_SIZE", "4"}})).place.rank, 3);
  const Environment by_hand = {{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "29500"}};
  EXPECT_EQ(resolve_place(with(recorded("open-mpi"), by_hand)).launcher, "open_mpi");
  EXPECT_EQ(refusal(with(batch, recorded("open-mpi"))), "") << "mpirun in a batch script";
  EXPECT_EQ(refusal(with(batch, recorded("torchrun-standalone"))), "") << "torchrun in a batch script";
  // A rank that lockstep starts itself stands where lockstep says, wherever lockstep runs.
  Environment own =
      variables_of({.rank = 1, .local_rank = 1, .world_size = 2, .master_port = 9, .supervisor_descriptor = 3});
  EXPECT_EQ(resolve_place(with(with(srun, recorded("torchrun-standalone")), own)).place.rank, 1);
}

TEST(Place, ReservedPortsOfAStepAreUsed) {
  const Environment step = with(without(recorded("srun"), "MASTER_PORT"), {{"SLURM_STEP_RESV_PORTS", "12001-12004"}});
  EXPECT_EQ(resolve_place(step).place.master_port, 12001);
  EXPECT_EQ(resolve_place(with(step, {{"MASTER_PORT", "7"}})).place.master_port, 7);
}

TEST(Place, FreePortsAreOutsideThoseOfConnectionsAndOtherForOtherSeeds) {
  const std::uint16_t one = free_port(7);
  EXPECT_EQ(free_port(7), one);
  EXPECT_EQ(free_port(8), one + 1);
  EXPECT_GE(one, 20000);
  const Listener taken = listen_on_loopback(1);
  EXPECT_GT(taken.port, free_port(12345));
  EXPECT_FALSE(listens("127.0.0.1", one));
}

TEST(Place, HostlistsBeginWithTheirFirstNode) {
  const std::pair<const char*, const char*> cases[] = {
      {"n1", "n1"},        {"n[1-2]", "n1"},      {"a,b", "a"}, {"a-[01-03],b2", "a-01"}, {"gpu[7,9]-x", "gpu7-x"},
      {"b2,a[1-3]", "b2"}, {"node[12]", "node12"}};
  for (const auto& [list, first] : cases) EXPECT_EQ(first_of_hostlist(list), first);
}

TEST(Place, ArgumentsTellAPlace) {
  const Environment port = {{"MASTER_PORT", "8000"}};
  const Resolution found = resolve_place(port, {"rank=1", "world_size=4"});
  EXPECT_EQ(found.launcher, "arguments");
  EXPECT_EQ(found.place, (Place{.rank = 1, .local_rank = 1, .world_size = 4, .master_port = 8000}));
  const std::vector<std::string> all = {"rank=1", "world_size=4", "local_rank=0", "master_addr=a", "master_port=9"};
  EXPECT_EQ(resolve_place({}, all).place,
            (Place{.rank = 1, .local_rank = 0, .world_size = 4, .master_address = "a", .master_port = 9}));
  const auto met = [&](const std::string& method) {
    return resolve_place(port, {"rank=1", "world_size=4", "init_method=" + method}).place;
  };
  EXPECT_EQ(met("env://"), found.place);
  EXPECT_EQ(met("tcp://a.b:9"),
            (Place{.rank = 1, .local_rank = 1, .world_size = 4, .master_address = "a.b", .master_port = 9}));
  EXPECT_EQ(met("tcp://[::1]:9").master_address, "::1");
  EXPECT_EQ(met("file:///a/b").store_file, "/a/b");
  const std::pair<std::vector<std::string>, const char*> refused[] = {
      {{"rank=1"}, "the argument world_size= "},
      {{"world_size=2"}, "the argument rank= "},
      {{"rank=2", "world_size=2"}, "the argument rank= "},
      {{"rank=", "world_size=2"}, "the argument rank= "},
      {{"init_method=tcp://a:9"}, "the argument world_size= "},
      {{"rank=0", "world_size=2", "init_method=tcp://a"}, "the argument init_method= "},
      {{"rank=0", "world_size=2", "init_method=tcp://:9"}, "the argument init_method= "},
      {{"rank=0", "world_size=2", "init_method=tcp://a:9x"}, "the argument init_method= "},
      {{"rank=0", "world_size=2", "init_method=tcp://a:65536"}, "65535"},
      {{"rank=0", "world_size=2", "init_method=file://a"}, "the argument init_method= "},
      {{"rank=0", "world_size=2", "init_method=file:///"}, "the argument init_method= "},
      {{"rank=0", "world_size=2", "init_method=mpi://"}, "the argument init_method= "},
      {{"rank=0", "world_size=2", "init_method=tcp://a:9", "master_port=9"}, "init_method= and master_port="},
      {{"rank=0", "rank=1", "world_size=2"}, "rank= (given twice)"}};
  for (const auto& [arguments, part] : refused)
    EXPECT_NE(refusal(port, arguments).find(part), std::string::npos) << refusal(port, arguments);
  const Environment shell = {{"RANK", "0"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "8000"}};
  EXPECT_NE(refusal(shell, {"rank=1", "world_size=4"}).find("rank= and RANK"), std::string::npos);
}

TEST(Place, LocalRankMayStandOnTheCommandLine) {
  const Environment shell = {{"RANK", "3"}, {"WORLD_SIZE", "4"}, {"MASTER_PORT", "8000"}};
  EXPECT_EQ(resolve_place(shell, {"--local_rank=1"}).place.local_rank, 1) << "up to torch 1.13";
  EXPECT_EQ(resolve_place(shell, {"--local-rank=1"}).place.local_rank, 1) << "since torch 2.0";
  EXPECT_NE(refusal(recorded("torchrun-static"), {"--local-rank=0"}).find("--local-rank and LOCAL_RANK"),
            std::string::npos);
}

TEST(Place, AProgramThatStartsRanksIsToldNoPlace) {
  for (const char* name : {"torchrun-standalone", "open-mpi", "srun", "srun-torchrun"}) {
    Environment environment = recorded(name);
    forget_place(environment);
    EXPECT_NE(refusal(environment).find("no launcher gave this rank its place"), std::string::npos) << name;
  }
}

TEST(Place, AnAgentThatIsGoneIsNamed) {
  const Environment left_over =
      with(recorded("torchrun-standalone"), {{"MASTER_PORT", std::to_string(listen_on_loopback(1).port)}});
  for (const auto& [name, value] : left_over) ::setenv(name.c_str(), value.c_str(), 1);
  std::string message;
  try {
    place_of_this_process();
  } catch (const InputError& error) {
    message = error.what();
  }
  for (const auto& [name, value] : left_over) ::unsetenv(name.c_str());
  EXPECT_NE(message.find("left over in this shell"), std::string::npos) << message;
}

TEST(Environment, ReadsAPlace) {
  EXPECT_EQ(
      resolve_place(
          {{"RANK", "3"}, {"LOCAL_RANK", "1"}, {"WORLD_SIZE", "4"}, {"MASTER_ADDR", "node1"}, {"MASTER_PORT", "29500"}})
          .place,
      (Place{.rank = 3, .local_rank = 1, .world_size = 4, .master_address = "node1", .master_port = 29500}));
}

TEST(Environment, FillsInWhatIsClear) {
  EXPECT_EQ(resolve_place({{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}}).place,
            (Place{.rank = 1, .local_rank = 1, .world_size = 2, .master_port = 1}));
}

TEST(Environment, ReadsBackWhatItSays) {
  const Place place{.rank = 2, .local_rank = 2, .world_size = 3, .master_port = 7, .step_delay_ms = 15};
  EXPECT_EQ(resolve_place(variables_of(place)).place, place);
  const Variables variables(variables_of(place));
  EXPECT_EQ(place_of_this_process().place, place);
  EXPECT_FALSE(inherited_environment().contains("LOCKSTEP_STEP_DELAY_MS"));
}

TEST(Environment, SingleRankNeedsNoPort) {
  EXPECT_EQ(resolve_place({{"RANK", "0"}, {"WORLD_SIZE", "1"}}).place, Place{});
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
      {{{"RANK", "1"}, {"WORLD_SIZE", "2"}, {"MASTER_PORT", "1"}, {"LOCKSTEP_LISTEN_FD", "5"}}, "LOCKSTEP_LISTEN_FD"},
      {{{"RANK", "0"}, {"WORLD_SIZE", "1"}, {"LOCKSTEP_LISTEN_FD", "x"}}, "LOCKSTEP_LISTEN_FD"}};
  for (const auto& [environment, name] : cases) {
    const std::string prefix = std::string("the environment variable ") + name + " ";
    EXPECT_EQ(refusal(environment).substr(0, prefix.size()), prefix) << testing::PrintToString(environment);
  }
}

TEST(Environment, RankWithoutALauncherLearnsWhatIsMissing) {
  for (const Environment& environment : {Environment{}, Environment{{"MASTER_PORT", "1"}}}) {
    const std::string message = refusal(environment);
    EXPECT_NE(message.find("no launcher gave this rank its place"), std::string::npos) << message;
  }
}

TEST(Environment, WhatIsWrittenIsRead) {
  const Place place{
      .rank = 0, .world_size = 8, .master_port = 4711, .listen_descriptor = 9, .supervisor_descriptor = 8};
  EXPECT_EQ(resolve_place(variables_of(place)).place, place);
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
