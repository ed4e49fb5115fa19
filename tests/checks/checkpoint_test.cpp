// The law of checkpoints: each part that is loaded otherwise than it was saved turns it red.
#include <string>

#include <gtest/gtest.h>

#include "harness/checks/laws_check.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::checks {
namespace {

using test::at;
using test::Bench;
using test::put;
using trace::Channel;

constexpr std::int64_t kSaved = 2;  ///< step after which the checkpoint was saved

Json loading_resumed(const Json& load = Json::object()) {
  Json from = {{"from", "half"}};
  from.update(load);
  return {{"train", {{"steps", 6}}},
          {"variants",
           {{"straight", Json::object()},
            {"half", {{"train", {{"steps", kSaved + 1}, {"checkpoint", {{"save_after", kSaved + 1}}}}}}},
            {"resumed", {{"train", {{"checkpoint", {{"load", from}}}}}}}}},
          {"checks", {{{"that", "laws"}, {"laws", {"checkpoint"}}, {"variants", {"resumed"}}}}}};
}

/// A training that went on without a flaw, to be spoiled.
class Loaded : public Bench {
 public:
  Loaded() : Loaded(Json::object()) {}
  explicit Loaded(const Json& load) : Bench(loading_resumed(load)) {
    run("resumed") = test::resumed_from(run("straight"), kSaved + 1, "resumed/0");
  }

  std::string named() const {
    const CheckResult result = check();
    return result.divergence ? result.divergence->cause_id() : "none";
  }

  /// A rank holds after loading what the straight run has after another step.
  void load(std::int64_t step, Channel channel, const std::string& name, std::int64_t rank) {
    put(run("resumed"), rank, kSaved, at(run("straight"), rank, step, channel, name));
  }
};

TEST(LawCheckpoint, HoldsWhereAllIsAsItWasSaved) { EXPECT_TRUE(test::agrees(Loaded().check())); }

TEST(LawCheckpoint, SeesOneBitOfEachPart) {
  const std::vector<std::pair<Channel, std::string>> all = {
      {Channel::kWeight, "fc.bias"}, {Channel::kOptimizer, "fc.weight.momentum_buffer"}, {Channel::kRng, "cpu"}};
  for (const auto& [channel, name] : all) {
    Loaded bench;
    if (bench.run("resumed").ranks[1].find(kSaved, channel, name) == nullptr) continue;
    test::spoil(bench.run("resumed"), 1, kSaved, channel, name);
    EXPECT_TRUE(test::diverges_at(bench.check(), kSaved, channel, name, 1));
    EXPECT_EQ(bench.named() == "none", false);
  }
}

TEST(LawCheckpoint, SeesATensorThatIsNotThere) {
  Loaded bench;
  test::erase(bench.run("resumed"), 0, kSaved, Channel::kWeight, "fc.bias");
  EXPECT_TRUE(test::diverges_at(bench.check(), kSaved, Channel::kWeight, "fc.bias", 0));
}

TEST(LawCheckpoint, NamesWeightsThatWereNotLoaded) {
  Loaded bench;
  for (const std::int64_t rank : {0, 1}) bench.load(trace::kInitialStep, Channel::kWeight, "fc.weight", rank);
  EXPECT_EQ(bench.named(), "ckpt.keys_dropped");
}

/// Weights of the right step: no update is repeated or left out.
TEST(LawCheckpoint, StateOfTheUpdateBeforeHasNoName) {
  Loaded bench;
  for (const std::int64_t rank : {0, 1}) {
    for (const char* name : {"fc.weight.momentum_buffer", "fc.bias.momentum_buffer"})
      bench.load(kSaved - 1, Channel::kOptimizer, name, rank);
  }
  EXPECT_EQ(bench.named(), "unknown");
}

TEST(LawCheckpoint, SeesACounterThatIsOneAhead) {
  for (const std::int64_t updates : {kSaved, kSaved + 2}) {
    Loaded bench;
    bench.run("resumed") = test::resumed_from(bench.run("straight"), updates, "resumed/0");
    EXPECT_EQ(bench.named(), "ckpt.off_by_one") << updates;
  }
}

TEST(LawCheckpoint, SeesSamplesThatAreCountedAnew) {
  Loaded bench;
  put(bench.run("resumed"), 1, kSaved + 1, test::integer("samples_taken", 6));
  EXPECT_TRUE(test::diverges_at(bench.check(), kSaved + 1, Channel::kLedger, "samples_taken", 1));
}

/// The momentum is to be new, and is the one that was saved.
TEST(LawCheckpoint, SeesWhatNobodyAskedFor) {
  const Loaded bench(Json{{"restore", {"weights", "schedule", "sampler", "rng", "buffers"}}});
  const CheckResult result = bench.check();
  ASSERT_TRUE(result.divergence);
  EXPECT_EQ(result.divergence->channel, Channel::kOptimizer);
  EXPECT_NE(result.divergence->expected.find("not to be restored"), std::string::npos) << result.divergence->expected;
}

TEST(LawCheckpoint, CannotBeToldWithoutTheRunThatSaved) {
  Loaded bench;
  bench.runs.erase("half");
  EXPECT_TRUE(test::is_inconclusive(bench.check(), "the run that saved its checkpoint is not there"));
  Loaded shorter;
  test::erase_step(shorter.run("half"), 0, kSaved);
  EXPECT_TRUE(test::is_inconclusive(shorter.check(), "recorded nothing after step"));
  Loaded other(Json{{"pick", "highest_name"}});
  EXPECT_TRUE(test::is_inconclusive(other.check(), "text order"));
}

TEST(LawCheckpoint, DoesNotApplyToARunThatLoadsNone) {
  Json changes = loading_resumed();
  changes["checks"][0]["variants"] = {"straight"};
  EXPECT_TRUE(test::is_inconclusive(Bench(changes).check(), "loads no checkpoint"));
}

}  // namespace
}  // namespace lockstep::checks
