// How an audit changes a recipe, what is in the way of its identities, and which of them it states.
#include "harness/audit/recipe.h"

#include <algorithm>

#include "harness/audit/identities.h"

#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using audit::Claim;

/// The obstacles of a recipe, in short.
struct Obstacles {
  Scratch scratch;
  scenario::Scenario scenario;
  std::unique_ptr<audit::Recipe> recipe_;

  explicit Obstacles(const Json& train)
      : scenario(tiny_scenario(recipe(train), scratch)), recipe_(audit::worker_recipe(scenario.variants[0], 4)) {}

  std::string of_ranks() const { return reasons(recipe_->obstacles_of_ranks()); }
  std::string of_accumulation() const { return reasons(recipe_->obstacles_of_accumulation()); }
  Json patch(const audit::Setting& setting) const { return *recipe_->patch(setting); }
};

TEST(Recipe, OfAPlainTrainingHasNoObstacle) {
  const Obstacles plain((Json::object()));
  EXPECT_EQ(plain.of_ranks(), "");
  EXPECT_EQ(plain.of_accumulation(), "");
}

/// Fewer ranks than a node has are one node.
TEST(Recipe, KnowsTheBatchOfANode) {
  const Json of_node = {{"batch", {{"per_node", 12}, {"ranks_per_node", 2}}}};
  const Obstacles node(of_node);
  EXPECT_EQ(node.recipe_->global_batch(1), 12);
  EXPECT_EQ(node.recipe_->global_batch(2), 12);
  EXPECT_EQ(node.recipe_->global_batch(4), 24);
}

TEST(Recipe, NamesWhatIsInTheWayOfRanks) {
  const Json resnet = {{"kind", "resnet"}, {"widths", {4}}};
  const Json drops = {{"kind", "mlp"}, {"hidden", {6}}, {"dropout", 0.5}};
  const std::vector<std::pair<Json, std::string>> all = {
      {{{"sampler", {{"kind", "none"}}}}, "without a sampler every rank takes every sample"},
      {{{"sampler", {{"kind", "contiguous"}}}}, "each rank takes a block of the epoch's order"},
      {{{"sampler", {{"kind", "libtorch"}}}}, "each rank takes a block of the epoch's order"},
      {{{"sampler", {{"kind", "stream"}, {"shard", false}}}}, "every rank reads the whole stream"},
      {{{"sampler", {{"kind", "stream"}, {"buffer", 4}}}}, "each rank shuffles its own part of the stream"},
      {{{"sampler", {{"kind", "accelerate"}}}}, "without its own seed, the sampler draws its order"},
      {{{"sampler", {{"kind", "accelerate"}, {"seed", 1}}}, {"batch", {{"per_rank", 6}}}},
       "whole batches are dealt out"},
      {{{"model", resnet}}, "batch normalization takes the statistics of each rank's own samples"},
      {{{"model", drops}}, "dropout draws each rank's masks"},
      {{{"data", {{"per_rank", true}}}}, "each rank makes data of its own"},
      {{{"seed", {{"policy", "unseeded"}}}}, "no seed fixes the first weights"},
      {{{"seed", {{"policy", "after_model"}}}}, "no seed fixes the first weights"},
      {{{"ddp", {{"wrap", false}}}}, "without DistributedDataParallel every rank trains by itself"},
      {{{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}, {"schedule_every", "rank"}},
       "the schedule takes a step for each rank"},
  };
  for (const auto& [train, why] : all) {
    const Obstacles of(train);
    EXPECT_TRUE(of.of_ranks().starts_with(why)) << train << of.of_ranks();
    EXPECT_EQ(of.recipe_->obstacles_of_ranks().size(), 1U) << train << of.of_ranks();
    for (const audit::Obstacle& one : of.recipe_->obstacles_of_ranks()) {
      EXPECT_FALSE(one.remedy.empty()) << train;
      EXPECT_FALSE(one.change.is_null()) << train;
    }
  }
}

TEST(Recipe, NamesWhatIsInTheWayOfMicroBatches) {
  const Json branch = {{"model", {{"kind", "branch"}}}, {"ddp", {{"find_unused_parameters", true}}}};
  const Json norm = {{"model", {{"kind", "resnet"}, {"norm", "sync_batch"}}}};
  const Json drops = {{"model", {{"kind", "mlp"}, {"dropout", 0.5}}}};
  EXPECT_EQ(Obstacles(norm).of_accumulation(), "batch normalization takes the statistics of each micro-batch");
  EXPECT_EQ(Obstacles(drops).of_accumulation(), "dropout draws a mask for each micro-batch");
  EXPECT_EQ(Obstacles(branch).of_accumulation(),
            "the number of forward passes decides whether the side path takes part");
  EXPECT_EQ(Obstacles(branch).of_ranks(), "");
}

TEST(Recipe, IsPlainSgdInFloat64ForTheOrder) {
  const Obstacles rich({{"autocast", "bf16"},
                        {"ddp", {{"compression", "fp16"}}},
                        {"gradient", {{"clip_norm", 0.1}}},
                        {"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}},
                        {"model", {{"kind", "mlp"}, {"hidden", {6}}, {"dropout", 0.5}}}});
  const Json plain = rich.patch({.world_size = 2, .rank_batch = 6, .plain = 0.25}).at("train");
  EXPECT_EQ(plain.at("precision"), "float64");
  EXPECT_EQ(plain.at("autocast"), "none");
  EXPECT_EQ(plain.at("ddp").at("compression"), "none");
  EXPECT_TRUE(plain.at("gradient").at("clip_norm").is_null());
  EXPECT_EQ(plain.at("schedule").at("kind"), "constant");
  EXPECT_EQ(plain.at("optimizer").at("lr"), 0.25);
  EXPECT_EQ(plain.at("optimizer").at("momentum"), 0);
  EXPECT_EQ(plain.at("model").at("dropout"), 0);
}

TEST(Recipe, ScalesRateDecayAndThreshold) {
  const Obstacles rich({{"optimizer", {{"weight_decay", 0.5}}}, {"gradient", {{"clip_norm", 0.5}}}});
  const Json sum =
      rich.patch({.world_size = 2, .rank_batch = 6, .rate = 0.5, .decay = 2, .threshold = 2, .sum = true, .plain = {}})
          .at("train");
  EXPECT_EQ(sum.at("optimizer").at("lr"), 0.05);
  EXPECT_EQ(sum.at("optimizer").at("weight_decay"), 1.0);
  EXPECT_EQ(sum.at("gradient").at("clip_norm"), 1.0);
  EXPECT_EQ(sum.at("ddp").at("average"), false);
  EXPECT_EQ(sum.at("batch").at("global"), 12);
}

/// Statements of a recipe without any run.
struct Stated {
  Obstacles of;
  audit::Derivation derivation;

  Stated(const Json& train, std::vector<std::int64_t> ranks, std::int64_t samples)
      : of(train), derivation(of.scenario, of.scenario.variants[0]) {
    const audit::Range range = audit::range_of(*of.recipe_, std::move(ranks), 6, samples);
    audit::add_identities(derivation, *of.recipe_, range);
  }

  audit::Statement statement(const std::string& id) const {
    for (const audit::Statement& one : derivation.statements()) {
      if (one.id == id) return one;
    }
    ADD_FAILURE() << "no statement " << id;
    return {};
  }

  bool states(const std::string& id) const {
    return std::any_of(derivation.statements().begin(), derivation.statements().end(),
                       [&](const audit::Statement& one) { return one.id == id; });
  }
};

TEST(Identities, EndAnEpochAsTheirSamplerDoes) {
  const auto of = [](std::int64_t samples, const Json& sampler) {
    return Stated({{"data", {{"size", samples}}}, {"sampler", sampler}}, {1, 2, 3}, samples);
  };
  const Stated elastic = of(25, {{"kind", "elastic"}, {"start", 7}}), stream = of(17, {{"kind", "stream"}});
  for (const char* id : {"epoch-end@2", "epoch-end@3"}) EXPECT_EQ(elastic.statement(id).claim, Claim::kEqual) << id;
  EXPECT_EQ(stream.statement("epoch-end@2").claim, Claim::kDiffers);
  EXPECT_TRUE(holds(stream.statement("epoch-end@2").because, "leaves out 1"))
      << stream.statement("epoch-end@2").because;
  EXPECT_FALSE(stream.states("epoch-end-mended@2"));                      // nothing takes it away
  EXPECT_FALSE(of(24, {{"kind", "distributed"}}).states("epoch-end@2"));  // nothing is left over
}

TEST(Identities, OfAdamHideAFactorAndOfSgdSum) {
  const Stated sgd(Json::object(), {1, 2, 3}, 96),
      adam({{"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}}, {1, 2, 3}, 96);
  EXPECT_TRUE(sgd.states("sum@2") && sgd.states("momentum@3") && sgd.states("order@2"));
  EXPECT_FALSE(sgd.states("hidden-factor@2") || sgd.states("sum-rate-only@2"));
  EXPECT_TRUE(adam.states("hidden-factor@2") && adam.states("hidden-factor@3") && adam.states("scale-free@2"));
  EXPECT_FALSE(adam.states("scale-free@3"));  // no power of two
  EXPECT_FALSE(adam.states("sum@2") || adam.states("order@2") || adam.states("momentum@3"));
}

TEST(Identities, OfTheOrderKnowWhyAModelLacksIt) {
  const Stated branch({{"model", {{"kind", "branch"}}}, {"ddp", {{"find_unused_parameters", true}}}}, {1, 2}, 96);
  EXPECT_TRUE(holds(branch.statement("order@2").because, "the side path"));
  const Stated norm({{"model", {{"kind", "resnet"}, {"widths", {4}}}}}, {1, 2}, 96);
  EXPECT_TRUE(holds(norm.statement("order@2").because, "batch normalization"));
  EXPECT_EQ(Stated(Json::object(), {1, 2}, 96).statement("order@2").because, "");
}

TEST(Identities, MendARecipeWhereEveryObstacleHasARemedy) {
  const Stated norm({{"model", {{"kind", "resnet"}, {"widths", {4}}}}}, {1, 2}, 96);
  EXPECT_EQ(norm.statement("one-batch@2").claim, Claim::kDiffers);
  EXPECT_EQ(norm.statement("one-batch-mended@2").claim, Claim::kEqual);
  EXPECT_TRUE(holds(norm.statement("one-batch-mended@2").text, "once it is fixed: convert to SyncBatchNorm"));
  EXPECT_FALSE(norm.states("accumulation-mended@2"));  // statistics of micro-batches have none
}

TEST(Range, IsAMultipleOfAllRanksAndMicroBatches) {
  const Obstacles of((Json::object()));
  const audit::Range range = audit::range_of(*of.recipe_, {3, 1, 2, 2}, 6, 96);
  EXPECT_EQ(range.ranks, (std::vector<std::int64_t>{1, 2, 3}));
  EXPECT_EQ(range.base, 1);
  EXPECT_EQ(range.batch, 12);
  EXPECT_EQ(range.accumulation, 2);
  EXPECT_EQ(range.steps, 6);
  EXPECT_EQ(audit::range_of(*of.recipe_, {1, 2, 4, 8}, 6, 96).batch, 16);  // 12 is none
  EXPECT_EQ(audit::range_of(*of.recipe_, {1, 2}, 6, 40).steps, 3);         // an epoch has no more
  EXPECT_EQ(audit::range_of(*of.recipe_, {1, 2}, 6, 0).steps, 6);
}

}  // namespace
}  // namespace lockstep::test
