// Laws of data, generators, losses, counts and ranks: each has a planted violation, and a clean run that keeps it.
#include <cmath>
#include <span>

#include <gtest/gtest.h>

#include "harness/checks/laws_check.h"
#include "harness/recipe/sampler_rule.h"

#include "tests/support/tiny/bench.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::checks {
namespace {

using test::at;
using test::Bench;
using test::put;
using trace::Channel;

Json asked(const std::string& law, Json train = Json::object()) {
  if (!train.contains("sampler")) train["sampler"] = {{"kind", "distributed"}, {"shuffle", false}};
  return {{"train", train}, {"variants", {{"a", Json::object()}}}, {"checks", {{{"that", "laws"}, {"laws", {law}}}}}};
}

std::string cause_of(const CheckResult& result) { return result.divergence ? result.divergence->cause_id() : "none"; }

/// Gives the tiny run the samples of a sampler, as `change` says.
template <typename Change>
void take(Bench& bench, Change change) {
  const scenario::Variant& variant = bench.scenario.variant("a");
  trace::RunTrace& run = bench.run("a");
  const std::int64_t samples = laws::samples_of(run, variant);
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    std::vector<std::int64_t> all;
    for (std::int64_t epoch = 0; epoch < 4; ++epoch) {
      recipe::OrderOf which{.rank = static_cast<std::int64_t>(rank), .epoch = epoch};
      change(which);
      for (const std::int64_t id : recipe::order_of(variant.train, variant.world_size, samples, which))
        all.push_back(id);
    }
    auto next = all.begin();
    for (trace::Step& step : run.ranks[rank].steps) {
      for (trace::Record& record : step.records) {
        if (record.channel != Channel::kSamples) continue;
        for (std::int64_t& id : record.integers) id = *next++;
      }
    }
  }
}

Json shuffled(std::uint64_t seed) {
  return {{"sampler", {{"kind", "distributed"}, {"shuffle", true}, {"seed", seed}}}};
}

TEST(LawOrder, EachMistakeHasItsName) {
  const auto cause_with = [](std::uint64_t seed, auto change) {
    Bench bench(asked("order", shuffled(seed)));
    take(bench, change);
    return cause_of(bench.check());
  };
  EXPECT_EQ(cause_with(3, [](recipe::OrderOf&) {}), "none");
  EXPECT_EQ(cause_with(3, [](recipe::OrderOf& of) { of.epoch = 0; }), "data.epoch_not_advanced");
  EXPECT_EQ(cause_with(3, [](recipe::OrderOf& of) { of.seed = 3 + of.rank; }), "data.permutation_rank_dependent");
  EXPECT_EQ(cause_with(3, [](recipe::OrderOf& of) { of.seed = 0; }), "data.seed_ignored");
  EXPECT_EQ(cause_with(3, [](recipe::OrderOf& of) { of.sharded = false; }), "data.not_sharded");
  EXPECT_EQ(cause_with(3, [](recipe::OrderOf& of) { of.seed = 11; }), "unknown");
}

/// In the second epoch every sample comes again.
TEST(LawContent, SeesASampleThatChanges) {
  Bench bench(asked("content"));
  EXPECT_TRUE(test::agrees(bench.check()));
  const trace::Record before = at(bench.run("a"), 1, 3, Channel::kInput, "x");
  std::vector<float> other(static_cast<std::size_t>(before.shape[0] * before.shape[1]), 0.25F);
  put(bench.run("a"), 1, 3, test::floats(Channel::kInput, "x", other, before.shape));
  const CheckResult broken = bench.check();
  EXPECT_TRUE(test::diverges_at(broken, 3, Channel::kInput, "x", 1));
  EXPECT_EQ(cause_of(broken), "data.content");
}

TEST(LawContent, CannotBeToldWithoutDigestsOfSamples) {
  Bench bench(asked("content"));
  for (trace::Trace& rank : bench.run("a").ranks) {
    for (trace::Step& step : rank.steps) {
      for (trace::Record& record : step.records) record.rows.clear();
    }
  }
  EXPECT_TRUE(test::is_inconclusive(bench.check(), "no input is recorded with a digest of each sample"));
}

/// Two samples that change places make the same epoch: only its order tells.
TEST(LawOrder, SeesTwoSamplesThatChangePlaces) {
  Bench bench(asked("order"));
  EXPECT_TRUE(test::agrees(bench.check()));
  auto ids = at(bench.run("a"), 1, 1, Channel::kSamples, "ids").integers;
  std::swap(ids.at(0), ids.at(1));
  put(bench.run("a"), 1, 1, test::integers(Channel::kSamples, "ids", ids));
  EXPECT_TRUE(test::diverges_at(bench.check(), 1, Channel::kSamples, "ids", 1));
  Bench unknown(asked("order", {{"sampler", {{"kind", "none"}}}}));
  EXPECT_TRUE(test::is_inconclusive(unknown.check(), "does not apply"));
}

/// The samples between recorded steps are missing: what follows them is no other order.
TEST(LawOrder, CannotBeToldWhereStepsAreNotRecorded) {
  Bench bench(asked("order", {{"record", {{"every", 2}}}}));
  for (trace::Trace& rank : bench.run("a").ranks)
    std::erase_if(rank.steps, [](const trace::Step& step) { return step.step >= 0 && step.step % 2 != 0; });
  EXPECT_TRUE(test::is_inconclusive(bench.check(), "not every step is recorded"));
}

TEST(LawData, SeesASampleThatIsTakenTwice) {
  Bench bench(asked("data"));
  EXPECT_TRUE(test::agrees(bench.check()));
  auto ids = at(bench.run("a"), 1, 1, Channel::kSamples, "ids").integers;
  ids.at(0) = at(bench.run("a"), 0, 0, Channel::kSamples, "ids").integers.at(0);
  put(bench.run("a"), 1, 1, test::integers(Channel::kSamples, "ids", ids));
  EXPECT_TRUE(test::diverges_at(bench.check(), 1, Channel::kSamples, "ids", 1));
  Bench other(asked("data"));
  other.run("a").ranks[0].header["samples"] = 23;
  EXPECT_TRUE(test::diverges_at(other.check(), -1, Channel::kSamples, "ids", 0)) << "the recipe has 24";
  Bench brief(asked("data", {{"steps", 1}}));
  EXPECT_TRUE(test::is_inconclusive(brief.check(), "before an epoch"));
}

TEST(LawLoss, SeesADivisor) {
  Bench bench(asked("loss"));
  EXPECT_TRUE(test::agrees(bench.check()));
  trace::Record& reduced = at(bench.run("a"), 1, 2, Channel::kLoss, "reduced");
  reduced.number = *reduced.number * (1 + 1e-5);
  EXPECT_TRUE(test::diverges_at(bench.check(), 2, Channel::kLoss, "reduced", 1));
}

TEST(LawLedger, SeesACountAndARate) {
  Bench bench(asked("ledger"));
  EXPECT_TRUE(test::agrees(bench.check()));
  put(bench.run("a"), 1, 2, test::integer("samples_taken", 7));
  EXPECT_TRUE(test::diverges_at(bench.check(), 2, Channel::kLedger, "samples_taken", 1));
  at(bench.run("a"), 0, 1, Channel::kLedger, "learning_rate").number = 0.3;
  EXPECT_TRUE(test::diverges_at(bench.check(), 1, Channel::kLedger, "learning_rate", 0));
}

TEST(LawRanks, SeesOneBit) {
  Bench bench(asked("ranks"));
  EXPECT_TRUE(test::agrees(bench.check()));
  test::spoil(bench.run("a"), 1, 2, Channel::kWeight, "fc.weight");
  EXPECT_TRUE(test::diverges_at(bench.check(), 2, Channel::kWeight, "fc.weight", 1));
  EXPECT_TRUE(test::is_inconclusive(Bench(asked("ranks", {{"ddp", {{"wrap", false}}}})).check(), "does not apply"));
}

/// Generators of seed `seed` on each rank, which draw `draws` numbers in each step.
/// `again`: the seed that the last rank gets at step 2; 0: none.
CheckResult drawing(const Json& train, const std::vector<std::int64_t>& seeds, const std::vector<std::int64_t>& draws,
                    std::int64_t again = 0) {
  Bench bench(asked("generators", train));
  for (std::size_t rank = 0; rank < seeds.size(); ++rank) {
    for (trace::Step& step : bench.run("a").ranks[rank].steps) {
      for (trace::Record& record : step.records) {
        if (record.channel != Channel::kRng) continue;
        record.integers = {seeds[rank], draws[rank] * (step.step + 2) % 624};
        record.digest = {static_cast<std::uint64_t>(seeds[rank]), static_cast<std::uint64_t>(record.integers[1])};
      }
    }
  }
  if (again != 0) at(bench.run("a"), 1, 2, Channel::kRng, "cpu").integers[0] = again;
  return bench.check();
}

TEST(LawGenerators, KeepTheirSeedsAndDrawAlike) {
  const auto with = [](const char* policy) {
    return Json{{"seed", {{"base", 4}, {"policy", policy}}},
                {"sampler", {{"kind", "distributed"}, {"shuffle", false}}}};
  };
  EXPECT_TRUE(test::agrees(drawing(with("same"), {4, 4}, {3, 3})));
  EXPECT_TRUE(test::agrees(drawing(with("add_rank"), {4, 5}, {3, 3})));
  EXPECT_TRUE(test::is_inconclusive(drawing(with("unseeded"), {8, 9}, {3, 3}), "seeds nothing"));
  EXPECT_TRUE(test::diverges_at(drawing(with("same"), {4, 5}, {3, 3}), -1, Channel::kRng, "cpu", 1));
  EXPECT_TRUE(test::diverges_at(drawing(with("add_rank"), {4, 4}, {3, 3}), -1, Channel::kRng, "cpu", 1));
  const std::vector<std::int64_t> of_4 = {1013818839, 1701057193};  // random.Random(4), twice randint(0, 2**32 - 1)
  EXPECT_TRUE(test::agrees(drawing(with("mt_list"), of_4, {3, 3})));
  EXPECT_TRUE(test::diverges_at(drawing(with("mt_list"), {of_4[0], 8}, {3, 3}), -1, Channel::kRng, "cpu", 1));
  EXPECT_TRUE(test::diverges_at(drawing(with("same"), {4, 4}, {3, 4}), -1, Channel::kRng, "cpu", 1));
  EXPECT_TRUE(test::diverges_at(drawing(with("mt_list"), of_4, {3, 3}, 10), 2, Channel::kRng, "cpu", 1));
}

/// Buffers that nobody broadcasts are each rank's own.
TEST(LawRanks, LeavesOwnBuffers) {
  for (const bool broadcast : {true, false}) {
    Bench bench(asked("ranks", {{"ddp", {{"broadcast_buffers", broadcast}}}}));
    for (const std::int64_t rank : {0, 1})
      test::step_at(bench.run("a"), rank, 1).records.push_back(test::integers(Channel::kBuffer, "count", {rank}));
    EXPECT_EQ(static_cast<bool>(test::agrees(bench.check())), !broadcast);
  }
}

/// A run whose scale begins at 8, and doubles after two good updates; the gradients of step 1 are infinite.
Bench& scaled(Bench& bench, const std::vector<double>& scales, const std::vector<std::int64_t>& skips) {
  for (trace::Trace& rank : bench.run("a").ranks) {
    for (trace::Step& step : rank.steps) {
      if (step.step < 0) continue;
      const auto at = static_cast<std::size_t>(step.step);
      step.records.push_back(test::number("loss_scale", scales[at]));
      step.records.push_back(test::integer("skipped", skips[at]));
      for (trace::Record& record : step.records) {
        if (step.step == 1 && record.channel == Channel::kGradient) record.max_abs = record.norm = INFINITY;
      }
    }
  }
  return bench;
}

TEST(LawScale, FollowsTheStepsBefore) {
  const auto judged = [](const std::vector<double>& scales, const std::vector<std::int64_t>& skips) {
    const Json dynamic = {{"growth", 2}, {"backoff", 0.5}, {"interval", 2}};
    Bench bench(asked("scale", {{"gradient", {{"loss_scale", 8}, {"dynamic_scale", dynamic}}}}));
    return scaled(bench, scales, skips).check();
  };
  EXPECT_TRUE(test::agrees(judged({8, 8, 4, 4}, {0, 1, 1, 1})));
  EXPECT_TRUE(test::diverges_at(judged({8, 8, 8, 8}, {0, 1, 1, 1}), 2, Channel::kLedger, "loss_scale", 0));
  EXPECT_TRUE(test::diverges_at(judged({8, 8, 8, 8}, {0, 0, 0, 0}), 1, Channel::kLedger, "skipped", 0));
  EXPECT_TRUE(test::diverges_at(judged({8, 8, 4, 4}, {0, 1, 2, 2}), 2, Channel::kLedger, "skipped", 0));
  EXPECT_TRUE(test::is_inconclusive(Bench(asked("scale")).check(), "does not scale"));
}

TEST(LawBuffers, CountEachForwardPass) {
  const auto judged = [](const std::vector<std::int64_t>& counts) {
    Bench bench(asked("buffers"));
    for (trace::Trace& rank : bench.run("a").ranks) {
      for (trace::Step& step : rank.steps) {
        const std::int64_t count = counts[static_cast<std::size_t>(step.step + 1)];
        trace::Record record = test::integers(Channel::kBuffer, "bn.num_batches_tracked", {count});
        record.shape = {};
        record.digest = trace::digest_of(trace::DType::kInt64, {}, std::as_bytes(std::span(&count, 1)));
        step.records.push_back(record);
      }
    }
    return bench.check();
  };
  EXPECT_TRUE(test::agrees(judged({0, 1, 2, 3, 4})));
  EXPECT_TRUE(test::diverges_at(judged({0, 1, 1, 1, 1}), 1, Channel::kBuffer, "bn.num_batches_tracked", 0));
  EXPECT_TRUE(test::is_inconclusive(Bench(asked("buffers")).check(), "counts no batches"));
}

/// Ranks that hold the same are judged once, and count each; one that holds something else is judged by itself.
TEST(LawUpdate, JudgesARankThatHoldsSomethingElse) {
  Bench bench(asked("update"));
  const std::size_t both = bench.check().compared;
  trace::Record& weight = at(bench.run("a"), 1, 2, Channel::kWeight, "fc.weight");
  weight = test::mixed({{1.01, &weight}});
  EXPECT_TRUE(test::diverges_at(bench.check(), 2, Channel::kWeight, "fc.weight", 1));
  bench.run("a").ranks.pop_back();
  EXPECT_TRUE(test::agrees(bench.check()));
  EXPECT_EQ(2 * bench.check().compared, both);
}

/// SGD that is built without momentum keeps no state at all.
TEST(LawState, MissesTheStateThatTheRecipeAsksFor) {
  const auto stateless = [](const Json& optimizer, const Json& record = Json::object()) {
    Bench bench(asked("state", {{"optimizer", optimizer}, {"record", record}}));
    test::erase_channel(bench.run("a"), Channel::kOptimizer);
    return bench.check();
  };
  const Json momentum = {{"momentum", 0.5}};
  const CheckResult broken = stateless(momentum);
  EXPECT_TRUE(test::diverges_at(broken, 0, Channel::kOptimizer, "fc.bias.momentum_buffer", 0));
  EXPECT_EQ(cause_of(broken), "opt.hyperparameter");
  EXPECT_TRUE(test::is_inconclusive(stateless({{"momentum", 0}}), "SGD without momentum has no state"));
  const Json without = {{"channels", {"gradient", "weight"}}};
  EXPECT_TRUE(test::is_inconclusive(stateless(momentum, without), "does not record 'optimizer'"));
}

/// An optimizer that is loaded brings the hyperparameters that it was saved with.
TEST(LawState, TakesHyperparametersFromTheCheckpoint) {
  const Json sampler = {{"sampler", {{"kind", "distributed"}, {"shuffle", false}}}};
  Json changes = {
      {"train", sampler},
      {"variants",
       {{"a", {{"train", {{"checkpoint", {{"save_after", 2}}}}}}},
        {"b", {{"train", {{"optimizer", {{"momentum", 0.25}}}, {"checkpoint", {{"load", {{"from", "a"}}}}}}}}}}},
      {"checks", {{{"that", "laws"}, {"laws", {"state", "update"}}, {"variants", {"b"}}}}}};
  Bench bench(changes);
  bench.runs.at("b") = {test::resumed_from(bench.run("a"), 2, "b/0")};
  EXPECT_TRUE(test::agrees(bench.check()));
  test::multiply(bench.run("b"), 3, Channel::kOptimizer, 1.01);
  EXPECT_TRUE(test::diverges_at(bench.check(), 3, Channel::kOptimizer, "fc.bias.momentum_buffer", 0));
}

}  // namespace
}  // namespace lockstep::checks
