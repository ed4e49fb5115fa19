// Runs that another scheduler started are judged as our own, and traces that are lost, cut or of another run are no
// pass.
#include <regex>

#include "harness/base/files.h"
#include "harness/trace/reader.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// A scheduler of one line: starts each line's processes, with the place of each in torchrun's variables.
constexpr const char* kScheduler = R"(
while IFS=$'\t' read -r processes command; do
  port=$(python3 -c 'import socket; s = socket.socket(); s.bind(("127.0.0.1", 0)); print(s.getsockname()[1])')
  for ((rank = 0; rank < processes; ++rank)); do
    RANK=$rank WORLD_SIZE=$processes MASTER_ADDR=127.0.0.1 MASTER_PORT=$port bash -c "$command" &
  done
  wait
done <"$1/commands.txt")";

class JudgeEndToEnd : public EndToEnd {
 protected:
  /// Two variants that differ in their rate, each twice, and one that goes on from a checkpoint.
  static Json training() {
    return scenario({{"repeats", 2},
                     {"variants",
                      {{"slow", {{"train", {{"checkpoint", {{"save_after", 4}}}}}}},
                       {"fast", at("train.optimizer.lr", 0.2)},
                       {"longer", {{"train", {{"steps", 6}, {"checkpoint", {{"load", {{"from", "slow"}}}}}}}}}}},
                     {"checks",
                      {check("repeatable"), check("ranks_agree"), check("laws"), check("finishes"),
                       check("equal", {{"variants", {"slow", "fast"}}})}}});
  }

  fs::path prepared() const { return scratch_.path() / "elsewhere"; }

  void prepare(const Json& training, const std::vector<std::string>& more = {}) {
    std::vector<std::string> words = {"run", write(training), "--prepare", prepared()};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_lockstep(words);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    expect_says(outcome.out, {"commands.txt", "lockstep judge"});
  }

  void start_prepared() const {
    const Outcome outcome = run_program({"/bin/bash", "-c", kScheduler, "scheduler", prepared()});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }

  Result judge(const fs::path& traces, const std::vector<std::string>& more = {}) {
    Result result;
    const fs::path json = scratch_.path() / "judged.json";
    fs::remove(json);
    std::vector<std::string> words = {"judge",    write(training()), "--traces", traces,
                                      "--golden", golden_root(),     "--json",   json};
    words.insert(words.end(), more.begin(), more.end());
    result.process = run_lockstep(words);
    if (fs::exists(json)) result.json = read_json(json);
    return result;
  }

  fs::path run_folder(const std::string& name) const { return prepared() / "tiny" / name; }

  /// The first check of a folder in which something is wrong: it names what, and nothing passes that looks at it.
  void expect_inconclusive(const std::vector<std::string>& parts) {
    const Result result = judge(prepared());
    EXPECT_EQ(result.exit_code(), 1) << result.said();  // slow and fast still differ, where both are there
    const Json repeatable = result.check("repeatable");
    EXPECT_EQ(repeatable.at("status"), "inconclusive") << repeatable.dump(1);
    EXPECT_EQ(result.check("finishes").at("status"), "inconclusive") << result.said();
    expect_says(result.said(), parts);
  }
};

/// A verdict without times.
Json timeless(Json verdict) {
  verdict.erase("wall_s");
  return verdict;
}

TEST_F(JudgeEndToEnd, AsTheRunThatStartedThemSays) {
  Json red = training();
  red["variants"]["killed"] = {{"train", {{"faults", Json::array({fault("kill", 2, 1)})}}}};
  // All that differs is expected to: run tries nothing again, as judge does not.
  red["checks"][3]["variants"] = {"slow", "killed"};
  red["checks"][3]["expect"] = {{"status", "divergence"}, {"reason", "a rank is killed"}, {"class", "liveness"}};
  red["checks"][4]["expect"] = {{"status", "divergence"}, {"reason", "another rate"}};
  for (const std::size_t check : {0, 1, 2}) red["checks"][check]["variants"] = {"slow", "fast", "longer"};
  const Result ours = run(red);
  const Outcome outcome = run_lockstep({"judge", write(red), "--traces", ours.out, "--golden", golden_root(), "--json",
                                        scratch_.path() / "judged.json"});
  EXPECT_EQ(outcome.exit_code, ours.exit_code()) << outcome.out << outcome.err;
  EXPECT_EQ(timeless(read_json(scratch_.path() / "judged.json")), timeless(ours.json));
}

TEST_F(JudgeEndToEnd, RunsOfAnotherSchedulerComputeTheSame) {
  prepare(training());
  expect_says(judge(prepared()).said(), {"rank 0 left no trace"});
  EXPECT_EQ(judge(prepared()).exit_code(), 4);
  start_prepared();
  const Result theirs = judge(prepared());
  EXPECT_EQ(theirs.exit_code(), 1) << theirs.said();
  for (const char* relation : {"repeatable", "ranks_agree", "laws", "finishes"})
    EXPECT_EQ(theirs.check(relation).at("status"), "agree") << theirs.said();
  const Result ours = run(training());
  EXPECT_EQ(theirs.check("equal").at("cause"), ours.check("equal").at("cause")) << theirs.said();
  EXPECT_EQ(theirs.check("equal").at("first_divergence").at("step"), 0) << theirs.said();
  const Outcome same = run_lockstep({"diff", ours.out / "tiny/longer/1", prepared() / "tiny/longer/1"});
  EXPECT_EQ(same.exit_code, 0) << same.out;

  const Result tried = judge(prepared(), {"--controls"});
  EXPECT_EQ(tried.exit_code(), 1) << tried.said();
  EXPECT_FALSE(tried.check("equal").at("experiments").empty()) << tried.said();
}

/// Whoever is handed the runs chooses their launcher.
TEST_F(JudgeEndToEnd, TheScenariosLauncherIsNotPrepared) {
  Json by_torchrun = training();
  by_torchrun["launch"] = {{"kind", "torchrun"}};
  prepare(by_torchrun);
  const std::string commands = read_text(prepared() / "commands.txt");
  expect_says(commands, {"2\tenv -C " + run_folder("slow/0").string(), "lockstep-worker"});
  EXPECT_EQ(commands.find("torchrun"), std::string::npos) << commands;
  start_prepared();
  EXPECT_EQ(judge(prepared()).json.at("runs_finished"), 6);
}

/// Faults of the way back, each in a copy of what came back whole.
TEST_F(JudgeEndToEnd, TracesThatAreLostCutOrOfAnotherRunAreNoPass) {
  prepare(training());
  start_prepared();
  const fs::path whole = scratch_.path() / "whole";
  fs::copy(prepared(), whole, fs::copy_options::recursive);
  const auto with = [&](const std::string& what, const std::function<void()>& plant,
                        const std::vector<std::string>& parts) {
    SCOPED_TRACE(what);
    fs::remove_all(prepared());
    fs::copy(whole, prepared(), fs::copy_options::recursive);
    plant();
    expect_inconclusive(parts);
  };
  const fs::path first = run_folder("longer/0"), second = run_folder("longer/1");
  with("a rank's file is lost", [&] { fs::remove(first / "rank1.jsonl"); }, {"the trace of rank 1 is missing"});
  with("rank 0's file is lost", [&] { fs::remove(first / "rank0.jsonl"); }, {"rank 0 left no trace"});
  with("a run is lost", [&] { fs::remove_all(second); }, {"there is no folder"});
  with("a trace is cut off", [&] { fs::resize_file(first / "rank0.jsonl", fs::file_size(first / "rank0.jsonl") / 2); },
       {"a trace is torn", "rank 1 stood"});
  with("a trace is empty", [&] { fs::resize_file(first / "rank1.jsonl", 0); }, {"the file is empty"});
  with("a trace is of another rank",
       [&] { fs::copy_file(first / "rank0.jsonl", first / "rank1.jsonl", fs::copy_options::overwrite_existing); },
       {"do not belong to one run"});
  with("two repeats are swapped",
       [&] {
         fs::rename(first, prepared() / "aside");
         fs::rename(second, first);
         fs::rename(prepared() / "aside", second);
       },
       {"repeat 0 -> 1"});
  with("one repeat is there twice",
       [&] {
         for (const char* rank : {"rank0.jsonl", "rank1.jsonl"})
           fs::copy_file(first / rank, second / rank, fs::copy_options::overwrite_existing);
       },
       {"belong to another run", "repeat is 0, not 1"});
  with("traces are of another variant",
       [&] {
         for (const char* rank : {"rank0.jsonl", "rank1.jsonl"})
           fs::copy_file(run_folder("fast/0") / rank, first / rank, fs::copy_options::overwrite_existing);
       },
       {"belong to another run", "variant is \"fast\", not \"longer\""});
}

/// Faults that no checksum shows: each file is whole, and less than its recipe, or of another one.
TEST_F(JudgeEndToEnd, TracesThatAreSealedAgainAreNoPass) {
  Json clean = training();
  clean["checks"] = {check("repeatable"), check("ranks_agree"), check("finishes")};
  prepare(clean);
  start_prepared();
  const fs::path whole = scratch_.path() / "whole";
  fs::copy(prepared(), whole, fs::copy_options::recursive);
  const auto judged = [&] {
    return run_lockstep({"judge", write(clean), "--traces", prepared(), "--golden", golden_root()});
  };
  EXPECT_EQ(judged().exit_code, 0) << judged().out;
  using Change = std::function<void(trace::Trace&)>;
  const auto erase_records = [](std::int64_t at, const std::function<bool(const trace::Record&)>& which) -> Change {
    return [=](trace::Trace& trace) {
      for (trace::Step& step : trace.steps) {
        if (at < -1 || step.step == at) std::erase_if(step.records, which);
      }
    };
  };
  const auto of_channel = [](trace::Channel channel) {
    return [channel](const trace::Record& record) { return record.channel == channel; };
  };
  const auto named = [](const std::string& name) {
    return [name](const trace::Record& record) { return record.name == name; };
  };
  const auto erase_step = [](std::int64_t at) -> Change {
    return [at](trace::Trace& trace) {
      std::erase_if(trace.steps, [at](const trace::Step& step) { return step.step == at; });
    };
  };
  constexpr std::int64_t kAll = -2;
  const Change without_sketches = [](trace::Trace& trace) {
    for (trace::Step& step : trace.steps) {
      for (trace::Record& record : step.records) record.sketch.reset();
    }
  };
  const Change as_fast = [](trace::Trace& trace) {
    trace =
        trace::read_trace(fs::path(trace.origin).parent_path() / "../../fast/0" / fs::path(trace.origin).filename());
  };
  const std::tuple<std::string, Change, std::vector<std::string>> rows[] = {
      {"a step", erase_step(2), {"rank0.jsonl lacks step 2: its recipe records every update"}},
      {"the first state", erase_step(-1), {"rank0.jsonl lacks step -1"}},
      {"a channel in a step",
       erase_records(1, of_channel(trace::Channel::kGradient)),
       {"step 1 lacks gradient", "which other steps have"}},
      {"a channel",
       erase_records(kAll, of_channel(trace::Channel::kOptimizer)),
       {"no record of the channel optimizer"}},
      {"weights of the first state", erase_records(-1, of_channel(trace::Channel::kWeight)), {"step -1 lacks weight"}},
      {"a tensor in a step", erase_records(3, named("fc1.weight")), {"step 3 lacks gradient.local fc1.weight"}},
      {"a state everywhere",
       erase_records(kAll, named("fc1.bias.momentum_buffer")),
       {"lacks optimizer fc1.bias.momentum_buffer, which its recipe makes"}},
      {"sketches", without_sketches, {"lacks its sketch"}},
      {"who recorded what", [](trace::Trace& trace) { trace.header.erase("record"); }, {"record is null, not {"}},
  };
  for (const auto& [what, change, parts] : rows) {
    SCOPED_TRACE(what);
    fs::remove_all(prepared());
    fs::copy(whole, prepared(), fs::copy_options::recursive);
    for (const char* repeat : {"slow/0", "slow/1"}) {
      for (const char* rank : {"rank0.jsonl", "rank1.jsonl"}) rewrite(run_folder(repeat) / rank, change);
    }
    const Outcome outcome = judged();
    EXPECT_EQ(outcome.exit_code, 4) << outcome.out;
    expect_says(outcome.out, parts);
  }
  const auto relabelled = [&](const Change& change, const std::vector<std::string>& files,
                              const std::vector<std::string>& parts) {
    fs::remove_all(prepared());
    fs::copy(whole, prepared(), fs::copy_options::recursive);
    for (const std::string& file : files) {
      rewrite(run_folder("slow") / file, [&](trace::Trace& trace) {
        const Json header = trace.header;
        change(trace);
        trace.header = header;
      });
    }
    const Outcome outcome = judged();
    EXPECT_EQ(outcome.exit_code, 4) << outcome.out;
    expect_says(outcome.out, parts);
  };
  relabelled(as_fast, {"0/rank0.jsonl", "0/rank1.jsonl", "1/rank0.jsonl", "1/rank1.jsonl"},
             {"unlike its recipe", "it breaks the law 'ledger' of its recipe (step 0, ledger learning_rate"});
  const Change as_rank_0 = [](trace::Trace& trace) {
    trace = trace::read_trace(fs::path(trace.origin).parent_path() / "rank0.jsonl");
  };
  relabelled(as_rank_0, {"0/rank1.jsonl", "1/rank1.jsonl"},
             {"unlike its recipe", "the law 'order' of its recipe (step 0, samples ids, rank 1"});
}

TEST_F(JudgeEndToEnd, AnotherRecipeIsNamed) {
  prepare(training(), {"--set", "train.batch.global=24"});
  start_prepared();
  expect_says(judge(prepared()).said(), {"of another recipe than the scenario's", "train.batch.global 12 -> 24"});
  EXPECT_EQ(judge(prepared()).exit_code(), 4);
  for (const std::string run : {"slow/0", "slow/1", "fast/0", "fast/1", "longer/0", "longer/1"})
    fs::remove(run_folder(run) / "run.json");
  const Result alone = judge(prepared());
  EXPECT_EQ(alone.exit_code(), 4) << alone.said();
  expect_says(alone.said(), {"belong to another run", "train_digest is"});
}

TEST_F(JudgeEndToEnd, WhatRecordsLessThanTheScenarioIsAnotherRecipe) {
  prepare(training(), {"--set", "train.record.every=2"});
  start_prepared();
  expect_says(judge(prepared()).said(), {"train.record.every 1 -> 2"});
  for (const std::string run : {"slow/0", "slow/1", "fast/0", "fast/1", "longer/0", "longer/1"})
    fs::remove(run_folder(run) / "run.json");
  expect_says(judge(prepared()).said(), {"belong to another run", "record is"});
  EXPECT_EQ(judge(prepared()).exit_code(), 4);
}

TEST_F(JudgeEndToEnd, TheOutcomeOfAnotherRunCountsForNothing) {
  const Result ours = run(training());
  fs::copy_file(ours.out / "tiny/fast/0/outcome.json", ours.out / "tiny/slow/0/outcome.json",
                fs::copy_options::overwrite_existing);
  const Result result = judge(ours.out);
  EXPECT_EQ(result.check("finishes").at("status"), "inconclusive") << result.said();
  expect_says(result.said(), {"slow/0/outcome.json is of another run: tiny/fast/0"});
}

TEST_F(JudgeEndToEnd, ADamagedOutcomeIsNoGoodEnd) {
  const Result ours = run(training());
  const fs::path outcome = ours.out / "tiny/slow/0/outcome.json";
  const std::string whole = read_text(outcome);
  std::string strange = whole;
  strange.replace(strange.find("finished"), 8, "finishd");
  for (const std::string& text : {whole.substr(0, 20), std::string(), strange}) {
    write_file(outcome, text);
    const Result result = judge(ours.out);
    EXPECT_EQ(result.check("finishes").at("status"), "inconclusive") << result.said();
    expect_says(result.said(), {"outcome.json is damaged"});
  }
}

TEST_F(JudgeEndToEnd, ARunThatTheScenarioHasNotIsRefused) {
  prepare(training());
  fs::create_directories(run_folder("slow/2"));
  const Result result = judge(prepared());
  EXPECT_EQ(result.exit_code(), 2) << result.said();
  expect_says(result.said(), {"a run that the scenario does not have", "slow/2"});
}

TEST_F(JudgeEndToEnd, AFolderThatIsNotThereIsRefused) {
  const Result result = judge(scratch_.path() / "nowhere");
  EXPECT_EQ(result.exit_code(), 2) << result.said();
  expect_says(result.said(), {"the folder of traces is missing"});
}

TEST_F(JudgeEndToEnd, WhatOneCommandCannotDoIsNotPrepared) {
  for (const Json& launch :
       {Json{{"arrival_delay_ms", {0, 5}}}, Json{{"step_delay_ms", {0, 5}}}, Json{{"environment_order", "reversed"}}}) {
    const Outcome outcome =
        run_lockstep({"run", write(scenario({{"launch", launch}})), "--prepare", scratch_.path() / "refused"});
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out << outcome.err;
    expect_says(outcome.err, {"launch." + launch.begin().key(), "cannot be handed to another scheduler"});
    EXPECT_FALSE(fs::exists(scratch_.path() / "refused"));
  }
}

// What the caller's shell asks of a recorder is for `lockstep record`; the scenario alone says what its runs record.
TEST_F(JudgeEndToEnd, RunsOfAProgramDoNotInheritWhatAShellAsksOfRecorders) {
  const Json program = {{"name", "own"},
                        {"description", "A program."},
                        {"program", {{"command", {"true", "{world_size}"}}, {"record", {{"every", 2}}}}},
                        {"checks", Json::array({check("finishes")})}};
  const Outcome outcome = run_program({"/usr/bin/env", "LOCKSTEP_RECORD=/nowhere", "LOCKSTEP_RECORD_EVERY=9",
                                       "LOCKSTEP_RECORD_CHANNELS=loss", "LOCKSTEP_RECORD_WEIGHTS=checkpoints",
                                       "LOCKSTEP_RECORD_HEADER={}", "LOCKSTEP_RECORD_STRICT=1", "LOCKSTEP_CONTROL={}",
                                       lockstep_program(), "run", write(program), "--prepare", prepared()});
  ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const Json variables = Json::parse(read_text(prepared() / "commands.json"))["runs"][0]["environment"];
  EXPECT_EQ(variables["LOCKSTEP_RECORD_EVERY"], "2");
  EXPECT_NE(variables["LOCKSTEP_RECORD"], "/nowhere");
  EXPECT_NE(variables["LOCKSTEP_RECORD_CHANNELS"], "loss");
  EXPECT_EQ(variables.value("LOCKSTEP_RECORD_WEIGHTS", "inherited"), "steps");
  EXPECT_EQ(variables.value("LOCKSTEP_RECORD_STRICT", "inherited"), "0");
  EXPECT_EQ(variables.value("LOCKSTEP_CONTROL", "inherited"), "{}");
  const std::string settings = read_text(source_root() / "python/lockstep/_settings.py");
  const std::regex name("LOCKSTEP_[A-Z_]+[A-Z]");
  for (std::sregex_iterator found(settings.begin(), settings.end(), name), end; found != end; ++found)
    EXPECT_TRUE(variables.contains(found->str())) << "the recorder reads " << found->str();
}

}  // namespace
}  // namespace lockstep::test
