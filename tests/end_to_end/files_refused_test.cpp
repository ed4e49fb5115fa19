// Files, folders, workers and disks that are not what they should be: never exit code 0, and the message names them.
#include <cerrno>
#include <cstring>

#include <sys/mount.h>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class FilesRefused : public EndToEnd {
 protected:
  fs::path data_file() const { return source_root() / "scenarios/data/digits.csv.gz"; }
};

TEST_F(FilesRefused, UsageErrorsAreExitCode2) {
  const std::string file = write(scenario());
  const std::vector<std::vector<std::string>> commands = {{},
                                                          {"bogus"},
                                                          {"run"},
                                                          {"run", file, "--bogus"},
                                                          {"run", file, "--jobs", "0"},
                                                          {"run", file, "--jobs", "many"},
                                                          {"run", file, "--jobs"},
                                                          {"golden"},
                                                          {"golden", "accept"},
                                                          {"golden", "accept", file},
                                                          {"golden", "accept", file, "--reason", ""},
                                                          {"diff", file},
                                                          {"explain", "grad.reduce_sun"},
                                                          {"explain", ""},
                                                          {"diff"},
                                                          {"show"},
                                                          {"show", file, "--step", "x"},
                                                          {"run", file, "--golden", "a", "--golden", "b"}};
  for (const auto& command : commands) {
    SCOPED_TRACE(::testing::PrintToString(command));
    const Outcome outcome = run_lockstep(command);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    EXPECT_NE(outcome.err, "");
  }
  for (const char* flag : {"--help", "--version"}) EXPECT_EQ(run_lockstep({flag}).exit_code, 0);
}

TEST_F(FilesRefused, OptionsMayStandBeforeTheScenario) {
  const std::string file = write(scenario());
  const Outcome outcome = run_lockstep({"run", "--set", "train.steps=2", file, "--out", scratch_.path() / "runs"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
}

TEST_F(FilesRefused, AFolderThatIsNotEmptyIsLeftAlone) {
  const Json training = scenario();
  scratch_.write("full/tiny/main/0/rank0.jsonl", "precious");
  const Outcome outcome = run_lockstep({"run", write(training), "--out", scratch_.path() / "full"});
  EXPECT_EQ(outcome.exit_code, 2);
  expect_says(outcome.err, {"not empty", "full", "never overwritten"});
  EXPECT_EQ(read_text(scratch_.path() / "full/tiny/main/0/rank0.jsonl"), "precious");
  const Outcome file = run_lockstep({"run", write(training), "--out", write(training)});
  EXPECT_NE(file.exit_code, 0);
  EXPECT_LT(file.exit_code, 5);
}

TEST_F(FilesRefused, AResultThatCannotBeWrittenIsNotAPass) {
  const std::string file = write(scenario());
  int number = 0;
  for (const std::string& target :
       {std::string("/nonexistent/result.json"), scratch_.path().string(), std::string("/proc/result.json")}) {
    SCOPED_TRACE(target);
    const Outcome outcome =
        run_lockstep({"run", file, "--out", scratch_.path() / ("runs" + std::to_string(++number)), "--json", target});
    EXPECT_TRUE(outcome.exit_code == 2 || outcome.exit_code == 4) << outcome.out << outcome.err;
    expect_says(outcome.err, {target});
  }
}

TEST_F(FilesRefused, ResultOnStdoutIsNothingButTheResult) {
  const Outcome outcome = run_lockstep({"run", write(scenario()), "--out", scratch_.path() / "runs", "--json", "-"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
  EXPECT_EQ(Json::parse(outcome.out).at("status"), "agree");
}

TEST_F(FilesRefused, WorkerMissing) {
  const auto text = scratch_.write("text", "not executable");
  for (const std::string& worker : {std::string("/nope"), std::string("/tmp"), text.string()}) {
    const Result result = run(scenario(), {"--worker", worker});
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.process.err, {"the worker is missing", worker, "--worker"});
  }
}

TEST_F(FilesRefused, WorkerThatDoesNothingIsNotAPass) {
  const Result result = run(scenario(), {"--worker", "/bin/true"});
  EXPECT_EQ(result.exit_code(), 4) << result.said();
  EXPECT_EQ(result.failed_run().at("outcome"), "evidence lost");
  EXPECT_EQ(result.check("ranks_agree").at("status"), "inconclusive");
}

TEST_F(FilesRefused, WorkerThatCannotStartIsNotAPass) {
  const auto worker = scratch_.write("worker", "#!/nonexistent/interpreter\n");
  fs::permissions(worker, fs::perms::owner_all);
  const Result result = run(scenario(), {"--worker", worker});
  EXPECT_EQ(result.exit_code(), 2) << result.said();
  expect_says(result.process.err, {"cannot start", worker});
}

TEST_F(FilesRefused, WorkerOfAnotherBuild) {
  const auto worker = script_worker(
      "sed 's/\"build\": *\"[0-9a-f]*\"/\"build\": \"0123456789abcdef\"/' $spec > $spec.$RANK\nexec $worker --spec "
      "$spec.$RANK --out $out");
  const Result result = run(scenario(), {"--worker", worker});
  EXPECT_EQ(result.exit_code(), 2) << result.said();
  EXPECT_EQ(result.failed_run().at("outcome"), "refused");
  EXPECT_EQ(result.json.at("status"), "invalid");
  const std::string worker_build = run_program({worker_program(), "--build-id"}).out.substr(0, 16);
  expect_says(result.failed_run().at("log_tail"), {"different builds", "0123456789abcdef", worker_build});
}

TEST_F(FilesRefused, RunSpecsThatTheWorkerRefuses) {
  const Result good = run(scenario({{"world_size", 1}, {"checks", Json::array({check("ledger")})}}));
  expect_green(good);
  const Json spec = read_json(good.out / "tiny/main/0/run.json");
  int number = 0;
  const auto start = [&](const Json& changed, const std::string& world_size) {
    const auto file = scratch_.write("by-hand" + std::to_string(++number) + "/run.json", changed.dump());
    return run_program({"/usr/bin/env", "RANK=0", "WORLD_SIZE=" + world_size, "MASTER_PORT=29999", worker_program(),
                        "--spec", file, "--out", file.parent_path()},
                       60);
  };
  const Outcome whole = start(spec, "1");
  EXPECT_EQ(whole.exit_code, 0) << whole.err;
  EXPECT_EQ(lines_of(scratch_.path() / "by-hand1/rank0.jsonl"), lines_of(good.out / "tiny/main/0/rank0.jsonl"));
  Json other = spec;
  other["build"] = "0123456789abcdef";
  const Outcome build = start(other, "1");
  EXPECT_EQ(build.exit_code, 2);
  expect_says(build.err, {"different builds", "0123456789abcdef", spec.at("build")});
  Json unknown = spec;
  unknown["train"]["stepps"] = 3;
  expect_says(start(unknown, "1").err, {"unknown key 'stepps'", "'steps'"});
  Json incomplete = spec;
  incomplete.erase("files");
  const Outcome broken = start(incomplete, "1");
  EXPECT_EQ(broken.exit_code, 2) << broken.err;
  expect_says(broken.err, {"files"});
  EXPECT_EQ(start(Json::array(), "1").exit_code, 2);
  const Outcome place = start(spec, "2");
  EXPECT_EQ(place.exit_code, 2) << place.err;
  expect_says(place.err, {"WORLD_SIZE"});
  EXPECT_EQ(run_program({worker_program()}).exit_code, 2);
}

TEST_F(FilesRefused, AWorkerThatNobodyReadsIsNotKilled) {
  const Outcome outcome =
      run_program({"/bin/bash", "-c", "exec 3> >(:) && wait $! && \"$0\" 2>&3", worker_program().string()});
  EXPECT_EQ(outcome.exit_code, 2) << "128 + SIGPIPE if the pipe, which nobody holds any more, has killed it";
}

TEST_F(FilesRefused, DataFile) {
  const std::string whole = read_text(data_file());
  std::string corrupt = whole;
  corrupt[2000] = static_cast<char>(corrupt[2000] ^ 4);
  scratch_.write("truncated.gz", whole.substr(0, 3000));
  scratch_.write("corrupt.gz", corrupt);
  scratch_.write("plain.gz", "1,2,3\n");
  scratch_.write("empty.gz", "");
  for (const char* name : {"missing.gz", "truncated.gz", "corrupt.gz", "plain.gz", "empty.gz"}) {
    SCOPED_TRACE(name);
    const Result result = run(scenario(at("train.data.path", name)));
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    expect_says(result.said(), {name});
    if (std::string(name) == "missing.gz") expect_says(result.said(), {"next:", "train.data.path"});
  }
  const Result result = run(scenario(at("train.data.size", 5000)));
  EXPECT_EQ(result.exit_code(), 2) << result.said();
  expect_says(result.said(), {"1797", "5000", "train.data.size"});
}

/// A limit on the size of files stands in for a full disk where nothing can be mounted.
TEST_F(FilesRefused, TraceThatCannotGrow) {
  const auto worker =
      scratch_.write("worker.sh", "#!/bin/bash\nulimit -f 8\nexec '" + worker_program().string() + "' \"$@\"\n");
  fs::permissions(worker, fs::perms::owner_all);
  const Result result = run(scenario(), {"--worker", worker});
  EXPECT_EQ(result.exit_code(), 4) << result.said();
  EXPECT_EQ(result.failed_run().at("outcome"), "resource");
  expect_says(result.failed_run().at("log_tail"), {"File too large", ".jsonl"});
}

TEST_F(FilesRefused, DiskFull) {
  const auto disk = scratch_.path() / "disk";
  fs::create_directories(disk);
  if (::mount("tmpfs", disk.c_str(), "tmpfs", 0, "size=64k") != 0)
    GTEST_SKIP() << "a small disk cannot be mounted here: " << std::strerror(errno);
  const Outcome outcome =
      run_lockstep({"run", write(scenario()), "--out", disk / "runs", "--json", scratch_.path() / "result.json"});
  EXPECT_EQ(::umount2(disk.c_str(), MNT_DETACH), 0);
  EXPECT_EQ(outcome.exit_code, 4) << outcome.out << outcome.err;
  expect_says(outcome.out + outcome.err, {"No space left on device", (disk / "runs").string()});
}

}  // namespace
}  // namespace lockstep::test
