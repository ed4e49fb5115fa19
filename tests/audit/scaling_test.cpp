// `lockstep audit scaling`: the answers on recipes that scale, and each identity broken on purpose.
#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using enum audit::Answer;

const std::vector<std::int64_t> kRanks = {1, 2, 3};

TEST(Scaling, HoldsEveryIdentityOfARecipeThatScales) {
  const Audited whole(recipe(), kRanks);
  EXPECT_EQ(whole.result.status(), judge::Status::kAgree);
  EXPECT_EQ(whole.result.headline, "1, 2, 3 ranks: the same training, equal up to rounding, tested");
  for (const char* w : {"@2", "@3"}) {
    const auto id = [&](const char* name) { return name + std::string(w); };
    EXPECT_TRUE(answers(whole, id("one-batch"), kRounding));
    EXPECT_TRUE(answers(whole, id("sum"), w == std::string("@3") ? kRounding : kIdentical));
    EXPECT_TRUE(answers(whole, id("accumulation"), kRounding));
    EXPECT_TRUE(answers(whole, id("order"), kHolds));
    EXPECT_TRUE(answers(whole, id("global-batch.kept.sampler"), kRounding));
    EXPECT_TRUE(answers(whole, id("global-batch.linear.sampler"), kSlip));
    EXPECT_TRUE(answers(whole, id("per-rank-batch.kept.sampler"), kOther));
    EXPECT_TRUE(answers(whole, id("per-rank-batch.linear.sampler"), kEmpirical));
    EXPECT_TRUE(answers(whole, id("per-rank-batch.sqrt.sampler"), kEmpirical));
    EXPECT_TRUE(answers(whole, id("per-rank-batch.kept.no-sampler"), kSlip));
    for (const char* name : {"ledger", "reduction", "laws"}) EXPECT_TRUE(answers(whole, id(name), kHolds));
  }
  EXPECT_TRUE(holds(whole.line("per-rank-batch.kept.no-sampler@2").because, "measured: the same numbers"));
  EXPECT_TRUE(answers(whole, "momentum@3", kHolds));
  EXPECT_TRUE(answers(whole, "global-batch", kSame));
  EXPECT_EQ(whole.line("global-batch").values, (std::vector<std::string>{"12", "12", "12"}));
  EXPECT_EQ(whole.line("one-batch@2").reproduce, "lockstep audit --only one-batch@2");
}

TEST(Scaling, LetsDecayAndThresholdGrowWithTheSum) {
  const Json decays = {{"optimizer", {{"weight_decay", 0.1}}}}, clips = {{"gradient", {{"clip_norm", 0.1}}}};
  for (const Json& train : {decays, clips}) {
    const Audited sums(recipe(train), kRanks, {"sum"});
    EXPECT_EQ(sums.result.status(), judge::Status::kAgree);
    for (const char* w : {"@2", "@3"}) {
      EXPECT_TRUE(answers(sums, std::string("sum-rate-only") + w, kNoIdentity)) << train;
      // clip_grad_norm_ adds 1e-6 to the norm, which then is no multiple of W.
      const bool is_exact = w == std::string("@2") && train == decays;
      EXPECT_TRUE(answers(sums, std::string("sum") + w, is_exact ? kIdentical : kRounding)) << train;
    }
  }
}

/// A threshold that no gradient reaches clips nothing.
TEST(Scaling, SaysThatADifferenceIsNotSeen) {
  const Audited sums(recipe({{"gradient", {{"clip_norm", 1000}}}}), {1, 2}, {"sum-rate-only"});
  EXPECT_TRUE(answers(sums, "sum-rate-only@2", kNotSeen));
  EXPECT_TRUE(holds(sums.line("sum-rate-only@2").because, "although the clipping threshold is compared with"));
}

TEST(Scaling, SeesAdamHideAFactorOfTheGradients) {
  const Audited adam(recipe({{"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}}), kRanks,
                     {"hidden-factor", "scale-free", "per-rank-batch.linear.sampler"});
  EXPECT_EQ(adam.result.status(), judge::Status::kAgree);
  for (const char* w : {"@2", "@3"}) {
    EXPECT_TRUE(answers(adam, std::string("hidden-factor") + w, kHidden));
    EXPECT_TRUE(
        holds(adam.line(std::string("per-rank-batch.linear.sampler") + w).because, "for adam it does not hold"));
  }
  EXPECT_TRUE(answers(adam, "scale-free@2", kIdentical));
}

TEST(Scaling, CrossesAnEpochsEndWhereTheSharesAreEqual) {
  const auto of = [](std::int64_t samples, Json train = Json::object()) {
    train["data"] = {{"size", samples}};
    return recipe(train);
  };
  const Json keeps = {{"faults", {mistake("drop_last_wrong", 0)}}};
  const Json sums = {{"faults", {mistake("ddp_wrong", 0, {{"average", false}})}}};
  const std::vector<std::string> only = {"epoch-end"};
  // 12 in a batch: 6 or 5 are left over.
  const Audited equal(of(18), kRanks, only), unequal(of(17), kRanks, only), summed(of(18, sums), kRanks, only),
      kept(of(17, keeps), kRanks, only);
  EXPECT_EQ(equal.result.status(), judge::Status::kAgree);
  EXPECT_EQ(unequal.result.status(), judge::Status::kAgree);
  for (const char* w : {"@2", "@3"}) {
    EXPECT_TRUE(answers(equal, std::string("epoch-end") + w, kRounding));
    EXPECT_TRUE(answers(unequal, std::string("epoch-end") + w, kNoIdentity));
    EXPECT_TRUE(answers(unequal, std::string("epoch-end-mended") + w, kRounding));
    EXPECT_TRUE(answers(summed, std::string("epoch-end") + w, kBroken));
    EXPECT_TRUE(answers(kept, std::string("epoch-end-mended") + w, kBroken));
  }
}

/// A mistake in a recipe, the line that it breaks, and the cause that is named.
struct Breach {
  const char* line;
  Json train;
  const char* cause;
};

TEST(Scaling, SeesEveryIdentityBrokenByAPlantedMistake) {
  const auto by = [](const char* kind, const Json& options = Json::object(), Json train = Json::object()) {
    train["faults"] = Json::array({mistake(kind, 0, options)});
    return train;
  };
  const Json adam = {{"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}};
  const Json decays = {{"optimizer", {{"weight_decay", 0.1}}}};
  const Json halves = {{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}};
  const Json sums = {{"average", false}};
  const std::vector<Breach> all = {
      {"one-batch@2", {{"ddp", sums}}, "grad.reduce_sum"},
      {"one-batch@2", by("ddp_wrong", sums), "grad.reduce_sum"},
      {"reduction@2", by("ddp_wrong", sums), "grad.reduce_sum"},
      {"ledger@2", by("schedule_wrong", {{"steps", "by_rank"}}, halves), "lr.schedule_rate"},
      {"sum@2", by("decay_wrong", {{"mistake", "without_rate"}}, decays), "opt.decay_scale"},
      {"sum@2", by("hyperparameter_wrong", {{"option", "weight_decay"}, {"value", 0.1}}), ""},
      {"accumulation@2", by("accumulation_divisor", {{"divisor", 1}}), "grad.accum_scale"},
      {"accumulation@2", by("accumulation_lost"), ""},
      {"momentum@2", by("hyperparameter_wrong", {{"option", "momentum"}, {"value", 0.5}}), "opt.hyperparameter"},
      {"momentum@2", by("update_rate_wrong", {{"factor", 0.5}}, halves), "opt.other_rate"},
      {"order@2", {{"ddp", sums}}, ""},
      {"order@2", by("ddp_wrong", sums), ""},
      {"scale-free@2", by("state_rounded", {{"dtype", "fp16"}}, adam), ""},
      {"scale-free@2", by("formula_wrong", {{"formula", "no_root"}}, adam), ""},
      {"reduction@2", by("ddp_wrong", sums, adam), "grad.reduce_sum"},
  };
  for (const Breach& one : all) {
    const Audited broken(recipe(one.train), {1, 2}, {one.line});
    EXPECT_EQ(broken.result.status(), judge::Status::kDivergence) << one.line << one.train;
    EXPECT_TRUE(answers(broken, one.line, kBroken)) << one.train;
    EXPECT_TRUE(broken.result.headline.starts_with("2 ranks: a mistake. Broken: ")) << broken.result.headline;
    EXPECT_TRUE(broken.line(one.line).cause.starts_with(one.cause)) << one.train << broken.line(one.line).cause;
  }
}

TEST(Scaling, TriesAgainWhatTheoryDidNotForesee) {
  const Json sums = {{"ddp", {{"average", false}}}};
  EXPECT_TRUE(Audited(recipe(sums), {1, 2}, {"one-batch"}).worker.made("replay"));
  EXPECT_TRUE(Audited(recipe(sums), {1, 2}, {"per-rank-batch.linear"}).worker.folders().empty());
}

TEST(Scaling, MeasuresAFirstOrderError) {
  const Audited summed(recipe({{"ddp", {{"average", false}}}}), {1, 2}, {"order"});
  EXPECT_TRUE(answers(summed, "order@2", kBroken));
  EXPECT_TRUE(summed.line("order@2").because.starts_with("measured order 1")) << summed.line("order@2").because;
}

TEST(Scaling, CallsTheBatchOfEachRankAnotherComputation) {
  const Audited grows(recipe({{"batch", {{"per_rank", 6}}}, {"schedule", {{"kind", "linear_warmup"}, {"warmup", 2}}}}),
                      {1, 2}, {"global-batch", "updates-per-epoch", "warmup", "rate"});
  EXPECT_EQ(grows.result.status(), judge::Status::kDivergence);
  for (const char* id : {"global-batch", "updates-per-epoch", "warmup", "rate-per-sample"})
    EXPECT_TRUE(answers(grows, id, kChanges));
  EXPECT_TRUE(answers(grows, "rate", kSame));
  EXPECT_EQ(grows.line("global-batch").values, (std::vector<std::string>{"6", "12"}));
  EXPECT_EQ(grows.line("warmup").values, (std::vector<std::string>{"12", "24"}));
}

TEST(Scaling, NamesTheFirstChangesInItsAnswer) {
  const Audited grows(recipe({{"batch", {{"per_rank", 6}}}}), {1, 2});
  EXPECT_EQ(grows.result.headline,
            "2 ranks: another training. It changes samples in an update 6 to 12, updates in an epoch 16 to 8, rate / "
            "samples in an update 0.01667 to 0.008333. Keep 2 a rank, 4 in all: equal up to rounding, tested");
}

TEST(Scaling, CallsASchedulerThatStepsOnceForEachRankASlip) {
  const Audited fast(
      recipe({{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}, {"schedule_every", "rank"}}), {1, 2},
      {"rate", "first-drop"});
  EXPECT_EQ(fast.result.status(), judge::Status::kDivergence);
  EXPECT_TRUE(answers(fast, "first-drop", kSlip));
}

TEST(Scaling, TriesTheRemedyOfAnObstacle) {
  const Audited blocks(recipe({{"sampler", {{"kind", "contiguous"}}}}), {1, 2}, {"one-batch"});
  EXPECT_EQ(blocks.result.status(), judge::Status::kAgree);
  EXPECT_TRUE(answers(blocks, "one-batch@2", kNoIdentity));
  EXPECT_TRUE(answers(blocks, "one-batch-mended@2", kRounding));
  EXPECT_TRUE(holds(blocks.line("one-batch@2").because, "each rank takes a block of the epoch's order"));
}

TEST(Scaling, NamesAnObstacleInItsAnswer) {
  const Audited blocks(recipe({{"sampler", {{"kind", "contiguous"}}}}), {1, 2});
  EXPECT_TRUE(blocks.result.headline.starts_with("2 ranks: another training: each rank takes a block"))
      << blocks.result.headline;
}

TEST(Scaling, SplitsTheBatchesOfAcceleratesOrder) {
  const Audited dealt(recipe({{"sampler", {{"kind", "accelerate"}}}}), {1, 2}, {"one-batch", "order"});
  EXPECT_EQ(dealt.result.status(), judge::Status::kAgree);
  EXPECT_TRUE(answers(dealt, "one-batch@2", kNoIdentity));
  EXPECT_TRUE(answers(dealt, "one-batch-mended@2", kRounding));
  EXPECT_TRUE(answers(dealt, "order@2", kHolds));
}

TEST(Scaling, NeedsNoSeedForASum) {
  for (const char* policy : {"unseeded", "after_model"}) {
    const Audited random(recipe({{"seed", {{"policy", policy}}}}), {1, 2}, {"sum", "one-batch"});
    EXPECT_EQ(random.result.status(), judge::Status::kAgree);
    EXPECT_TRUE(answers(random, "sum@2", kIdentical));
    EXPECT_TRUE(answers(random, "one-batch@2", kNoIdentity));
  }
}

TEST(Scaling, TakesTheMatrixOfSixteenBitsInFloat32) {
  const Audited coarse(recipe({{"autocast", "bf16"}}), {1, 3}, {"global-batch.", "per-rank-batch."});
  EXPECT_TRUE(answers(coarse, "global-batch.kept.sampler@3", kRounding));
  EXPECT_TRUE(answers(coarse, "global-batch.linear.sampler@3", kSlip));
  EXPECT_TRUE(answers(coarse, "per-rank-batch.linear.sampler@3", kEmpirical));
  EXPECT_TRUE(answers(coarse, "per-rank-batch.kept.no-sampler@3", kSlip));
}

TEST(Scaling, TakesTheRateAfterAWarmUpThatIsLongerThanTheRuns) {
  const Audited warms(recipe({{"batch", {{"per_rank", 6}}},
                              {"learning_rate_rule", {{"kind", "linear"}, {"base_batch", 6}, {"warmup", 20}}}}),
                      {1, 2}, {"rate"});
  EXPECT_TRUE(answers(warms, "rate-per-sample", kSame)) << warms.line("rate-per-sample").because;
}

TEST(Scaling, TakesSmallDataInSmallerBatches) {
  const Audited small(recipe({{"data", {{"size", 9}}}}), {1, 2}, {"accumulation"});
  EXPECT_EQ(small.result.status(), judge::Status::kAgree);
  EXPECT_TRUE(answers(small, "accumulation@2", kRounding));
  try {
    const Audited too_small(recipe({{"data", {{"size", 3}}}}), {1, 2}, {"accumulation"});
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_TRUE(holds(error.problem().expected, "at least 4 samples")) << error.problem().expected;
  }
}

TEST(Scaling, NeverAgreesOnARunThatDies) {
  Audited dead;
  dead.worker.dies = [](const std::string&) { return true; };
  dead.run(recipe(),
           {.kind = audit::Kind::kScaling, .variant = {}, .ranks = {1, 2}, .steps = 4, .only = {"one-batch"}});
  EXPECT_EQ(dead.result.status(), judge::Status::kInconclusive);
  EXPECT_TRUE(answers(dead, "one-batch@2", kCannotTell));
  EXPECT_TRUE(holds(dead.line("one-batch@2").because, "rank 0 was killed"));
  dead.run(recipe(), {.kind = audit::Kind::kScaling, .variant = {}, .ranks = {1, 2}, .steps = 4});
  EXPECT_TRUE(holds(dead.result.headline, "the training fails")) << dead.result.headline;
}

}  // namespace
}  // namespace lockstep::test
