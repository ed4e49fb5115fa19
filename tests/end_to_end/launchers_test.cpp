// Real launchers: the same bits as under lockstep's own, and the same culprits.
#include <csignal>
#include <cstdlib>

#include "harness/base/json.h"
#include "harness/launch/listener.h"
#include "harness/launch/other_launchers.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// A way to start ranks, as "launch" has it.
struct Way {
  const char* name;
  Json launch;
};

void PrintTo(const Way& way, std::ostream* stream) { *stream << way.name; }

const Way kWays[] = {
    {"torchrun", {{"kind", "torchrun"}}},
    {"torchrun_static", {{"kind", "torchrun"}, {"nodes", 2}}},
    {"torchrun_c10d", {{"kind", "torchrun"}, {"nodes", 2}, {"rendezvous", "c10d"}}},
    {"torchrun_elastic",
     {{"kind", "torchrun"}, {"nodes", 2}, {"rendezvous", "c10d"}, {"options", {"--nnodes=1:2", "--max-restarts=1"}}}},
    {"distributed_launch", {{"kind", "torch.distributed.launch"}}},
    {"accelerate", {{"kind", "accelerate"}}},
    {"mpirun", {{"kind", "mpirun"}}},
    {"manual_tcp", {{"kind", "manual"}, {"rendezvous", "tcp"}}},
    {"manual_file", {{"kind", "manual"}, {"rendezvous", "file"}}},
    {"srun_torchrun", {{"kind", "srun-torchrun"}, {"nodes", 2}, {"environment", {{"MASTER_ADDR", "127.0.0.1"}}}}},
    {"slurm", {{"kind", "slurm"}, {"nodes", 2}, {"environment", {{"MASTER_ADDR", "127.0.0.1"}}}}},
    {"srun", {{"kind", "srun"}}},
    {"srun_two_nodes", {{"kind", "srun"}, {"nodes", 2}, {"environment", {{"MASTER_ADDR", "127.0.0.1"}}}}},
    {"manual", {{"kind", "manual"}}}};

/// launch.environment: torchrun and accelerate set this one where it is not set, and a trace records it.
Json launch_of(const Json& launch) {
  Json with = launch;
  with["environment"]["OMP_NUM_THREADS"] = "1";
  return {{"launch", with}};
}

/// launchers of the Python environment in PATH, and a Slurm of this test.
class Launchers : public EndToEnd {
 protected:
  void SetUp() override {
    path_ = std::getenv("PATH");
    ::setenv("PATH", (parity_python().parent_path().string() + ":" + path_).c_str(), 1);
  }
  void TearDown() override {
    if (has_slurm_) run_program({slurm(), "stop", slurm_folder()});
    ::setenv("PATH", path_.c_str(), 1);
  }

  /// Why this machine cannot start ranks this way; "" if it can.
  std::string lacking(const Way& way) {
    const auto* const launcher = launch::find_other_launcher(way.launch.at("kind").get<std::string>());
    try {
      launch::program_of(*launcher);
    } catch (const std::exception& error) {
      return error.what();
    }
    const auto kind = way.launch.at("kind").get<std::string>();
    if (!kind.starts_with("srun") && kind != "slurm") return "";
    fs::permissions(scratch_.path(), fs::perms(0755));  // Slurm's user must enter it
    const Outcome started = run_program({slurm(), "start", slurm_folder()});
    has_slurm_ = started.exit_code == 0;
    EXPECT_TRUE(has_slurm_ || started.exit_code == 77) << started.err;
    if (has_slurm_) ::setenv("SLURM_CONF", started.out.substr(0, started.out.find('\n')).c_str(), 1);
    return started.err;
  }

  static std::string slurm() { return source_root() / "ci/slurm"; }
  std::string slurm_folder() const { return scratch_.path() / "slurm"; }

  std::string path_;
  bool has_slurm_ = false;
};

class EachLauncher : public Launchers, public ::testing::WithParamInterface<Way> {};

/// A trace without the name of its variant, and the two hashes that cover it.
std::vector<std::string> without_variant(const fs::path& trace, const std::string& variant) {
  std::vector<std::string> lines = lines_of(trace);
  EXPECT_GT(lines.size(), 5U) << trace;
  Json header = parse_json(lines.at(0), trace);
  EXPECT_EQ(header.at("variant"), variant);
  header.erase("variant");
  header.erase("check");
  lines[0] = header.dump();
  lines.pop_back();
  return lines;
}

TEST_P(EachLauncher, GivesTheBitsOfOurOwn) {
  if (const std::string lacks = lacking(GetParam()); !lacks.empty()) GTEST_SKIP() << lacks;
  Json both = scenario();
  both.erase("checks");
  both.erase("world_size");
  for (const int world_size : {2, 4}) {
    const std::string ranks = std::to_string(world_size), own = "own-" + ranks, other = "other-" + ranks;
    both["variants"][own] = launch_of(Json::object());
    both["variants"][other] = launch_of(GetParam().launch);
    both["variants"][own]["world_size"] = both["variants"][other]["world_size"] = world_size;
    both["checks"].push_back(check("equal", {{"variants", {own, other}}}));
  }
  const Result result = run(both);
  expect_green(result);
  const fs::path runs = result.out / both.at("name").get<std::string>();
  for (const int world_size : {2, 4}) {
    for (int rank = 0; rank < world_size; ++rank) {
      const std::string own = "own-" + std::to_string(world_size), other = "other-" + std::to_string(world_size);
      const std::string file = "rank" + std::to_string(rank) + ".jsonl";
      EXPECT_EQ(without_variant(runs / own / "0" / file, own), without_variant(runs / other / "0" / file, other));
      EXPECT_TRUE(fs::exists(runs / other / "0" / ("rank" + std::to_string(rank) + ".attendance")));
      EXPECT_FALSE(fs::exists(runs / own / "0" / ("rank" + std::to_string(rank) + ".attendance")));
    }
  }
}

TEST_P(EachLauncher, NamesARankThatIsKilled) {
  if (const std::string lacks = lacking(GetParam()); !lacks.empty()) GTEST_SKIP() << lacks;
  Json failing = scenario({{"world_size", 4},
                           {"checks", Json::array({check("ledger")})},
                           {"train", {{"faults", Json::array({fault("kill", 2, 1, {{"phase", "forward"}})})}}}});
  failing.merge_patch(launch_of(GetParam().launch));
  const Result result = run(failing);
  EXPECT_EQ(result.exit_code(), 1) << result.said();
  const Json run = result.failed_run();
  ASSERT_FALSE(run.is_null()) << result.said();
  EXPECT_EQ(run.at("class"), "liveness") << run.dump(1);
  EXPECT_EQ(run.at("culprit_rank"), 1) << run.dump(1);
  expect_says(run.at("why"), {"rank 1 was killed by SIGKILL at step 2 in forward"});
}

INSTANTIATE_TEST_SUITE_P(Launchers, EachLauncher, ::testing::ValuesIn(kWays),
                         [](const auto& info) { return std::string(info.param.name); });

/// Rank 1 is killed in the first `starts` of its lives, in the midst of the training.
std::string dies_in(int starts) {
  return "if [ \"$RANK\" != 1 ] || [ \"$TORCHELASTIC_RESTART_COUNT\" -ge " + std::to_string(starts) +
         " ]; then exec $worker \"$@\"; fi\n"
         "rm -f $out/rank1.progress\n$worker \"$@\" & while [ ! -s $out/rank1.progress ]; do sleep 0.02; done\n"
         "sleep 0.3; kill -9 $!; wait; exit 9";
}

/// A training that is long enough to be killed in its midst.
Json long_training() { return {{"train", {{"steps", 600}}}, {"checks", Json::array()}}; }

TEST_F(Launchers, TorchrunStartsAllRanksAgainAfterAFailure) {
  Json both = scenario(long_training());
  both["variants"] = {{"own", launch_of(Json::object())},
                      {"again", launch_of({{"kind", "torchrun"}, {"restarts", 2}})}};
  both["checks"] = {check("equal", {{"variants", {"own", "again"}}})};
  const Result result = run(both, {"--worker", script_worker("[ -n \"$TORCHELASTIC_RESTART_COUNT\" ] || exec $worker "
                                                             "\"$@\"\n" +
                                                             dies_in(1))});
  expect_green(result);
  expect_says(result.said(), {"WARNING", "tiny/again/0: its launcher started all ranks again, because rank 1 "});
  EXPECT_EQ(read_json(result.out / "tiny/again/0/outcome.json").at("restarts").size(), 1U);
}

TEST_F(Launchers, TorchrunGivesUpWhenItsRestartsAreUsedUp) {
  Json dying = scenario(long_training());
  dying["checks"] = {check("finishes")};
  dying.merge_patch(launch_of({{"kind", "torchrun"}, {"restarts", 1}}));
  const Result result = run(dying, {"--worker", script_worker(dies_in(9))});
  EXPECT_EQ(result.exit_code(), 1) << result.said();
  EXPECT_EQ(result.failed_run().at("culprit_rank"), 1) << result.said();
}

TEST_F(Launchers, TorchrunPrintsWhyARankFailed) {
  const Outcome failed = run_program({"torchrun", "--standalone", "--nproc-per-node", "1", "--no-python",
                                      worker_program(), "--spec", "/nowhere/run.json", "--out", scratch_.path()});
  EXPECT_EQ(failed.exit_code, 1);
  const std::size_t traceback = failed.err.find("traceback :");
  ASSERT_NE(traceback, std::string::npos) << failed.err;
  expect_says(failed.err.substr(traceback), {"lockstep-worker: ", "/nowhere/run.json"});
}

/// The lines of a block of docs/launchers.md that start workers.
std::vector<std::string> documented_commands() {
  std::vector<std::string> commands;
  bool is_under = false;
  for (const std::string& line : lines_of(source_root() / "docs/launchers.md")) {
    if (line.starts_with("## ")) is_under = line == "## By hand";
    const std::size_t worker = line.find("build/bin/lockstep-worker --spec $run");
    if (is_under && worker != std::string::npos) commands.push_back(line.substr(0, line.find('#')));
  }
  return commands;
}

TEST_F(Launchers, TheDocumentedCommandsStartRanksByHand) {
  const Result own = run(scenario({{"launch", {{"environment", {{"OMP_NUM_THREADS", "1"}}}}}}));
  expect_green(own);
  const fs::path expected = own.out / "tiny/main/0";
  const std::vector<std::string> commands = documented_commands();
  EXPECT_GE(commands.size(), 10U);
  int number = 0;
  for (std::string command : commands) {
    const bool is_srun = command.find("srun") != std::string::npos;
    if ((is_srun && !lacking({"srun", {{"kind", "srun"}}}).empty()) ||
        (command.starts_with("mpirun") && !lacking({"mpirun", {{"kind", "mpirun"}}}).empty()))
      continue;
    const std::string word = "build/bin/lockstep-worker";
    command.replace(command.find(word), word.size(), worker_program().string());
    if (const std::size_t example = command.find("docs/examples"); example != std::string::npos)
      command.insert(example, source_root().string() + "/");
    if (command.starts_with("/")) command = "for RANK in 0 1; do export RANK; " + command + " & done; wait";
    if (command.find("rank=0") != std::string::npos) {
      std::string second = command;
      second.replace(second.find("rank=0"), 6, "rank=1");
      command += " & " + second + "; wait";
    }
    const fs::path traces = scratch_.path() / ("by-hand-" + std::to_string(number++));
    const std::string port = std::to_string(launch::listen_on_loopback(1).port);
    const std::string script = "mkdir -p " + traces.string() + "; run=" + (expected / "run.json").string() +
                               "; traces=" + traces.string() +
                               "; export OMP_NUM_THREADS=1 WORLD_SIZE MASTER_PORT=" + port +
                               " OMPI_ALLOW_RUN_AS_ROOT=1 OMPI_ALLOW_RUN_AS_ROOT_CONFIRM=1 "
                               "OMPI_MCA_rmaps_base_oversubscribe=1; ";
    const bool by_exports = command.starts_with("for RANK");
    std::string typed = command;
    for (std::size_t at = typed.find("29500"); at != std::string::npos; at = typed.find("29500"))
      typed.replace(at, 5, port);
    const Outcome done =
        run_program({"/bin/sh", "-c", script + (by_exports ? "WORLD_SIZE=2; " : "unset WORLD_SIZE; ") + typed});
    EXPECT_EQ(done.exit_code, 0) << typed << done.err;
    for (const char* file : {"rank0.jsonl", "rank1.jsonl"})
      EXPECT_EQ(read_text(traces / file), read_text(expected / file)) << typed << done.err;
  }
}

/// A lockstep that is killed leaves its jobs, and the next one finds them: those that wait, and those that run.
TEST_F(Launchers, ACampaignOnSlurmGoesOnWithTheJobsThatItHas) {
  const Way slurm = {"slurm", {{"kind", "slurm"}}};
  if (const std::string lacks = lacking(slurm); !lacks.empty()) GTEST_SKIP() << lacks;
  const fs::path may_go_on = scratch_.path() / "may_go_on", out = scratch_.path() / "campaign";
  const fs::path worker = script_worker("case $* in *--spec*) while [ ! -e '" + may_go_on.string() +
                                        "' ]; do sleep 0.1; done;; esac\nexec $worker \"$@\"");
  const Json two = scenario({{"variants", {{"a", Json::object()}, {"b", Json::object()}}}});
  const std::string command = "'" + lockstep_program().string() + "' run '" + write(two).string() +
                              "' --launcher slurm --out '" + out.string() + "' --worker '" + worker.string() + "'";
  const Outcome first = run_program(
      {"/bin/bash", "-c",
       command + " & while [ \"$(squeue -h -o %T | sort -u)\" != RUNNING ]; do sleep 0.1; done; kill -9 $!"});
  ASSERT_FALSE(fs::exists(out / "tiny/a/0/outcome.json")) << first.err;
  scratch_.write("may_go_on", "");
  scratch_.write("campaign/.experiments/a/run.id", "1-2");
  const Outcome resumed = run_program(
      {"/bin/bash", "-c", "sbatch -J lockstep-1-2 -o /dev/null --wrap='sleep 1000' && " + command + " --resume"});
  EXPECT_EQ(resumed.exit_code, 0) << resumed.out << resumed.err;
  EXPECT_EQ(run_program({"squeue", "-h"}).out, "") << "the job of a control run";
  const Outcome next = run_program({"sbatch", "--parsable", "--output=/dev/null", "--wrap=true"});
  EXPECT_EQ(next.out, "4\n") << "two jobs for two runs, and that of a control run; " << resumed.err;
}

/// Ctrl-C ends the jobs, too.
TEST_F(Launchers, AnInterruptedCampaignCancelsItsJobs) {
  const Way slurm = {"slurm", {{"kind", "slurm"}}};
  if (const std::string lacks = lacking(slurm); !lacks.empty()) GTEST_SKIP() << lacks;
  const fs::path worker = script_worker("case $* in *--spec*) sleep 1000;; esac\nexec $worker \"$@\"");
  const Outcome ended = run_program(
      {"/bin/bash", "-c",
       "set -m; '" + lockstep_program().string() + "' run '" + write(scenario()).string() +
           "' --launcher slurm --worker '" + worker.string() +
           "' & while [ \"$(squeue -h -o %T)\" != RUNNING ]; do sleep 0.1; done; kill -INT $!; wait $!; code=$?; "
           "for i in $(seq 100); do [ -n \"$(squeue -h)\" ] || exit $code; sleep 0.1; done; exit 1"});
  EXPECT_EQ(ended.exit_code, 130) << ended.out << ended.err;
}

/// Ranks that end well remove their file.
TEST_F(Launchers, AFileThatARunHasLeftWhichDiedIsRefused) {
  const Json dying = scenario({{"world_size", 1},
                               {"checks", {check("finishes")}},
                               {"train", {{"faults", Json::array({fault("kill", 2, 0)})}}}});
  ASSERT_EQ(run_lockstep({"run", write(dying), "--prepare", scratch_.path() / "runs"}).exit_code, 0);
  const fs::path run = scratch_.path() / "runs/tiny/main/0", file = scratch_.path() / "meet";
  const auto meet = [&] {
    fs::remove(run / "rank0.jsonl");
    return run_program({worker_program(), "--spec", run / "run.json", "--out", run, "rank=0", "world_size=1",
                        "init_method=file://" + file.string()});
  };
  EXPECT_EQ(meet().exit_code, 128 + SIGKILL);
  const Outcome again = meet();
  EXPECT_EQ(again.exit_code, 2) << again.err;
  expect_says(again.err, {"the file by which the ranks meet is one of an earlier run", file.string()});
  fs::remove(file);
  EXPECT_EQ(meet().exit_code, 128 + SIGKILL);
}

/// Runs on 1, 3 and 4 ranks, prepared for another scheduler.
class Emitted : public Launchers {
 protected:
  void SetUp() override {
    Launchers::SetUp();
    training_ = scenario({{"launch", {{"environment", {{"OMP_NUM_THREADS", "1"}}}}},
                          {"checks", {check("finishes"), check("ranks_agree")}}});
    training_.erase("world_size");
    for (const int ranks : {1, 3, 4}) training_["variants"]["w" + std::to_string(ranks)]["world_size"] = ranks;
    ASSERT_EQ(run_lockstep({"run", write(training_), "--prepare", prepared()}).exit_code, 0);
  }

  fs::path prepared() const { return scratch_.path() / "prepared"; }

  std::string emitted(const std::vector<std::string>& how) const {
    std::vector<std::string> words = {"launch", prepared(), "--emit"};
    words.insert(words.end(), how.begin(), how.end());
    const Outcome outcome = run_lockstep(words);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return outcome.out;
  }

  /// Judged as green, with the bits that our own ranks have.
  void expect_the_bits_of_our_own() {
    const Outcome judged = run_lockstep({"judge", write(training_), "--traces", prepared()});
    EXPECT_EQ(judged.exit_code, 0) << judged.out << judged.err;
    const Result own = run(training_);
    expect_green(own);
    int compared = 0;
    for (const int ranks : {1, 3, 4}) {
      for (int rank = 0; rank < ranks; ++rank, ++compared) {
        const fs::path file = "tiny/w" + std::to_string(ranks) + "/0/rank" + std::to_string(rank) + ".jsonl";
        EXPECT_EQ(read_text(prepared() / file), read_text(own.out / file)) << file;
      }
    }
    EXPECT_EQ(compared, 8);
  }

  Json training_;
};

TEST_F(Emitted, ABatchScriptStartsTheRuns) {
  if (const std::string lacks = lacking({"srun", {{"kind", "srun"}}}); !lacks.empty()) GTEST_SKIP() << lacks;
  scratch_.write("job.sh", emitted({"sbatch", "--nodes", "2"}));
  const Outcome done = run_program({"/bin/sh", "-c",
                                    "MASTER_ADDR=127.0.0.1 sbatch " + (scratch_.path() / "job.sh").string() +
                                        " && while [ -n \"$(squeue -h)\" ]; do sleep 0.1; done; cat '" +
                                        prepared().string() + "'/sbatch-*.log"});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  SCOPED_TRACE(done.out);
  expect_the_bits_of_our_own();
}

/// Reads a manifest of Kubernetes as YAML, and starts what its pods would run, with the variables that it sets: on one
/// machine, where no name server knows the pods, and another has the port.
constexpr const char* kPods = R"(
import os, socket, subprocess, sys, yaml
service, job = yaml.safe_load(open(sys.argv[1]))["items"]
spec = job["spec"]
pod = spec["template"]
container, = pod["spec"]["containers"]
assert service["spec"]["selector"].items() <= pod["metadata"]["labels"].items()
variables = {one["name"]: one["value"] for one in container["env"]}
assert variables["MASTER_ADDR"] == job["metadata"]["name"] + "-0." + service["metadata"]["name"] and pod["spec"]["subdomain"] == service["metadata"]["name"]
assert [v["name"] for v in pod["spec"]["volumes"]] == [m["name"] for m in container["volumeMounts"]]
def is_free(port):  # of those that the system gives nobody by itself
    with socket.socket() as one:
        return one.connect_ex(("127.0.0.1", port)) != 0
port = next(port for port in range(20000 + os.getpid() % 10000, 32000) if is_free(port))
variables.update(MASTER_ADDR="127.0.0.1", MASTER_PORT=str(port))
pods = [subprocess.Popen(container["command"], env={**os.environ, **variables, "JOB_COMPLETION_INDEX": str(index)})
        for index in range(spec["completions"])]
sys.exit(max(abs(one.wait()) for one in pods)))";

TEST_F(Emitted, AJobOfKubernetesStartsTheRuns) {
  const fs::path manifest = scratch_.write(
      "job.yaml", emitted({"k8s", "--name", "two-runs", "--image", "registry/worker:1", "--claim", "runs"}));
  const Outcome done = run_program({parity_python(), "-c", kPods, manifest});
  ASSERT_EQ(done.exit_code, 0) << done.err;
  expect_the_bits_of_our_own();
}

TEST_F(Emitted, WhatIsMissingIsRefusedByName) {
  const std::pair<std::vector<std::string>, const char*> cases[] = {
      {{"launch", scratch_.path(), "--emit", "sbatch"}, "commands.json"},
      {{"launch", prepared(), "--emit", "k8s", "--image", "i"}, "--emit k8s needs --claim"},
      {{"launch", prepared(), "--emit", "k8s", "--claim", "c"}, "--emit k8s needs --image"},
      {{"launch", prepared(), "--emit", "sbatch", "--name", "No"}, "small letters"},
      {{"launch", prepared(), "--emit", "k8s", "--name", "1st"}, "a letter first"},
      {{"launch", prepared(), "--emit", "k8s", "--image", "a b", "--claim", "c"}, "has spaces"},
      {{"launch", prepared(), "--emit", "k8s", "--image", "i", "--claim", "c", "--nodes", "3"}, "--nodes is no option"},
      {{"launch", prepared(), "--emit", "sbatch", "--image", "i"}, "--image is no option"},
      {{"launch", prepared(), "--emit", "lsf"}, "--emit"}};
  for (const auto& [words, says] : cases) {
    const Outcome refused = run_lockstep(words);
    EXPECT_EQ(refused.exit_code, 2) << refused.out;
    expect_says(refused.err, {says});
  }
}

/// sbatch expands %j, and Kubernetes $(NAME).
TEST_F(Emitted, AFolderThatAManifestWouldReadOtherwiseIsRefused) {
  for (const auto& [name, manifest] :
       {std::pair("%j", "sbatch"), {"a\\b", "sbatch"}, {"$(A)", "k8s"}, {"a:b", "k8s"}}) {
    const fs::path folder = scratch_.path() / name;
    fs::copy(prepared(), folder, fs::copy_options::recursive);
    std::vector<std::string> words{"launch", folder, "--emit", manifest};
    if (std::string(manifest) == "k8s") words.insert(words.end(), {"--image", "i", "--claim", "c"});
    const Outcome refused = run_lockstep(words);
    EXPECT_EQ(refused.exit_code, 2) << name << refused.out;
    expect_says(refused.err, {"cannot hold the name of this folder", name});
  }
}

TEST_F(Emitted, DamagedCommandsAreNamedByTheirFile) {
  const fs::path folder = scratch_.path() / "damaged";
  for (const char* content : {R"({"runs": [{"processes": 2}]})", R"({"runs": []})", "[]"}) {
    scratch_.write("damaged/commands.json", content);
    const Outcome refused = run_lockstep({"launch", folder, "--emit", "sbatch"});
    EXPECT_NE(refused.exit_code, 0) << content << refused.out;
    expect_says(refused.err, {"the list of runs cannot be read", "damaged/commands.json", "prepare the folder again"});
  }
}

TEST_F(Launchers, OneThatIsNotInstalledIsUnsupported) {
  ::setenv("PATH", "/nonexistent", 1);
  const Result result = run(scenario(), {"--launcher", "torchrun"});
  EXPECT_EQ(result.exit_code(), 77) << result.said();
  expect_says(result.said(), {"the launcher torchrun is not installed", "ci/setup --launchers"});
  EXPECT_EQ(run(scenario(), {"--launcher", "torchrum"}).exit_code(), 2);
}

TEST_F(Launchers, TheOptionStartsRunsThatDoNotSayHow) {
  Json some = scenario();
  some["variants"] = {{"free", Json::object()}, {"late", {{"launch", {{"arrival_delay_ms", {0, 50}}}}}}};
  const Result result = run(some, {"--launcher", "manual"});
  expect_green(result);
  expect_says(result.said(), {"late/0 is not started by manual: it has arrival_delay_ms"});
  const fs::path runs = result.out / some.at("name").get<std::string>();
  EXPECT_TRUE(fs::exists(runs / "free/0/rank1.attendance"));
  EXPECT_FALSE(fs::exists(runs / "late/0/rank1.attendance"));
}

TEST_F(Launchers, LaunchesThatContradictThemselvesAreRefused) {
  const std::pair<Json, const char*> cases[] = {
      {{{"kind", "mpirun"}, {"arrival_delay_ms", {0, 5}}}, "launch.arrival_delay_ms does not go with"},
      {{{"kind", "manual"}, {"environment_order", "reversed"}}, "launch.environment_order does not go with"},
      {{{"kind", "manual"}, {"nodes", 2}}, "nodes = 1"},
      {{{"kind", "manual"}, {"rendezvous", "c10d"}}, "rendezvous = static, tcp, file"},
      {{{"kind", "torchrun"}, {"rendezvous", "file"}}, "rendezvous = static, c10d"},
      {{{"kind", "accelerate"}, {"restarts", 1}}, "restarts = 0"},
      {{{"nodes", 2}}, "launch.nodes does not go with"},
      {{{"options", {"-x"}}}, "launch.options does not go with"}};
  for (const auto& [launch, says] : cases) {
    const Result result = run(scenario({{"launch", launch}}));
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.said(), {says});
  }
}

}  // namespace
}  // namespace lockstep::test
