// A scenario that says something else than it seems to is refused with exit code 2: place, expectation, nearest name.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class ScenarioRefused : public EndToEnd {
 protected:
  /// Refused before anything ran: exit code 2, everything in `parts` said, and no result that could be read as a
  /// verdict.
  void expect_refused(const std::filesystem::path& file, const std::vector<std::string>& parts,
                      const std::vector<std::string>& more = {}) {
    const Result result = run_file(file, more);
    EXPECT_EQ(result.exit_code(), 2) << result.said();
    EXPECT_TRUE(result.json.is_null()) << result.json;
    EXPECT_EQ(result.process.out, "");
    EXPECT_FALSE(std::filesystem::exists(result.out / "tiny"));
    expect_says(result.process.err, parts);
  }

  void expect_refused(const Json& scenario, const std::vector<std::string>& parts) {
    expect_refused(write(scenario), parts);
  }
};

struct Case {
  std::string path;
  Json value;
  std::vector<std::string> parts;
};

TEST_F(ScenarioRefused, UnknownKeysWithTheNearestOne) {
  const std::vector<Case> cases = {
      {"tarin", 1, {"unknown key 'tarin'", "did you mean 'train'"}},
      {"train.stepps", 3, {"unknown key 'stepps'", "train", "did you mean 'steps'"}},
      {"train.optimizer.momentun", 0.9, {"train.optimizer", "did you mean 'momentum'"}},
      {"train.determinism.thread", 1, {"train.determinism", "did you mean 'threads'"}},
      {"launch.stal_s", 1, {"launch", "did you mean 'stall_s'"}},
      {"train.model.kind", "mpl", {"train.model.kind", "did you mean 'mlp'"}},
      {"variants.a.train.sampler.kind", "distribted", {"variant 'a'", "did you mean 'distributed'"}},
      {"variants.a.trian", {{"steps", 2}}, {"variant 'a'", "unknown key 'trian'", "did you mean 'train'"}},
      {"variants.a.train.checkpoint.load",
       {{"form", "a"}},
       {"variant 'a'", "train.checkpoint.load", "did you mean 'from'"}}};
  for (const Case& entry : cases) {
    SCOPED_TRACE(entry.path);
    expect_refused(scenario(at(entry.path, entry.value)), entry.parts);
  }
}

TEST_F(ScenarioRefused, ExpectedCausesThatNoFindingNames) {
  const auto expecting = [](const char* cause) {
    const Json expect = {{"status", "divergence"}, {"reason", "planted"}, {"cause", cause}};
    return scenario({{"checks", Json::array({check("ledger", {{"expect", expect}})})}});
  };
  expect_refused(expecting("grad.reduce_sun"), {"unknown cause", "did you mean 'grad.reduce_sum'"});
  expect_refused(expecting("rng.worker_clone"), {"does not recognise this cause yet", "checks.0.expect.cause"});
}

TEST_F(ScenarioRefused, TheSameInOverrides) {
  const auto file = write(scenario());
  const std::pair<std::string, std::vector<std::string>> cases[] = {
      {"train.optimizer.lrr=0.2", {"train.optimizer", "did you mean 'lr'"}},
      {"trian.steps=3", {"did you mean 'train'"}},
      {"checks.0.thta=x", {"checks.0", "did you mean 'that'"}},
      {"checks.7.that=covers", {"checks.7", "an index below 1"}},
      {"train.optimizer.lr.x=1", {"train.optimizer.lr", "no key"}},
      {"train.steps=three", {"train.steps", "integer", "\"three\""}},
      {"train.optimizer.lr=1e999", {"train.optimizer.lr", "number"}},
      {"train.optimizer=null", {"train.optimizer", "an object"}},
      {"world_size=0", {"world_size", "at least 1"}},
      {"novalue", {"path=value", "novalue"}},
      {"=3", {"path=value"}}};
  for (const auto& [text, parts] : cases) {
    SCOPED_TRACE(text);
    expect_refused(file, parts, {"--set", text});
  }
}

TEST_F(ScenarioRefused, WrongTypesAndRanges) {
  const std::vector<Case> cases = {{"world_size", 0, {"world_size", "at least 1"}},
                                   {"world_size", "two", {"world_size", "integer", "\"two\""}},
                                   {"train.steps", 1.5, {"train.steps", "integer", "1.5"}},
                                   {"train.optimizer.lr", -0.1, {"train.optimizer.lr", "at least 0", "-0.1"}},
                                   {"train.model.hidden", "16", {"train.model.hidden", "array"}},
                                   {"train", Json::array(), {"train", "object"}},
                                   {"repeats", 0, {"repeats", "at least 1"}},
                                   {"checks", Json::array(), {"checks", "at least 1"}},
                                   {"name", "../evil", {"name", "../evil"}},
                                   {"description", "", {"description"}},
                                   {"variants", {{"a/b", Json::object()}}, {"a/b", "variant"}},
                                   {"launch.stall_s", 0, {"launch.stall_s", "more than 0"}}};
  for (const Case& entry : cases) {
    SCOPED_TRACE(entry.path);
    Json document = scenario();
    document[Json::json_pointer(at(entry.path, 0).flatten().begin().key())] = entry.value;
    expect_refused(scratch_.write("wrong.json", document.dump()), entry.parts);
  }
}

TEST_F(ScenarioRefused, MissingKeys) {
  for (const char* path :
       {"/name", "/description", "/train", "/checks", "/train/model", "/train/data", "/train/batch", "/train/optimizer",
        "/train/steps", "/train/optimizer/lr", "/train/data/path", "/train/optimizer/kind"}) {
    SCOPED_TRACE(path);
    const Json::json_pointer pointer(path);
    Json document = scenario();
    document[pointer.parent_pointer()].erase(pointer.back());
    expect_refused(scratch_.write("missing.json", document.dump()), {pointer.back()});
  }
}

TEST_F(ScenarioRefused, BatchesThatDoNotDivide) {
  expect_refused(scenario({{"world_size", 5}}), {"train.batch.global", "multiple of 5", "12"});
  expect_refused(scenario(at("train.batch.accumulation", 4)), {"multiple of 8 (world size 2 x accumulation 4)"});
  expect_refused(scenario(at("train.batch.per_rank", 6)),
                 {"train.batch", "one of 'global', 'per_rank'", "global and per_rank"});
  expect_refused(scenario({{"variants", {{"w2", Json::object()}, {"w5", {{"world_size", 5}}}}}}),
                 {"variant 'w5'", "multiple of 5"});
}

TEST_F(ScenarioRefused, ChecksThatNameWhatIsNotThere) {
  const auto with = [](const Json& check) {
    return scenario(
        {{"variants", {{"left", Json::object()}, {"right", Json::object()}}}, {"checks", Json::array({check})}});
  };
  expect_refused(with(check("equal", {{"variants", {"left", "rihgt"}}})),
                 {"checks.0", "'rihgt'", "did you mean 'right'"});
  expect_refused(with(check("ledger", {{"variants", {"w*"}}})), {"checks.0", "'w*'"});
  expect_refused(with(check("ranks_agree", {{"on", {"weigth"}}})),
                 {"checks.0", "unknown channel", "did you mean 'weight'"});
  expect_refused(with(check("ranks_agre")), {"checks.0", "did you mean 'ranks_agree'"});
  expect_refused(with(check("resumes", {{"straight", "left"}, {"interrupted", "right"}})),
                 {"checks.0", "resumes nothing"});
}

TEST_F(ScenarioRefused, ChecksThatWouldCompareNothing) {
  expect_refused(scenario({{"variants", {{"a", Json::object()}}},
                           {"checks", Json::array({check("equal", {{"variants", {"a"}}})})}}),
                 {"a variant with itself"});
  expect_refused(scenario({{"checks", Json::array({check("repeatable")})}}), {"a run with itself", "repeats"});
  expect_refused(scenario({{"world_size", 1}}), {"a rank with itself"});
  Json silent = scenario({{"checks", Json::array({check("ranks_agree", {{"on", {"weight"}}})})}});
  silent["train"]["record"]["channels"] = {"samples"};
  expect_refused(silent, {"does not record", "'weight'"});
}

TEST_F(ScenarioRefused, FaultsThatCannotHappen) {
  const auto with = [](const Json& fault) { return scenario(at("train.faults", Json::array({fault}))); };
  expect_refused(with(fault("kill", 4, 0)), {"never reached", "4"});
  expect_refused(with(fault("kill", 1, 2)), {"rank", "does not exist", "2"});
  expect_refused(with(fault("kil", 1, 0)), {"train.faults.0.kind", "did you mean 'kill'"});
  expect_refused(with(fault("kill", 1, 0, {{"phase", "record"}})),
                 {"train.faults.0.phase", "data, forward, backward, optimizer"});
}

TEST_F(ScenarioRefused, TwiceTheSame) {
  const std::string text = scenario({{"variants", {{"twin", Json::object()}}}}).dump(1);
  std::string keys = text, variants = text;
  keys.insert(1, "\"name\": \"other\",");
  expect_refused(scratch_.write("keys.json", keys), {"'name' appears twice"});
  variants.insert(variants.find("\"twin\""), "\"twin\": {},");
  expect_refused(scratch_.write("variants.json", variants), {"'twin' appears twice"});
}

TEST_F(ScenarioRefused, ErrorsOfEveryStageAndFileAreToldAtOnce) {
  Json one =
      scenario({{"name", "one"},
                {"train", {{"batch", {{"global", 25}}}, {"data", {{"path", "none.csv.gz"}}}}},
                {"variants", {{"a", {{"world_size", 2}}}, {"l", at("train.checkpoint.load", {{"from", "nobody"}})}}}});
  const Json expect = {{"status", "divergence"}, {"reason", "r"}, {"cause", "nope"}};
  one["checks"] = {check("ledger", {{"expect", expect}}), check("equal", {{"variants", {"a"}}})};
  scratch_.write("all/a.json", one.dump());
  scratch_.write("all/b.json", "{\"name\": ");
  scratch_.write("all/c.json", scenario({{"name", "c"}, {"tarin", 1}}).dump());
  expect_refused(
      scratch_.path() / "all",
      {"25", "'nobody'", "none.csv.gz", "and 1 more", "unknown cause 'nope'", "checks.0.expect.cause",
       "compare a variant with itself", "not valid JSON", "b.json", "unknown key 'tarin'", "c.json", "nothere.json"},
      {scratch_.path() / "nothere.json"});
}

TEST_F(ScenarioRefused, TwoScenariosOfOneName) {
  scratch_.write("both/a.json", scenario().dump());
  scratch_.write("both/b.json", scenario().dump());
  expect_refused(scratch_.path() / "both", {"two scenarios have the same name", "'tiny'", "a.json", "b.json"});
  scratch_.write("kinds/a.json", scenario().dump());
  scratch_.write("kinds/a.jsonc", "// as editors take comments\n" + scenario().dump());
  expect_refused(scratch_.path() / "kinds", {"two scenarios have the same name", "'tiny'", "a.json", "a.jsonc"});
}

TEST_F(ScenarioRefused, NothingSelectedMissingOrUnreadable) {
  std::filesystem::create_directories(scratch_.path() / "empty");
  expect_refused(scratch_.path() / "empty", {"nothing is selected"});
  expect_refused(scratch_.path() / "nothere.json", {"missing", "nothere.json"});
  std::filesystem::create_symlink("nowhere", scratch_.path() / "broken.json");
  expect_refused(scratch_.path() / "broken.json", {"broken.json"});
  scratch_.write("folder/inner.json/x", "");
  expect_refused(scratch_.path() / "folder", {"inner.json"});
}

TEST_F(ScenarioRefused, WordsOfTheCommandLineWithTheNearestOne) {
  const fs::path file = scratch_.write("two-ranks.json", "{}");
  const std::pair<std::vector<std::string>, const char*> typos[] = {
      {{"rnu", file}, "did you mean 'run'?"},
      {{"golden", "acept", file}, "did you mean 'accept'?"},
      {{"run", file, "--qiet"}, "did you mean '--quiet'?"},
      {{"run", file, "--launcher", "torchrnu"}, "did you mean 'torchrun'?"},
      {{"run", scratch_.path() / "two-rnaks.json"}, "two-ranks.json'?"},
      {{"run", file, "--color", "alwys"}, "did you mean 'always'?"},
      {{"golden", "accept", file, "--reson", "x"}, "did you mean '--reason'?"},
      {{"run", file, "--nothing-like-it"}, "lockstep run --help"},
  };
  for (const auto& [words, said] : typos) {
    const Outcome outcome = run_lockstep(words);
    EXPECT_EQ(outcome.exit_code, 2) << said;
    expect_says(outcome.err, {said});
  }
}

TEST_F(ScenarioRefused, NotJson) {
  const std::pair<std::string, std::string> cases[] = {{"", ":1:1"},
                                                       {"{\n \"name\": tru\n}", ":2:"},
                                                       {"{\n \"a\": 1,\n}", ":3:1"},
                                                       {"\xff\xfe", ":1:1"},
                                                       {"{\"a\": 1} x", ":1:10"}};
  for (const auto& [text, place] : cases) {
    SCOPED_TRACE(text);
    expect_refused(scratch_.write("bad.json", text), {"not valid JSON", "bad.json" + place});
  }
  expect_refused(scratch_.write("list.json", "[1, 2]"), {"list.json", "an object"});
  expect_refused(scratch_.write("deep.json", std::string(100000, '[')), {"nested too deeply"});
}

TEST_F(ScenarioRefused, CheckpointFromNowhere) {
  const auto loading = [](const std::string& from) {
    return scenario({{"variants",
                      {{"saves", at("train.checkpoint.save_after", 2)},
                       {"plain", Json::object()},
                       {"loads", at("train.checkpoint.load", {{"from", from}})}}}});
  };
  expect_refused(loading("svaes"), {"variant 'loads'", "'svaes'", "did you mean 'saves'"});
  expect_refused(loading("plain"), {"saves none", "'plain'"});
  expect_refused(loading("loads"), {"'loads'"});
  expect_refused(scenario(at("train.checkpoint.save_after", 5)), {"never be saved", "5"});
}

/// The scenario is sound, but this worker cannot run it: no verdict, or exit code 77 where the scenario allows it.
TEST_F(ScenarioRefused, ADeviceThatTheWorkerLacks) {
  const Json on_gpu = scenario(at("train.device", "cuda"));
  for (const auto& [allowed, exit_code] : {std::pair(false, 4), std::pair(true, 77)}) {
    const Result result = run(merged({on_gpu, {{"may_be_unsupported", allowed}}}));
    EXPECT_EQ(result.exit_code(), exit_code) << result.said();
    expect_says(result.said(), {"built without CUDA", "train.device", "expected", "actual", "ci/cuda"});
    EXPECT_FALSE(std::filesystem::exists(result.out / "tiny/main/0/rank0.jsonl")) << "nothing was trained";
  }
  const Outcome doctor = run_lockstep({"doctor", write(scenario()).string()});
  expect_says(doctor.out, {"cpu: ", "no cuda: this worker was built without CUDA"});
}

TEST_F(ScenarioRefused, DoctorSaysWhyAWorkerCannotBeLoaded) {
  const std::string worker = script_worker("echo 'libc10.so: cannot open shared object file' >&2; exit 127");
  const Outcome doctor = run_lockstep({"doctor", "--worker", worker, write(scenario()).string()});
  EXPECT_EQ(doctor.exit_code, 2);
  for (const char* question : {"problem  worker ", "problem  devices "}) {
    const std::size_t at = doctor.out.find(question);
    ASSERT_NE(at, std::string::npos) << doctor.out;
    expect_says(doctor.out.substr(at, doctor.out.find("next", at) - at),
                {"cannot be loaded", worker, "exit code 127: libc10.so: cannot open shared object file"});
  }
  EXPECT_EQ(doctor.out.find("JSON"), std::string::npos) << doctor.out;
}

}  // namespace
}  // namespace lockstep::test
