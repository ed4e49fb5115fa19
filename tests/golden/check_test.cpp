#include <filesystem>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/golden/store.h"

#include "tests/support/tiny/bench.h"

// Check "golden": a run against its accepted trace, in every state that a golden can be in.

namespace lockstep::test {
namespace {

using trace::Channel;

Json with_golden(const Json& train = Json::object(), const Json& on = Json()) {
  Json all = {{"determinism", {{"cpu", "portable"}}}};
  all.merge_patch(train);
  Json check = {{"that", "golden"}};
  if (!on.is_null()) check["on"] = on;
  return {{"train", all}, {"variants", {{"a", Json::object()}}}, {"checks", {check}}};
}

class GoldenCheck : public testing::Test {
 protected:
  explicit GoldenCheck(const Json& changes = with_golden()) : bench_(changes) {}

  std::filesystem::path directory() const {
    return golden::golden_directory(bench_.scratch.path() / "golden", "tiny", "portable", "a");
  }

  /// Accepts what the scenario's variant computes now, with `edit` made to the runs before.
  void accept(const std::function<void(trace::RunTrace&)>& edit = nullptr) {
    trace::RunTrace run = tiny_run(bench_.scenario.variant("a"), "a/0");
    if (edit) edit(run);
    golden::accept(directory(), {run, run},
                   {.reason = "test", .date = "2027-01-31", .train = bench_.scenario.variant("a").train_json});
  }

  /// Replaces text in the file of one rank, as an accident would: no check is mended.
  void damage(std::int64_t rank, const std::string& before, const std::string& after) {
    const auto file = directory() / trace_file(rank);
    std::string content = read_file(file);
    const auto place = content.find(before);
    ASSERT_NE(place, std::string::npos) << before;
    replace_file(file, content.replace(place, before.size(), after));
  }

  void tear(std::int64_t rank, std::size_t bytes) {
    const auto file = directory() / trace_file(rank);
    std::filesystem::resize_file(file, std::filesystem::file_size(file) - bytes);
  }

  static std::string trace_file(std::int64_t rank) { return "rank" + std::to_string(rank) + ".jsonl"; }

  checks::CheckResult check() const { return bench_.check(); }

  Bench bench_;
};

class RepeatedGoldenCheck : public GoldenCheck {
 protected:
  RepeatedGoldenCheck() : GoldenCheck(repeated()) {}

  static Json repeated() {
    Json changes = with_golden();
    changes["repeats"] = 2;
    return changes;
  }
};

TEST_F(RepeatedGoldenCheck, HoldsEveryRepeatAgainstTheGolden) {
  accept();
  EXPECT_TRUE(agrees(check()));
  spoil(bench_.run("a", 1), 1, 2, Channel::kWeight, "fc.weight");
  EXPECT_TRUE(diverges_at(check(), 2, Channel::kWeight, "fc.weight", 1));
}

TEST_F(GoldenCheck, AgreesWithWhatWasAccepted) {
  accept();
  EXPECT_TRUE(agrees(check()));
}

TEST_F(GoldenCheck, NamesTheFirstDivergence) {
  accept();
  spoil(bench_.run("a"), 1, 2, Channel::kGradient, "fc.weight");
  const auto result = check();
  ASSERT_TRUE(diverges_at(result, 2, Channel::kGradient, "fc.weight", 1));
  EXPECT_EQ(result.divergence->left.name(), "golden");
  EXPECT_NE(result.next.find("lockstep golden accept"), std::string::npos);
}

TEST_F(GoldenCheck, IsBaselineWhenMissing) {
  const auto result = check();
  EXPECT_EQ(result.status, Status::kBaseline);
  EXPECT_NE(result.why.find(directory().string()), std::string::npos) << result.why;
  EXPECT_NE(result.next.find("lockstep golden accept"), std::string::npos);
}

TEST_F(GoldenCheck, SaysForWhichProcessorsThereIsOne) {
  accept();
  std::filesystem::rename(directory().parent_path(), directory().parent_path().parent_path() / "native-avx2");
  const auto result = check();
  EXPECT_EQ(result.status, Status::kBaseline);
  EXPECT_NE(result.why.find("of the processors 'portable', and there is one of: native-avx2"), std::string::npos)
      << result.why;
}

TEST_F(GoldenCheck, NamesDataThatChanged) {
  const auto change = [this] {
    auto x = std::vector<float>(static_cast<std::size_t>(at(bench_.run("a"), 1, 1, Channel::kInput, "x").shape[0]) * 8);
    put(bench_.run("a"), 1, 1, floats(Channel::kInput, "x", x, {static_cast<std::int64_t>(x.size()) / 8, 8}));
    spoil(bench_.run("a"), 1, 1, Channel::kWeight, "fc.weight");
  };
  accept();
  change();
  EXPECT_EQ(check().divergence->cause_id(), "data.content");
  bench_.scenario.checks[0].channels = {Channel::kWeight};
  ASSERT_TRUE(diverges_at(check(), 1, Channel::kWeight, "fc.weight", 1)) << "inputs are recorded, and not compared";
  EXPECT_EQ(check().divergence->cause_id(), "data.content");
  spoil(bench_.run("a"), 0, 0, Channel::kWeight, "fc.weight");
  EXPECT_EQ(check().divergence->cause_id(), "unknown") << "it begins before the data differ";
}

TEST_F(GoldenCheck, KnowsByItsDigestThatDataChanged) {
  accept();
  spoil(bench_.run("a"), 0, 2, Channel::kLoss, "local");
  EXPECT_EQ(check().divergence->cause_id(), "unknown");
  bench_.train_digests["a"] = "another";  // of which the data file is a part
  EXPECT_EQ(check().divergence->cause_id(), "data.content");
  bench_.scenario.variants[0].train.checkpoint.load.emplace();
  EXPECT_EQ(check().divergence->cause_id(), "unknown") << "or what it loads";
  bench_.scenario.variants[0].train.checkpoint.load.reset();
  bench_.scenario.variants[0].train_json["optimizer"]["lr"] = 0.2;
  const auto changed = check();
  EXPECT_EQ(changed.divergence->cause_id(), "recipe.changed");
  EXPECT_EQ(changed.divergence->suspects[0].evidence, std::vector<std::string>{"train.optimizer.lr 0.1 -> 0.2"});
  spoil(bench_.run("a"), 0, 2, Channel::kInput, "x");  // as another size of the data does
  EXPECT_EQ(check().divergence->cause_id(), "recipe.changed");
  bench_.train_digests["a"] = bench_.run("a").ranks[0].header.value("train_digest", "");
}

TEST_F(GoldenCheck, NamesDataOfAnotherSize) {
  accept();
  put(bench_.run("a"), 0, 0, integers(Channel::kSamples, "ids", {1, 2, 3, 4, 5, 30}));
  EXPECT_EQ(check().divergence->cause_id(), "unknown");
  for (trace::Trace& rank : bench_.run("a").ranks) rank.header["samples"] = 36;
  EXPECT_EQ(check().divergence->cause_id(), "data.content");
}

class GoldenCheckOfTwo : public GoldenCheck {
 protected:
  GoldenCheckOfTwo() : GoldenCheck(of_two()) {}

  static Json of_two() {
    Json changes = with_golden();
    changes["variants"]["b"] = {{"train", {{"record", {{"channels", {"samples", "ledger"}}}}}}};
    return changes;
  }
};

TEST_F(GoldenCheckOfTwo, LosesNoChannelThatAnotherVariantDoesNotRecord) {
  accept();
  const trace::RunTrace narrow = tiny_run(bench_.scenario.variant("b"), "b/0");
  golden::accept(directory().parent_path() / "b", {narrow, narrow},
                 {.reason = "test", .date = "2027-01-31", .train = bench_.scenario.variant("b").train_json});
  EXPECT_TRUE(agrees(check()));
  spoil(bench_.run("a"), 1, 1, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(check(), 1, Channel::kGradient, "fc.weight", 1));
}

TEST_F(GoldenCheck, IsInconclusiveWhereBothHoldNan) {
  const auto lose = [](trace::RunTrace& run) {
    put(run, 0, 2, floats(Channel::kWeight, "fc.bias", {std::nanf(""), 0, 0, 0}));
  };
  accept();
  const std::string before = read_file(directory() / trace_file(0));
  EXPECT_THROW(accept(lose), InputError) << "it can become no golden";
  EXPECT_EQ(read_file(directory() / trace_file(0)), before);
  lose(bench_.run("a"));
  EXPECT_EQ(check().status, Status::kDivergence);
  // A golden of before that was refused.
  trace::RunTrace old = bench_.run("a");
  for (trace::Trace& rank : old.ranks) rank.header["golden"] = {{"reason", "old"}, {"date", "2026-01-31"}};
  std::filesystem::remove_all(directory());
  write_run(directory(), old);
  EXPECT_TRUE(is_inconclusive(check(), "first at step 2, weight fc.bias, rank 0"));
  EXPECT_NE(check().next.find("lower the learning rate"), std::string::npos) << check().next;
}

TEST_F(GoldenCheck, IsInconclusiveBesideARankTooMany) {
  accept();
  std::filesystem::copy_file(directory() / trace_file(1), directory() / trace_file(2));
  EXPECT_TRUE(is_inconclusive(check(), "more traces than ranks"));
}

TEST_F(GoldenCheck, IsInconclusiveWhereRank1IsOfAnotherTraining) {
  for (const char* key : {"scenario", "variant", "train_digest"}) {
    accept([key](trace::RunTrace& run) { run.ranks[1].header[key] = "other"; });
    EXPECT_TRUE(is_inconclusive(check(), "belong to different runs")) << key;
  }
}

TEST_F(GoldenCheck, IsBaselineForAnotherTraining) {
  const std::pair<const char*, const char*> others[] = {{"scenario", "'other', variant 'a'"},
                                                        {"variant", "variant 'other'"}};
  for (const auto& [key, found] : others) {
    accept([key = key](trace::RunTrace& run) {
      for (trace::Trace& rank : run.ranks) rank.header[key] = "other";
    });
    const auto result = check();
    EXPECT_EQ(result.status, Status::kBaseline) << key;
    EXPECT_NE(result.why.find(found), std::string::npos) << result.why;
  }
}

TEST_F(GoldenCheck, IsBaselineForAnotherWorldSize) {
  scenario::Variant wide = bench_.scenario.variant("a");
  wide.world_size = 4;
  const trace::RunTrace run = tiny_run(wide, "a/0");
  golden::accept(directory(), {run, run}, {.reason = "test", .date = "2027-01-31", .train = Json::object()});
  const auto result = check();
  EXPECT_EQ(result.status, Status::kBaseline);
  EXPECT_NE(result.why.find("found 'tiny', variant 'a', 4 ranks"), std::string::npos) << result.why;
}

TEST_F(GoldenCheck, IsBaselineWhenStaleWithEqualTraces) {
  accept();
  bench_.train_digests["a"] = "another";
  bench_.scenario.variants[0].train_json["determinism"]["threads"] = 2;
  const auto result = check();
  EXPECT_EQ(result.status, Status::kBaseline);
  EXPECT_NE(result.why.find("train.determinism.threads 1 -> 2"), std::string::npos) << result.why;
  EXPECT_NE(result.why.find("but the traces are equal"), std::string::npos) << result.why;
}

TEST_F(GoldenCheck, NamesTheChangedKeyWhenStaleWithOtherTraces) {
  accept();
  bench_.train_digests["a"] = "another";
  bench_.scenario.variants[0].train_json["optimizer"]["lr"] = 0.2;
  spoil(bench_.run("a"), 0, 0, Channel::kWeight, "fc.bias");
  const auto result = check();
  ASSERT_TRUE(diverges_at(result, 0, Channel::kWeight, "fc.bias", 0));
  EXPECT_NE(result.divergence->cause.find("train.optimizer.lr 0.1 -> 0.2"), std::string::npos)
      << result.divergence->cause;
}

TEST_F(GoldenCheck, BlamesTheEnvironmentWhereOnlyThatChanged) {
  const auto placed = [](const Json& build, const Json& torch) {
    return [=](trace::RunTrace& run) {
      for (trace::Trace& rank : run.ranks) rank.header["environment"] = {{"build", build}, {"torch", torch}};
    };
  };
  const auto cause = [&] { return check().divergence->cause_id(); };
  accept(placed("1", "2.10"));
  placed("1", "2.11")(bench_.run("a"));
  EXPECT_TRUE(agrees(check())) << "another environment that computes the same bits is none of a golden's matters";
  spoil(bench_.run("a"), 1, 2, Channel::kWeight, "fc.weight");
  EXPECT_EQ(cause(), "env.version_mismatch");
  placed("2", "2.11")(bench_.run("a"));
  EXPECT_EQ(cause(), "unknown") << "other sources may have any reason";
  placed("1", "2.10")(bench_.run("a"));
  EXPECT_EQ(cause(), "unknown") << "nothing is other";
}

TEST_F(GoldenCheck, NamesTheTensorOfADigestChangedInPlace) {
  accept();
  const std::string digest = to_text(at(bench_.run("a"), 1, 2, Channel::kOptimizer, "fc.bias.momentum_buffer").digest);
  damage(1, digest, (digest[0] == '0' ? "1" : "0") + digest.substr(1));
  const auto result = check();
  ASSERT_TRUE(diverges_at(result, 2, Channel::kOptimizer, "fc.bias.momentum_buffer", 1));
  EXPECT_NE(result.divergence->cause.find("the golden file is damaged"), std::string::npos) << result.divergence->cause;
  EXPECT_NE(result.divergence->cause.find("rank1.jsonl line 5"), std::string::npos) << result.divergence->cause;
  EXPECT_NE(result.next.find("restore"), std::string::npos);
}

TEST_F(GoldenCheck, IsInconclusiveWhenDamagedElsewhere) {
  accept();
  damage(0, "\"reason\":\"test\"", "\"reason\":\"toast\"");
  EXPECT_TRUE(is_inconclusive(check(), "damaged"));
  accept();
  damage(1, "\"scenario\":\"tiny\"", "\"scenario\":\"tine\"");
  EXPECT_TRUE(is_inconclusive(check(), "damaged"));
  accept();
  damage(0, "\"scenario\":\"tiny\"", "\"scenario\":\"tine\"");
  EXPECT_TRUE(is_inconclusive(check(), "damaged")) << "a damaged name is no other training";
  accept();
  damage(0, "\"step\":2", "\"step\":x");
  EXPECT_TRUE(is_inconclusive(check(), "damaged"));
}

TEST_F(GoldenCheck, IsInconclusiveWhenALineIsMissing) {
  accept();
  const auto file = directory() / trace_file(1);
  std::string content = read_file(file);
  const auto line = content.find("{\"step\":2"), next = content.find('\n', line) + 1;
  ASSERT_NE(line, std::string::npos) << content.substr(0, 300);
  replace_file(file, content.erase(line, next - line));
  EXPECT_TRUE(is_inconclusive(check(), "damaged"));
}

TEST_F(GoldenCheck, IsInconclusiveWhenTorn) {
  for (const std::size_t bytes : {1UL, 200UL, 3000UL}) {
    accept();
    tear(1, bytes);
    EXPECT_TRUE(is_inconclusive(check(), "rank1.jsonl")) << bytes << " bytes lost";
  }
  accept();
  tear(0, std::filesystem::file_size(directory() / trace_file(0)));
  EXPECT_TRUE(is_inconclusive(check(), "empty"));
}

TEST_F(GoldenCheck, StillSeesADivergenceBeforeATear) {
  accept();
  tear(1, 200);
  spoil(bench_.run("a"), 0, 0, Channel::kLoss, "local");
  EXPECT_TRUE(diverges_at(check(), 0, Channel::kLoss, "local", 0));
}

TEST_F(GoldenCheck, IsInconclusiveWhenARankIsGone) {
  for (const std::int64_t rank : {0, 1}) {
    accept();
    std::filesystem::remove(directory() / trace_file(rank));
    EXPECT_TRUE(is_inconclusive(check(), trace_file(rank)));
  }
}

TEST_F(GoldenCheck, LooksOnlyAtTheChannelsNamed) {
  accept();
  bench_.scenario.checks[0].channels = {Channel::kWeight};
  spoil(bench_.run("a"), 0, 0, Channel::kLoss, "local");
  EXPECT_TRUE(agrees(check()));
  bench_.scenario.checks[0].channels = {Channel::kWeight, Channel::kEma};
  EXPECT_TRUE(is_inconclusive(check(), "'ema'"));
}

TEST_F(GoldenCheck, SeesAStepThatTheGoldenHasNot) {
  accept([](trace::RunTrace& run) {
    for (const std::int64_t rank : {0, 1}) erase_step(run, rank, 3);
  });
  EXPECT_TRUE(diverges_at(check(), 3, Channel::kSamples, "", 0));
}

TEST_F(GoldenCheck, IsInconclusiveOnAnEmptyRun) {
  accept();
  for (trace::Trace& rank : bench_.run("a").ranks) rank.steps.clear();
  EXPECT_EQ(check().status, Status::kDivergence) << "the golden has steps";
  bench_.scenario.checks[0].channels = {Channel::kEma};
  bench_.run("a") = tiny_run(bench_.scenario.variant("a"), "a/0");
  EXPECT_TRUE(is_inconclusive(check()));
}

TEST(GoldenKey, SpeaksForAProcessor) {
  Bench bench(with_golden());
  EXPECT_EQ(golden::key_of(bench.run("a")), "portable");
  bench.run("a").ranks[0].header["cpu"] = "native";
  bench.run("a").ranks[0].header["environment"] = {{"cpu_capability", "AVX512"}};
  EXPECT_EQ(golden::key_of(bench.run("a")), "native-avx512");
}

/// A header that is well sealed and holds values of other types, under a recipe that changed since.
TEST_F(GoldenCheck, NamesAHeaderOfTheWrongTypesByFileAndLine) {
  const Json sound = bench_.scenario.variant("a").train_json;
  Json odd_every = sound, odd_channels = sound;
  odd_every["record"]["every"] = "x";
  odd_channels["record"]["channels"] = {1};
  const std::vector<std::tuple<Json, Json, std::string>> wrongs = {
      {{{"samples", "x"}}, sound, "'samples' is not a natural number"},
      {Json::object(), 3, "'golden.train' is not an object"},
      {Json::object(), odd_every, "'golden.train.record.every' is not an integer"},
      {Json::object(), odd_channels, "'golden.train.record.channels' is not an array of strings"}};
  const auto& learning_rate = bench_.scenario.variants[0].train_json["optimizer"]["lr"];
  for (const auto& [changes, train, what] : wrongs) {
    trace::RunTrace run = tiny_run(bench_.scenario.variant("a"), "a/0");
    merge_json(run.ranks[0].header, changes);
    golden::accept(directory(), {run, run}, {.reason = "test", .date = "2027-01-31", .train = train});
    bench_.scenario.variants[0].train_json["optimizer"]["lr"] = learning_rate.get<double>() / 2;
    spoil(bench_.run("a"), 1, 2, Channel::kWeight, "fc.weight");
    const auto result = check();
    EXPECT_EQ(result.status, Status::kInconclusive);
    for (const std::string& part : {what, (directory() / "rank0.jsonl").string() + ", line 1"})
      EXPECT_NE(result.why.find(part), std::string::npos) << result.why;
    EXPECT_EQ(result.why.find("json.exception"), std::string::npos) << result.why;
  }
}

}  // namespace
}  // namespace lockstep::test
