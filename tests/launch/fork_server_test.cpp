// Ranks that a server forks are what executed ones would be.

#include "harness/launch/fork_server.h"

#include <chrono>
#include <csignal>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <optional>
#include <stdexcept>
#include <string>
#include <thread>
#include <vector>

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <unistd.h>

#include "harness/base/build_id.h"
#include "harness/launch/fork_request.h"
#include "harness/launch/local.h"
#include "harness/launch/processes.h"
#include "harness/launch/serve.h"

#include "tests/launch/run_fixture.h"

namespace lockstep::launch {
namespace {

using Status = RunOutcome::Status;

Job forked(Job job) {
  job.fork_group = 0;
  return job;
}

RunOutcome run_from(ForkServers& servers, const Job& job) {
  LocalLauncher launcher(8, servers);
  Observer nobody;
  return launch_all({job}, launcher, nobody).at(0);
}

std::string content_of(const std::string& file) {
  std::ifstream stream(file, std::ios::binary);
  return {std::istreambuf_iterator<char>(stream), {}};
}

/// Children of this process that serve.
std::vector<pid_t> serving() {
  std::vector<pid_t> found;
  for (const auto& entry : std::filesystem::directory_iterator("/proc")) {
    const std::string name = entry.path().filename();
    if (name.find_first_not_of("0123456789") != std::string::npos) continue;
    const auto state = state_of(std::stoi(name));
    const bool ours = state && state->parent == ::getpid() && state->letter != 'Z';
    if (ours && content_of(entry.path() / "cmdline").find("--serve") != std::string::npos)
      found.push_back(std::stoi(name));
  }
  return found;
}

int open_descriptors() {
  const std::filesystem::directory_iterator all("/proc/self/fd");
  return static_cast<int>(std::distance(begin(all), end(all)));
}

/// Waits for the mark of each rank, then says which of them are forked: the place of a forked one is not in the
/// environment that it began with.
std::vector<bool> forked_ranks(const Scratch& scratch, const std::string& run, int world_size, pid_t supervisor) {
  std::vector<bool> found;
  for (int rank = 0; rank < world_size; ++rank) {
    const pid_t pid = scratch.pid(run, "in." + std::to_string(rank));
    const std::string proc = "/proc/" + std::to_string(pid) + "/";
    found.push_back(content_of(proc + "environ").find(std::string(1, '\0') + "WORLD_SIZE=") == std::string::npos);
    EXPECT_NE(content_of(proc + "environ").find(std::string(1, '\0') + "LOCKSTEP_RUN_ID=" + std::to_string(supervisor)),
              std::string::npos);
    EXPECT_NE(content_of(proc + "cmdline").find(std::string("mark\0in", 7)), std::string::npos);
  }
  return found;
}

/// Starts a run in a process of its own, and looks at its ranks while they wait.
std::vector<bool> how_started(const Scratch& scratch, const Job& job, const std::string& go) {
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  const std::vector<bool> found = forked_ranks(scratch, job.run, static_cast<int>(job.world_size), supervisor);
  std::ofstream(job.directory / go) << "";
  EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kFinished));
  return found;
}

TEST(ForkServer, ForksWhereTheJobAllowsIt) {
  const Scratch scratch;
  const std::vector<std::string> script = {"mark", "in", "await", "go"};
  EXPECT_EQ(how_started(scratch, forked(scratch.job("forked", 2, script)), "go"), (std::vector<bool>{true, true}));
  Job executed = scratch.job("executed", 2, script);
  executed.fork_group.reset();
  EXPECT_EQ(how_started(scratch, executed, "go"), (std::vector<bool>{false, false}));
}

TEST(ForkServer, ScriptsAndProgramsThatDoNotServeAreExecuted) {
  const Scratch scratch;
  const std::string file = scratch.path() / "rank.sh";
  std::ofstream(file) << "#!/bin/sh\nprintf \"rank $RANK\"\n";
  std::filesystem::permissions(file, std::filesystem::perms::owner_all);
  Job script = forked(scratch.job("script", 2, {}));
  script.command = {file};
  Job binary = forked(scratch.job("binary", 2, {}));
  binary.command = {"/bin/sh", "-c", "printf \"rank $RANK\""};
  ForkServers servers;
  for (const Job& job : {script, binary}) {
    EXPECT_EQ(run_from(servers, job).status, Status::kFinished);
    EXPECT_EQ(scratch.text(job.run, "rank1.log"), "rank 1");
  }
  EXPECT_TRUE(serving().empty());
}

TEST(ForkServer, AnInterruptionIsSeenWhileAServerLoads) {
  const Scratch scratch;
  Job job = forked(scratch.job("run", 2, {"hang"}));
  job.environment["LOCKSTEP_TEST_LOADS_FOR_EVER"] = "1";
  const auto begin = std::chrono::steady_clock::now();
  const pid_t supervisor = fork_supervisor([&] { return static_cast<int>(run_one(job).status); });
  std::this_thread::sleep_for(std::chrono::milliseconds(300));
  EXPECT_TRUE(alive(supervisor));
  ::kill(supervisor, SIGINT);
  EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kInterrupted));
  EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20)) << "it gave the server up";
}

/// The environment that a program reads, in its order, is that of an executed one.
TEST(ForkServer, RanksOfAnotherEnvironmentHaveAnotherServer) {
  const Scratch scratch;
  Job job = forked(scratch.job("run", 3, {"variable", "OMP_WAIT_POLICY", "variable", "RANK"}));
  job.environment["OMP_WAIT_POLICY"] = "PASSIVE";
  job.rank_environment[1]["OMP_WAIT_POLICY"] = "ACTIVE";
  ForkServers servers;
  EXPECT_EQ(run_from(servers, job).status, Status::kFinished);
  EXPECT_EQ(scratch.text("run", "rank0.log"), "PASSIVE\n0\n");
  EXPECT_EQ(scratch.text("run", "rank1.log"), "ACTIVE\n1\n");
  EXPECT_EQ(scratch.text("run", "rank2.log"), "PASSIVE\n2\n");
  EXPECT_EQ(serving().size(), 2);
}

/// A training whose bits depend on addresses shows it in repeats alone, so these must have others.
TEST(ForkServer, GroupsHaveTheirOwnAddresses) {
  if (content_of("/proc/sys/kernel/randomize_va_space").front() == '0') GTEST_SKIP() << "addresses are not random here";
  const Scratch scratch;
  ForkServers servers;
  std::vector<std::string> addresses;
  for (const std::int64_t group : {0, 0, 1}) {
    Job job = scratch.job("run" + std::to_string(addresses.size()), 1, {"address"});
    job.fork_group = group;
    EXPECT_EQ(run_from(servers, job).status, Status::kFinished);
    addresses.push_back(scratch.text(job.run, "rank0.log"));
  }
  EXPECT_EQ(addresses[0], addresses[1]);
  EXPECT_NE(addresses[0], addresses[2]);
}

TEST(ForkServer, KeepsFewServers) {
  const Scratch scratch;
  ForkServers servers;
  for (int i = 0; i < 8; ++i) {
    Job job = forked(scratch.job("run" + std::to_string(i), 1, {}));
    job.environment["NUMBER"] = std::to_string(i);
    EXPECT_EQ(run_from(servers, job).status, Status::kFinished);
  }
  EXPECT_LE(serving().size(), 4);
}

TEST(ForkServer, DeadServerIsReplaced) {
  const Scratch scratch;
  ForkServers servers;
  EXPECT_EQ(run_from(servers, forked(scratch.job("first", 2, {}))).status, Status::kFinished);
  const std::vector<pid_t> first = serving();
  ASSERT_EQ(first.size(), 1);
  ::kill(first[0], SIGKILL);
  EXPECT_EQ(run_from(servers, forked(scratch.job("second", 2, {"print", "there"}))).status, Status::kFinished);
  EXPECT_EQ(scratch.text("second", "rank0.log"), "there\n");
  EXPECT_EQ(scratch.text("second", "rank1.log"), "there\n");
  const std::vector<pid_t> second = serving();
  ASSERT_EQ(second.size(), 1);
  EXPECT_NE(second[0], first[0]);
}

// Somebody may look at a server with a debugger, or have stopped all that lockstep started.
TEST(ForkServer, AStoppedServerIsLeft) {
  const Scratch scratch;
  ForkServers servers(std::chrono::milliseconds(300));
  EXPECT_EQ(run_from(servers, forked(scratch.job("first", 1, {}))).status, Status::kFinished);
  const std::vector<pid_t> first = serving();
  ASSERT_EQ(first.size(), 1);
  ::kill(first[0], SIGSTOP);
  Job large = forked(scratch.job("second", 2, {"print", "there"}));
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_from(servers, large).status, Status::kFinished);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
  EXPECT_EQ(scratch.text("second", "rank0.log"), "there\n");
  EXPECT_EQ(scratch.text("second", "rank1.log"), "there\n");
  EXPECT_FALSE(state_of(first[0])) << "it is gone";
}

TEST(ForkServer, AStoppedServerThatDoesNotReadIsLeft) {
  const Scratch scratch;
  ForkServers servers(std::chrono::milliseconds(300));
  Job large = forked(scratch.job("first", 1, {}));
  for (int i = 0; i < 10; ++i) large.environment["LARGE" + std::to_string(i)] = std::string(100'000, 'x');
  EXPECT_EQ(run_from(servers, large).status, Status::kFinished);
  for (const pid_t server : serving()) ::kill(server, SIGSTOP);
  Job second = forked(scratch.job("second", 1, {}));
  second.environment = large.environment;
  const auto start = std::chrono::steady_clock::now();
  EXPECT_EQ(run_from(servers, second).status, Status::kFinished);
  EXPECT_LT(std::chrono::steady_clock::now() - start, std::chrono::seconds(4));
}

TEST(ForkServer, RanksOutliveTheirServer) {
  const Scratch scratch;
  const Job job = forked(scratch.job("run", 2, {"mark", "in", "await", "go", "print", "done"}));
  const pid_t supervisor = fork_supervisor([&] {
    ForkServers servers;
    LocalLauncher launcher(8, servers);
    launcher.start(0, job);
    for (int rank = 0; rank < 2; ++rank) scratch.pid("run", "in." + std::to_string(rank));
    for (const pid_t pid : serving()) ::kill(pid, SIGKILL);
    std::ofstream(job.directory / "go") << "";
    std::vector<Ended> ended;
    while (ended.empty()) ended = launcher.wait();
    return static_cast<int>(ended[0].outcome.status);
  });
  EXPECT_EQ(wait_for(supervisor), static_cast<int>(Status::kFinished));
  EXPECT_EQ(scratch.text("run", "rank1.log"), "done\n");
}

TEST(ForkServer, NothingIsLeftOpenOrAlive) {
  const Scratch scratch;
  {
    ForkServers servers;
    EXPECT_EQ(run_from(servers, forked(scratch.job("warm", 2, {}))).status, Status::kFinished);
    const int before = open_descriptors();
    for (int i = 0; i < 20; ++i) {
      EXPECT_EQ(run_from(servers, forked(scratch.job("run" + std::to_string(i), 3, {}))).status, Status::kFinished);
    }
    EXPECT_EQ(open_descriptors(), before);
    EXPECT_EQ(number_of_children(), 1);
  }
  EXPECT_EQ(number_of_children(), 0);
}

class ForkRequestTest : public ::testing::Test {
 protected:
  ForkRequestTest() {
    if (::socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends_) != 0) throw std::runtime_error("socketpair");
  }
  ~ForkRequestTest() override {
    for (const int end : ends_) ::close(end);
  }

  int ends_[2];
};

TEST_F(ForkRequestTest, ArrivesAsItWasSent) {
  const Descriptor log(::open("/dev/null", O_RDONLY | O_CLOEXEC)), report(::open("/dev/null", O_RDONLY | O_CLOEXEC));
  const ForkRequest sent{.build = "b",
                         .supervisor = 7,
                         .directory = "/tmp",
                         .arguments = {"worker", "", "--x=ü"},
                         .environment = {"A=1", "B="},
                         .inherited = {log.number()}};
  ASSERT_TRUE(send_request(ends_[0], sent, log.number(), report.number()));
  const std::optional<ReceivedRequest> got = receive_request(ends_[1]);
  ASSERT_TRUE(got);
  EXPECT_EQ(got->request.build, "b");
  EXPECT_EQ(got->request.supervisor, 7);
  EXPECT_EQ(got->request.directory, "/tmp");
  EXPECT_EQ(got->request.arguments, sent.arguments);
  EXPECT_EQ(got->request.environment, sent.environment);
  EXPECT_EQ(got->request.inherited, sent.inherited);
  EXPECT_EQ(got->descriptors.inherited.size(), 1);
}

TEST_F(ForkRequestTest, NonsenseIsRefused) {
  ASSERT_EQ(::write(ends_[0], "nonsense", 8), 8);
  EXPECT_FALSE(receive_request(ends_[1]));
}

TEST_F(ForkRequestTest, EndOfTheSenderIsTheEnd) {
  ::shutdown(ends_[0], SHUT_WR);
  EXPECT_FALSE(receive_request(ends_[1]));
}

/// A server of another build computes something else.
TEST_F(ForkRequestTest, OnlyTheSameBuildIsServed) {
  const OrphanKeeper orphans;  // ranks become our children
  const pid_t server = fork_supervisor([&] {
    ::close(ends_[0]);
    const std::string socket = std::to_string(ends_[1]);
    std::string words = std::string("worker") + '\0' + "--serve" + '\0' + socket + std::string(100, '\0');
    char* arguments[] = {words.data(), words.data() + 7, words.data() + 15};  // one behind the other, as main has them
    return serve(3, arguments, [](int, char**) { return 7; });
  });
  const Descriptor log(::open("/dev/null", O_WRONLY | O_CLOEXEC));
  const auto answer_to = [&](const std::string& build) {
    int report[2];
    if (::pipe2(report, O_CLOEXEC) != 0) throw std::runtime_error("pipe2");
    const Descriptor listen(report[0]);
    Descriptor write_end(report[1]);
    const ForkRequest request{.build = build, .supervisor = ::getpid(), .directory = "/"};
    EXPECT_TRUE(send_request(ends_[0], request, log.number(), write_end.number()));
    write_end.close();
    pid_t rank = 0;
    return ::read(listen.number(), &rank, sizeof rank) == sizeof rank ? rank : 0;
  };
  EXPECT_EQ(answer_to("another"), 0);
  const pid_t rank = answer_to(build_id());
  ASSERT_GT(rank, 0);
  EXPECT_EQ(wait_for(rank), 7);
  ::shutdown(ends_[0], SHUT_RDWR);
  EXPECT_EQ(wait_for(server), 0);
}

}  // namespace
}  // namespace lockstep::launch
