#include <filesystem>
#include <fstream>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/golden/processors.h"
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

  std::filesystem::path file() const { return golden::golden_file(bench_.scratch.path() / "golden", "tiny", "a"); }

  /// Accepts what the scenario's variant computes now, with `edit` made to the runs before.
  void accept(const std::function<void(trace::RunTrace&)>& edit = nullptr) {
    trace::RunTrace run = tiny_run(bench_.scenario.variant("a"), "a/0");
    if (edit) edit(run);
    golden::accept(file(), acceptable(run));
  }

  golden::Acceptable acceptable(const trace::RunTrace& run) const {
    const std::vector<Channel> all = trace::all_channels();
    return {.name = {"tiny", "a"},
            .key = "portable",
            .recipe = bench_.scenario.variant("a").train_json,
            .channels = {all.begin(), all.end()},
            .repeats = {run, run},
            .acceptance = {.date = "2027-01-31", .reason = "test"}};
  }

  /// Replaces text in the file, as an accident would: no digest is mended.
  void damage(const std::string& before, const std::string& after) {
    std::string content = read_file(file());
    const auto place = content.find(before);
    ASSERT_NE(place, std::string::npos) << before;
    replace_file(file(), content.replace(place, before.size(), after));
  }

  /// Changes the golden and seals it, as a person with ill will would.
  void edit(const std::function<void(golden::Entry&)>& change) {
    golden::Golden golden = golden::read_golden(file()).value();
    change(golden.entries.at(0));
    replace_file(file(), golden::to_text(golden));
  }

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
  EXPECT_TRUE(check().goldens.empty()) << "none was read";
  accept();
  EXPECT_TRUE(agrees(check()));
  EXPECT_EQ(check().goldens, (std::map<std::string, std::string>{{file().string(), sha256(read_file(file()))}}));
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
  EXPECT_NE(result.why.find(file().string()), std::string::npos) << result.why;
  EXPECT_NE(result.next.find("lockstep golden accept"), std::string::npos);
}

TEST_F(GoldenCheck, ComparesWithTheNearestOfOtherProcessors) {
  golden::Acceptable other = acceptable(bench_.run("a"));
  other.key = "native-avx2";
  golden::accept(file(), other);
  EXPECT_EQ(check().status, Status::kBaseline) << "equal bits are no golden of these processors";
  EXPECT_NE(
      check().why.find("no entry for the processors 'portable', only for: native-avx2; the one of 'native-avx2' has "
                       "the bits of this run"),
      std::string::npos)
      << check().why;
  spoil(bench_.run("a"), 1, 2, Channel::kWeight, "fc.weight");
  EXPECT_EQ(check().status, Status::kBaseline);
  EXPECT_NE(check().why.find("differs first at step 2, weight fc.weight, rank 1"), std::string::npos) << check().why;
  accept();
  EXPECT_EQ(golden::read_golden(file())->entries.size(), 2U) << "one entry beside the other";
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
  golden::Acceptable b = acceptable(narrow);
  b.name.variant = "b";
  b.recipe = bench_.scenario.variant("b").train_json;
  b.channels = {Channel::kSamples, Channel::kLedger};
  golden::accept(golden::golden_file(bench_.scratch.path() / "golden", "tiny", "b"), b);
  EXPECT_TRUE(agrees(check()));
  spoil(bench_.run("a"), 1, 1, Channel::kGradient, "fc.weight");
  EXPECT_TRUE(diverges_at(check(), 1, Channel::kGradient, "fc.weight", 1));
}

TEST_F(GoldenCheck, IsInconclusiveWhereBothHoldNan) {
  const auto lose = [](trace::RunTrace& run) {
    put(run, 0, 2, floats(Channel::kWeight, "fc.bias", {std::nanf(""), 0, 0, 0}));
  };
  accept();
  const std::string before = read_file(file());
  EXPECT_THROW(accept(lose), InputError) << "it can become no golden";
  EXPECT_EQ(read_file(file()), before);
  lose(bench_.run("a"));
  EXPECT_EQ(check().status, Status::kDivergence);
  edit([&](golden::Entry& entry) { lose(entry.run); });
  EXPECT_TRUE(is_inconclusive(check(), "first at step 2, weight fc.bias, rank 0"));
  EXPECT_NE(check().next.find("lower the learning rate"), std::string::npos) << check().next;
}

TEST_F(GoldenCheck, IsBaselineForAnotherTraining) {
  const std::pair<const char*, const char*> others[] = {{"scenario", "'other', variant 'a'"},
                                                        {"variant", "variant 'other'"}};
  for (const auto& [key, found] : others) {
    golden::Acceptable other = acceptable(bench_.run("a"));
    (std::string(key) == "scenario" ? other.name.scenario : other.name.variant) = "other";
    golden::accept(file(), other);
    const auto result = check();
    EXPECT_EQ(result.status, Status::kBaseline) << key;
    EXPECT_NE(result.why.find(found), std::string::npos) << result.why;
  }
}

TEST_F(GoldenCheck, IsBaselineForAnotherWorldSize) {
  scenario::Variant wide = bench_.scenario.variant("a");
  wide.world_size = 4;
  const trace::RunTrace run = tiny_run(wide, "a/0");
  golden::accept(file(), acceptable(run));
  const auto result = check();
  EXPECT_EQ(result.status, Status::kBaseline);
  EXPECT_NE(result.why.find("found 'tiny', variant 'a', 4 ranks"), std::string::npos) << result.why;
}

/// A golden of whole tensors that may lie in parts, and runs of the same training in parts.
class BorrowedGoldenCheck : public GoldenCheck {
 protected:
  BorrowedGoldenCheck() : GoldenCheck(borrowed()) {
    bench_.run("b") = tiny_run(bench_.scenario.variant("a"), "b/0");
    give_sums(bench_.run("a"));
    give_sums(bench_.run("b"));
    for_weights(bench_.run("b"), [](trace::Record& weight) {
      weight.digest = *weight.sum;
      weight.is_joined = true;
      *weight.norm *= 1 + 5e-8;  // added up in another order
    });
    for (const std::int64_t rank : {0, 1})
      step_at(bench_.run("b"), rank, 1).records.push_back(text(Channel::kCollective, "0", "allgather"));
    accept(give_sums);
  }

  static Json borrowed() {
    Json changes = with_golden();
    changes["variants"]["b"] = {{"train", {{"optimizer", {{"lr", 0.3}}}}}};
    changes["checks"] = {{{"that", "golden"}, {"variants", {"a"}}},
                         {{"that", "golden"}, {"variants", {"b"}}, {"of", "a"}}};
    return changes;
  }

  static void for_weights(trace::RunTrace& run, const std::function<void(trace::Record&)>& change) {
    for (trace::Trace& rank : run.ranks) {
      for (trace::Step& step : rank.steps) {
        for (trace::Record& record : step.records) {
          if (record.channel == Channel::kWeight) change(record);
        }
      }
    }
  }

  static void give_sums(trace::RunTrace& run) {
    for_weights(run, [](trace::Record& weight) {
      weight.sum = trace::Digest{.high = weight.digest.low, .low = weight.digest.high};
    });
  }
};

TEST_F(BorrowedGoldenCheck, HoldsSumsThatPartsAreComparedWith) {
  EXPECT_TRUE(agrees(check()));
  const auto result = bench_.check(1);
  EXPECT_TRUE(agrees(result)) << result.why;
  EXPECT_EQ(result.why, "collectives are not compared with those of 'a'");
  EXPECT_NE(read_file(file()).find(" fc.bias +"), std::string::npos);
}

TEST_F(BorrowedGoldenCheck, SeesAnotherBitAndAnotherRecipe) {
  trace::Record& weight = at(bench_.run("b"), 1, 2, Channel::kWeight, "fc.bias");
  weight.digest.low ^= 1;
  const auto result = bench_.check(1);
  EXPECT_TRUE(diverges_at(result, 2, Channel::kWeight, "fc.bias", 1));
  EXPECT_NE(result.next.find("give it a golden of its own"), std::string::npos) << result.next;
  weight.digest.low ^= 1;
  *weight.norm *= 1.1;
  EXPECT_TRUE(is_inconclusive(bench_.check(1), "contradicts itself"));
  *weight.norm /= 1.1;
  bench_.train_digests["a"] = "another";
  EXPECT_EQ(bench_.check(1).status, Status::kBaseline) << "the training whose golden it is has changed";
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
  bench_.scenario.variants[0].train_json["record"]["every"] = 2;
  spoil(bench_.run("a"), 0, 0, Channel::kWeight, "fc.bias");
  const auto result = check();
  ASSERT_TRUE(diverges_at(result, 0, Channel::kWeight, "fc.bias", 0));
  EXPECT_NE(result.divergence->cause.find("train.optimizer.lr 0.1 -> 0.2"), std::string::npos)
      << result.divergence->cause;
  EXPECT_EQ(result.divergence->cause.find("train.record"), std::string::npos) << "that changes nothing of a training";
}

/// Where a program stands is no part of its recipe; the content of its files is.
TEST_F(GoldenCheck, NamesTheFileOfAProgramThatChanged) {
  const auto holds = [](const char* content) {
    return [=](trace::RunTrace& run) {
      for (trace::Trace& rank : run.ranks) rank.header["inputs"] = {{"train.py", content}};
    };
  };
  accept(holds("1"));
  holds("2")(bench_.run("a"));
  for (const std::int64_t rank : {0, 1}) {
    trace::Record& gradient = at(bench_.run("a"), rank, 1, Channel::kGradient, "fc.weight");
    gradient.digest.low ^= 1;
    *gradient.norm *= 1 + 1e-7;
  }
  EXPECT_EQ(check().divergence->cause_id(), "recipe.drift");
  for (const std::int64_t rank : {0, 1}) *at(bench_.run("a"), rank, 1, Channel::kGradient, "fc.weight").norm *= 1.1;
  EXPECT_EQ(check().divergence->cause_id(), "recipe.changed");
  EXPECT_EQ(check().divergence->suspects[0].evidence, std::vector<std::string>{"the content of train.py"});
}

/// Bits that differ as rounding does, and the golden's recipe in another order.
TEST_F(GoldenCheck, CallsItDriftWhereOnlyTheOrderChanged) {
  accept();
  bench_.train_digests["a"] = "another";
  Json& recipe = bench_.scenario.variants[0].train_json;
  const Json sound = recipe;
  for (const std::int64_t rank : {0, 1}) {
    trace::Record& gradient = at(bench_.run("a"), rank, 1, Channel::kGradient, "fc.weight");
    gradient.digest.low ^= 1;
    *gradient.norm *= 1 + 1e-7;
  }
  recipe["determinism"]["threads"] = 2;
  EXPECT_EQ(check().divergence->cause_id(), "recipe.drift");
  EXPECT_NE(check().divergence->cause.find("stay within the bound of rounding (losses by up to 0 of theirs"),
            std::string::npos)
      << check().divergence->cause;
  recipe["optimizer"]["lr"] = 0.2;
  EXPECT_EQ(check().divergence->cause_id(), "recipe.changed") << "a rate is no order";
  recipe = sound;
  recipe["determinism"]["threads"] = 2;
  for (const std::int64_t rank : {0, 1}) *at(bench_.run("a"), rank, 1, Channel::kGradient, "fc.weight").norm *= 1.1;
  EXPECT_EQ(check().divergence->cause_id(), "recipe.changed") << "that is more than rounding";
  EXPECT_EQ(check().divergence->cause.find("drift"), std::string::npos);
}

TEST_F(GoldenCheck, CallsNothingDriftWhereNaNHidesTheRest) {
  const auto lose = [](trace::RunTrace& run) {
    put(run, 0, 2, floats(Channel::kWeight, "fc.bias", {std::nanf(""), 0, 0, 0}));
  };
  accept();
  edit([&](golden::Entry& entry) { lose(entry.run); });
  lose(bench_.run("a"));
  bench_.train_digests["a"] = "another";
  bench_.scenario.variants[0].train_json["determinism"]["threads"] = 2;
  trace::Record& gradient = at(bench_.run("a"), 0, 1, Channel::kGradient, "fc.weight");
  gradient.digest.low ^= 1;
  *gradient.norm *= 1 + 1e-7;
  EXPECT_EQ(check().divergence->cause_id(), "recipe.changed");
  EXPECT_EQ(check().divergence->cause.find("drift"), std::string::npos) << check().divergence->cause;
}

/// Such as one of a later lockstep.
TEST_F(GoldenCheck, AChannelThatNeitherHoldsIsNoDifference) {
  golden::Acceptable narrow = acceptable(bench_.run("a"));
  std::set<Channel> held;
  for (const trace::Step& step : bench_.run("a").ranks[0].steps) {
    for (const trace::Record& record : step.records) held.insert(record.channel);
  }
  narrow.channels = held;
  ASSERT_LT(held.size(), trace::all_channels().size());
  golden::accept(file(), narrow);
  EXPECT_TRUE(agrees(check()));
  narrow.channels.erase(Channel::kGradient);
  golden::accept(file(), narrow);
  EXPECT_EQ(check().status, Status::kBaseline);
  EXPECT_NE(check().why.find("records the channel 'gradient', which the golden does not hold"), std::string::npos);
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

TEST_F(GoldenCheck, IsInconclusiveWhenDamaged) {
  for (const auto& [before, after] : {std::pair{"reason test", "reason toast"},
                                      {"scenario tiny", "scenario tine"},
                                      {"\n2 weight", "\n3 weight"},
                                      {"\n2 weight", "\nx weight"},
                                      {"curve 2", "curve 4"},
                                      {"end ", "and "}}) {
    accept();
    damage(before, after);
    EXPECT_TRUE(is_inconclusive(check(), "damaged")) << before;
    EXPECT_NE(check().next.find("restore"), std::string::npos);
    std::filesystem::remove(file());
  }
}

TEST_F(GoldenCheck, IsInconclusiveWhenTornAnywhere) {
  accept();
  const std::string whole = read_file(file());
  for (std::size_t left = 0; left < whole.size(); left += left < 200 || left + 200 > whole.size() ? 1 : 97) {
    write_file(file(), whole.substr(0, left));
    EXPECT_TRUE(is_inconclusive(check(), "damaged")) << left << " bytes left";
  }
}

TEST_F(GoldenCheck, SeesEveryFlippedBit) {
  accept();
  const std::string whole = read_file(file());
  std::uint64_t state = 1;
  for (int i = 0; i < 10'000; ++i) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    std::string flipped = whole;
    flipped[(state >> 20U) % whole.size()] ^= static_cast<char>(1U << ((state >> 50U) % 8));
    try {
      golden::golden_from(flipped, "a golden");
      ADD_FAILURE() << "bit " << (state >> 50U) % 8 << " of byte " << (state >> 20U) % whole.size();
    } catch (const DamagedFile&) {
      continue;
    }
  }
}

TEST_F(GoldenCheck, IsBaselineAmidAMergeConflict) {
  accept();
  const std::string whole = read_file(file());
  const std::size_t line = whole.find("recipe");
  write_file(file(), whole.substr(0, line) + "<<<<<<< HEAD\n" + whole.substr(line, 200) + "=======\n" +
                         whole.substr(line) + ">>>>>>> other\n");
  const auto result = check();
  EXPECT_EQ(result.status, Status::kBaseline) << result.why;
  EXPECT_NE(result.why.find("the markers of a merge conflict"), std::string::npos) << result.why;
}

/// Edited and sealed again: whatever a check compares, or a golden says of equal bits.
TEST_F(GoldenCheck, SeesWhatWasEditedAndSealedAgain) {
  using golden::Entry;
  const auto first_weight = [](Entry& entry) -> trace::Record& {
    for (trace::Record& record : entry.run.ranks[1].steps.at(2).records) {
      if (record.channel == Channel::kWeight) return record;
    }
    throw std::runtime_error("there is none");
  };
  const std::pair<const char*, std::function<void(Entry&)>> edits[] = {
      {"a digest", [&](Entry& entry) { first_weight(entry).digest.low ^= 1; }},
      {"a norm", [&](Entry& entry) { first_weight(entry).norm = 2 * *first_weight(entry).norm; }},
      {"a shape", [&](Entry& entry) { first_weight(entry).shape.push_back(1); }},
      {"a dtype", [&](Entry& entry) { first_weight(entry).dtype = trace::DType::kBFloat16; }},
      {"a name", [&](Entry& entry) { first_weight(entry).name += "x"; }},
      {"a step", [](Entry& entry) { entry.run.ranks[0].steps.pop_back(); }},
      {"a record", [](Entry& entry) { entry.run.ranks[1].steps[1].records.pop_back(); }},
      {"a rank", [](Entry& entry) { entry.run.ranks.pop_back(); }},
      {"the recipe", [](Entry& entry) { entry.recipe["optimizer"]["lr"] = 0.3; }},
      {"the data's size", [](Entry& entry) { entry.run.ranks[0].header["samples"] = 25; }},
      {"the recipe's digest", [](Entry& entry) { entry.run.ranks[0].header["train_digest"] = "other"; }},
      {"the key", [](Entry& entry) { entry.key = "portable-v1"; }},
      {"the channels", [](Entry& entry) { entry.channels.erase(Channel::kLoss); }}};
  for (const auto& [what, change] : edits) {
    accept();
    EXPECT_TRUE(agrees(check()));
    edit(change);
    EXPECT_NE(check().status, Status::kAgree) << what;
    std::filesystem::remove(file());
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

/// The processor of an emulator, or of another node, may lack what this machine has.
TEST_F(GoldenCheck, RefusesAProfileThatTheProcessorDoesNotHold) {
  accept();
  bench_.run("a").ranks[0].header["environment"] = {{"cpu_capability", "AVX2"}};
  EXPECT_EQ(check().status, Status::kAgree);
  bench_.run("a").ranks[0].header["environment"] = {{"cpu_capability", "DEFAULT"}};
  EXPECT_THROW(golden::class_of(bench_.run("a")), Unsupported);
  const checks::CheckResult result = check();
  EXPECT_TRUE(is_inconclusive(result));
  EXPECT_EQ(result.next, "run it on a processor with x86-64-v3 (AVX2, FMA), and set ATEN_CPU_CAPABILITY nowhere else");
}

/// A program may set a variable of its own, or lose one on the way.
TEST_F(GoldenCheck, RefusesARunThatLeftItsProfile) {
  accept();
  Json& environment = bench_.run("a").ranks[0].header["environment"];
  environment["variables"] = {{"MKL_CBWR", "COMPATIBLE"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}};
  EXPECT_EQ(check().status, Status::kAgree);
  environment["variables"] = {{"MKL_CBWR", "AVX2"}, {"ONEDNN_MAX_CPU_ISA", "AVX2"}};
  EXPECT_TRUE(is_inconclusive(check()));
  EXPECT_NE(check().why.find("MKL_CBWR is not COMPATIBLE"), std::string::npos) << check().why;
  environment["variables"] = {{"MKL_CBWR", "COMPATIBLE"}};
  EXPECT_NE(check().why.find("ONEDNN_MAX_CPU_ISA is not AVX2"), std::string::npos) << check().why;
}

TEST_F(GoldenCheck, LooksForTheModelBeforeTheClass) {
  accept();
  bench_.run("a").ranks[0].header["environment"]["cpu_model"] = "Model 1";
  ASSERT_EQ(check().status, Status::kAgree) << "no entry of this model: the one of the class";
  golden::Acceptable of_model = acceptable(bench_.run("a"));
  of_model.key = "portable@model-1";
  for (trace::RunTrace& run : of_model.repeats) spoil(run, 0, 1, Channel::kWeight, "fc.weight");
  golden::accept(file(), of_model);
  EXPECT_EQ(check().status, Status::kDivergence) << "the entry of this model has other bits";
  EXPECT_EQ(golden::key_to_accept(file(), golden::keys_of(bench_.run("a"))), "portable@model-1")
      << "that is the one which counts";
  bench_.run("a").ranks[0].header["environment"]["cpu_model"] = "Model 2";
  EXPECT_EQ(check().status, Status::kAgree);
  EXPECT_EQ(golden::key_to_accept(file(), golden::keys_of(bench_.run("a"))), "portable");
}

TEST(GoldenKey, SpeaksForAProcessor) {
  Bench bench(with_golden());
  bench.run("a").ranks[0].header["environment"]["cpu_model"] = "AMD EPYC (9B14)";
  EXPECT_EQ(golden::keys_of(bench.run("a")), (std::vector<std::string>{"portable@amd-epyc-9b14", "portable"}));
  EXPECT_EQ(golden::class_of(std::string("portable@amd-epyc-9b14")), "portable");
  EXPECT_EQ(golden::class_of(bench.run("a")), "portable");
  bench.run("a").ranks[0].header["cpu"] = "native";
  bench.run("a").ranks[0].header["environment"] = {{"cpu_capability", "AVX512"}};
  EXPECT_EQ(golden::class_of(bench.run("a")), "native-avx512");
  EXPECT_EQ(golden::keys_of(bench.run("a")), std::vector<std::string>{"native-avx512"}) << "it does not say its model";
}

}  // namespace
}  // namespace lockstep::test
