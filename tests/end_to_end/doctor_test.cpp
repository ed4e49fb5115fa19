// lockstep doctor says what a machine is, and what would make runs on it fail or differ.
#include <sys/stat.h>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class DoctorEndToEnd : public EndToEnd {
 protected:
  /// lockstep doctor of a scenario, behind some words of a shell.
  Outcome doctor(const std::string& before, const std::string& more = "") const {
    return run_program(
        {"/bin/sh", "-c", before + " \"$0\" doctor \"$1\" " + more, lockstep_program(), write(scenario())});
  }

  /// A program in a folder of its own, in front of all others in PATH.
  std::string with_program(const std::string& name, const std::string& script) const {
    const auto file = scratch_.write("programs/" + name, "#!/bin/sh\n" + script + "\n");
    EXPECT_EQ(::chmod(file.c_str(), 0755), 0);
    return "PATH='" + file.parent_path().string() + "':$PATH";
  }

  static void expect_problem(const Outcome& outcome, const std::vector<std::string>& parts) {
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    expect_says(outcome.out, parts);
  }
};

TEST_F(DoctorEndToEnd, AHealthyMachineIsDescribed) {
  const Outcome healthy = doctor("GLOO_SOCKET_IFNAME=lo NCCL_SOCKET_IFNAME=^docker");
  EXPECT_EQ(healthy.exit_code, 0) << healthy.out << healthy.err;
  expect_says(healthy.out, {"ok       processors", "ok       GPUs", "ok       interfaces", "lo", "ok       limits",
                            "open files", "/dev/shm", "ok       other launchers"});
}

TEST_F(DoctorEndToEnd, LaunchersInPathAreNamedWithTheirVersions) {
  const Outcome outcome = doctor(with_program("mpirun", "echo 'mpirun (Open MPI) 9.8.7'"));
  expect_says(outcome.out, {"mpirun 9.8.7"});
}

TEST_F(DoctorEndToEnd, GpusAreNamedWithTheirProcesses) {
  const std::string here =
      "case $* in *gpu=*) echo '0, NVIDIA H100, 550.1, 5 MiB, 81559 MiB';; *apps=*) echo 'GPU-1, 77, "
      "python, 400 MiB';; *) echo version;; esac";
  expect_says(doctor(with_program("nvidia-smi", here)).out, {"NVIDIA H100", "1 processes", "python"});
  expect_problem(
      doctor(with_program("nvidia-smi", "case $* in *version) echo version;; *) echo no driver; exit 9;; esac")),
      {"problem  GPUs", "nvidia-smi fails", "no driver"});
}

TEST_F(DoctorEndToEnd, AnInterfaceThatIsNotThereIsAProblem) {
  expect_problem(doctor("GLOO_SOCKET_IFNAME=nowhere0"),
                 {"problem  interfaces", "GLOO_SOCKET_IFNAME", "nowhere0", "lo"});
  expect_problem(doctor("NCCL_SOCKET_IFNAME==nowhere0:1,l"), {"NCCL_SOCKET_IFNAME", "nowhere0"});
}

// torchrun's store listens on all interfaces; a process of a run that does is named with its port.
TEST_F(DoctorEndToEnd, SocketsOfRunsOnAllInterfacesAreNamed) {
  const std::string listen =
      "import socket, subprocess, sys\n"
      "all, own = socket.socket(), socket.socket()\n"
      "all.bind(('', 0)), own.bind(('127.0.0.1', 0))\n"
      "all.listen(), own.listen()\n"
      "print(f'port {all.getsockname()[1]} (', f'port {own.getsockname()[1]} (', flush=True)\n"
      "subprocess.run(sys.argv[1:])\n";
  for (const char* run : {"LOCKSTEP_RUN_ID=of-a-test", "OTHER=1"}) {
    const Outcome outcome =
        run_program({"/usr/bin/env", run, "python3", "-c", listen, lockstep_program(), "doctor", write(scenario())});
    const std::string all = outcome.out.substr(0, outcome.out.find('(') + 1),
                      own = outcome.out.substr(all.size() + 1, outcome.out.find('\n') - all.size() - 1);
    expect_says(outcome.out, {"ok       open ports", "torchrun"});
    const bool is_named = outcome.out.find(all + "process ") != std::string::npos;
    EXPECT_EQ(is_named, run == std::string("LOCKSTEP_RUN_ID=of-a-test")) << outcome.out;
    EXPECT_EQ(outcome.out.find(own + "process "), std::string::npos) << "it listens on this machine alone";
  }
}

TEST_F(DoctorEndToEnd, FewDescriptorsAreAProblem) {
  expect_problem(doctor("ulimit -n 100;"), {"problem  limits", "few open files", "open files 100"});
}

TEST_F(DoctorEndToEnd, CollectivesAreExactAndAWrongElementIsFound) {
  for (const char* ranks : {"1", "2", "3"}) {
    const Outcome good = doctor("", std::string("--collectives --ranks ") + ranks);
    EXPECT_EQ(good.exit_code, 0) << good.out << good.err;
    expect_says(good.out, {"all-reduce", "reduce-scatter", "all-gather", "broadcast", "44 of 44 exact",
                           std::string("between ") + ranks + " workers"});
  }
  expect_problem(doctor("", "--collectives --wrong-element"),
                 {"problem  collectives", "all-reduce of 8388608 bytes", "1 wrong elements"});
}

TEST_F(DoctorEndToEnd, CollectivesOverNcclNeedAWorkerThatHasIt) {
  expect_problem(doctor("", "--collectives --over nccl"), {"problem  collectives", "built without CUDA", "ci/cuda"});
  const Outcome unknown = doctor("", "--collectives --over mpi");
  EXPECT_EQ(unknown.exit_code, 2) << unknown.out << unknown.err;
}

TEST_F(DoctorEndToEnd, WorkersThatCannotTalkAreAProblem) {
  const auto worker = script_worker("[ \"$RANK\" = 1 ] && exit 9\nexec $worker \"$@\"");
  expect_problem(doctor("", "--collectives --worker '" + worker.string() + "'"),
                 {"problem  collectives", "rank 1 exited with code 9"});
}

}  // namespace
}  // namespace lockstep::test
