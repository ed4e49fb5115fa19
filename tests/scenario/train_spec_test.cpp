#include "harness/recipe/train_spec.h"

#include <cmath>

#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::load;
using test::minimal;
using test::problem_of;
using test::with;
using test::with_variants;

/// `minimal()` on `world_size` ranks with one thing changed.
Json on(std::int64_t world_size, const std::string& path, const Json& value) {
  return with(with("world_size", world_size), path, value);
}

Json fault(const char* kind, std::int64_t step, std::int64_t rank) {
  Json fault = {{"kind", kind}, {"step", step}, {"rank", rank}};
  if (std::string(kind) == "learning_rate_factor") fault["factor"] = 2;
  return Json::array({fault});
}

TEST(TrainSpec, BatchSizesFollowFromEitherForm) {
  const recipe::BatchSpec global{.global = 24, .per_rank = {}, .accumulation = 2};
  EXPECT_EQ(global.global_size(4), 24);
  EXPECT_EQ(global.micro_size(4), 3);
  const recipe::BatchSpec per_rank{.global = {}, .per_rank = 6, .accumulation = 3};
  EXPECT_EQ(per_rank.global_size(4), 24);
  EXPECT_EQ(per_rank.micro_size(4), 2);
}

TEST(TrainSpec, RefusesAnExactTrainingThatRoundsInItsNature) {
  for (const auto& [path, value] : {std::pair<const char*, Json>("train.gradient.loss_scale", 8),
                                    std::pair<const char*, Json>("train.autocast", "bf16")})
    EXPECT_NE(describe(problem_of(with(with("train.exact", true), path, value))).find("train.exact"), std::string::npos)
        << path;
}

TEST(TrainSpec, LearningRateFollowsTheRule) {
  const auto rate = [](const Json& rule, std::int64_t world_size) {
    Json document = with("train.learning_rate_rule", rule);
    document["train"]["batch"] = {{"per_rank", 8}};
    return recipe::base_learning_rates(load(document).variants[0].train, world_size)[0];
  };
  EXPECT_EQ(rate({{"kind", "none"}}, 4), 0.1);
  EXPECT_EQ(rate({{"kind", "linear"}, {"base_batch", 8}}, 4), 0.1 * 4.0);
  EXPECT_EQ(rate({{"kind", "linear"}, {"base_batch", 64}}, 1), 0.1 * 0.125);
  EXPECT_EQ(rate({{"kind", "sqrt"}, {"base_batch", 8}}, 2), 0.1 * std::sqrt(2.0));
}

TEST(TrainSpec, ParameterGroupsTakeTheirOwnOptions) {
  Json document = with("train.optimizer.groups", {{{"parameters", "backbone.*"}, {"lr", 0.01}},
                                                  {{"parameters", "*.bias"}, {"weight_decay", 0.5}}});
  document["train"]["learning_rate_rule"] = {{"kind", "linear"}, {"base_batch", 12}};
  const recipe::TrainSpec train = load(document).variants[0].train;
  const std::vector<recipe::ParameterGroup> groups = recipe::parameter_groups(train.optimizer);
  ASSERT_EQ(groups.size(), 3U);
  EXPECT_EQ(recipe::group_of(groups, "head.weight"), 0U);
  EXPECT_EQ(recipe::group_of(groups, "backbone.conv.bias"), 1U) << "the first match counts";
  EXPECT_EQ(recipe::group_of(groups, "head.bias"), 2U);
  EXPECT_EQ(groups[2].options.at("weight_decay"), 0.5);
  EXPECT_EQ(groups[1].options.at("weight_decay"), 0);
  EXPECT_EQ(recipe::base_learning_rates(train, 1), (std::vector{0.2, 0.02, 0.2})) << "the rule scales every group";
  EXPECT_PROBLEM(problem_of(with("train.optimizer.groups", {{{"lr", 0.1}}})), "", "train.optimizer.groups.0",
                 "parameters", "");
}

TEST(TrainSpec, GlobalBatchMustDivide) {
  EXPECT_PROBLEM(problem_of(on(5, "train.batch.global", 24)), "does not divide", "train.batch.global",
                 "a multiple of 5 (world size 5 x accumulation 1)", "24");
  EXPECT_PROBLEM(problem_of(on(4, "train.batch.accumulation", 4)), "does not divide",
                 "(variant 'main'): train.batch.global", "a multiple of 16", "24");
  EXPECT_NO_THROW(load(on(4, "train.batch.accumulation", 3)));
  EXPECT_PROBLEM(problem_of(on(1, "train.batch.global", 0)), "", "train.batch.global", "at least 1", "0");
}

TEST(TrainSpec, BatchOfARankMustDivide) {
  EXPECT_PROBLEM(problem_of(on(7, "train.batch", {{"per_rank", 6}, {"accumulation", 4}})), "does not divide",
                 "train.batch.per_rank", "a multiple of 4 (accumulation 4)", "6");
  EXPECT_NO_THROW(load(on(7, "train.batch", {{"per_rank", 6}, {"accumulation", 3}})));
}

TEST(TrainSpec, BatchIsGivenInOneWay) {
  EXPECT_PROBLEM(problem_of(with("train.batch.per_rank", 24)), "given twice", "train.batch", "one of 'global'",
                 "global and per_rank");
  EXPECT_PROBLEM(problem_of(with("train.batch", Json::object())), "not at all", "train.batch", "one of 'global'",
                 "none");
  EXPECT_PROBLEM(problem_of(with("train.batch", {{"accumulation", 2}})), "not at all", "train.batch", "one of", "none");
  EXPECT_PROBLEM(
      problem_of(with_variants({{"a", {{"train", {{"batch", {{"global", 8}, {"per_rank", 8}, {"per_node", 8}}}}}}}})),
      "given twice", "(variant 'a'): train.batch", "one of", "global and per_rank and per_node");
}

TEST(TrainSpec, NesterovNeedsMomentum) {
  EXPECT_PROBLEM(problem_of(with("train.optimizer.nesterov", true)), "Nesterov", "train.optimizer.nesterov",
                 "momentum > 0", "\"momentum\":0");
  Json document = with("train.optimizer", {{"kind", "sgd"}, {"lr", 0.1}, {"nesterov", true}, {"momentum", 0.9}});
  EXPECT_NO_THROW(load(document));
  document["train"]["optimizer"]["dampening"] = 0.1;
  EXPECT_PROBLEM(problem_of(document), "Nesterov", "train.optimizer.nesterov", "dampening = 0", "\"dampening\":0.1");
}

TEST(TrainSpec, FaultsHappenWithinTheTraining) {
  for (const char* kind :
       {"kill", "hang", "exit", "swap_samples", "gradient_not_reduced", "flip_weight_bit", "learning_rate_factor"}) {
    EXPECT_NO_THROW(load(on(2, "train.faults", fault(kind, 7, 1)))) << kind;
    EXPECT_PROBLEM(problem_of(on(2, "train.faults", fault(kind, 7, 2))), "the rank of a fault", "train.faults",
                   "world_size = 2", "2");
    EXPECT_PROBLEM(problem_of(on(2, "train.faults", fault(kind, 8, 1))), "the step of a fault", "train.faults",
                   "train.steps = 8", "8");
  }
  EXPECT_PROBLEM(problem_of(on(2, "train.faults", fault("kill", 0, -1))), "", "train.faults.0.rank", "at least 0",
                 "-1");
}

TEST(TrainSpec, FaultsAreRead) {
  const Scenario scenario = load(with("train.faults", {{{"kind", "exit"}, {"step", 3}, {"rank", 0}}}));
  const std::vector<recipe::FaultChoice>& faults = scenario.variants[0].train.faults;
  ASSERT_EQ(faults.size(), 1U);
  EXPECT_EQ(faults[0].kind, "exit");
  EXPECT_EQ(faults[0].options["code"], 7);
  EXPECT_EQ(faults[0].options["phase"], "forward");
}

TEST(TrainSpec, CheckpointIsSavedWithinTheTraining) {
  EXPECT_NO_THROW(load(with("train.checkpoint", {{"save_after", 8}})));
  EXPECT_PROBLEM(problem_of(with("train.checkpoint", {{"save_after", 9}})), "never be saved",
                 "train.checkpoint.save_after", "at most train.steps = 8", "9");
}

/// Variants 'saver' and 'loader', which loads from `from`.
Json loading(const char* from) {
  return with_variants(
      {{"saver", {{"train", {{"checkpoint", {{"save_after", 4}}}}}}},
       {"plain", Json::object()},
       {"loader", {{"train", {{"checkpoint", {{"load", {{"from", from}, {"restore", {"weights"}}}}}}}}}}});
}

TEST(TrainSpec, CheckpointIsLoadedFromAVariantThatSaves) {
  const auto load_spec = load(loading("saver")).variant("loader").train.checkpoint.load;
  ASSERT_TRUE(load_spec.has_value());
  EXPECT_EQ(load_spec->from, "saver");
  EXPECT_EQ(load_spec->who, recipe::LoadWho::kAll);
  EXPECT_EQ(load_spec->when, recipe::LoadWhen::kBeforeWrap);
  EXPECT_TRUE(load_spec->restores("weights"));
  EXPECT_FALSE(load_spec->restores("optimizer"));
}

TEST(TrainSpec, CheckpointFromNowhereIsRefused) {
  EXPECT_PROBLEM(problem_of(loading("savr")), "a variant that does not exist",
                 "train.checkpoint.load.from (variant 'loader')", "loader, plain, saver", "'savr'");
  EXPECT_EQ(problem_of(loading("savr")).next, "did you mean 'saver'?");
  EXPECT_PROBLEM(problem_of(loading("plain")), "saves none", "train.checkpoint.load.from (variant 'loader')",
                 "save_after", "plain");
  Json circle = loading("saver");
  circle["variants"]["saver"]["train"]["checkpoint"]["load"] = {{"from", "loader"}};
  circle["variants"]["loader"]["train"]["checkpoint"]["save_after"] = 6;
  EXPECT_PROBLEM(problem_of(circle), "in a circle", "(variant 'loader')", "loads none",
                 "loader from saver from loader");
  EXPECT_PROBLEM(problem_of(with(loading("saver"), "variants.loader.train.checkpoint.load.restore", {"weight"})), "",
                 "train.checkpoint.load.restore.0 (variant 'loader')", "weights", "weight");
}

/// 'follower' follows 'leader', which saves every update; `changes` by path.
Json following(const std::vector<std::pair<std::string, Json>>& changes = {}) {
  Json document = with_variants({{"leader", {{"train", {{"checkpoint", {{"save_every", 1}}}}}}},
                                 {"half", {{"train", {{"steps", 4}, {"checkpoint", {{"save_after", 4}}}}}}},
                                 {"follower", {{"train", {{"checkpoint", {{"follow", "leader"}}}}}}}});
  for (const auto& [path, value] : changes) document = with(document, "variants." + path, value);
  return document;
}

TEST(TrainSpec, WhoIsFollowedSavesEveryUpdate) {
  const auto problem = [](const std::string& path, const Json& value) {
    return problem_of(following({{path, value}}));
  };
  const char* where = "train.checkpoint.follow (variant 'follower')";
  const Scenario scenario = load(following());
  EXPECT_EQ(sources_of(scenario.variant("follower")), std::vector<std::string>{"leader"});
  EXPECT_TRUE(sources_of(scenario.variant("leader")).empty());
  EXPECT_PROBLEM(problem("follower.train.checkpoint.follow", "leadr"), "does not exist", where, "leader", "leadr");
  EXPECT_PROBLEM(problem("leader.train.checkpoint.save_every", 2), "does not save every update", where, "save_every 1",
                 "2");
  EXPECT_PROBLEM(problem("follower.train.checkpoint.follow", "half"), "does not save every update", where,
                 "save_every 1 in 'half'", "none");
  EXPECT_PROBLEM(problem("leader.train.checkpoint.prefix", "module."), "other names", where,
                 "no train.checkpoint.prefix", "module.");
  EXPECT_PROBLEM(problem("follower.train.steps", 9), "ends earlier", where, "at most train.steps = 8", "9");
  EXPECT_PROBLEM(problem("leader.train.checkpoint.load", {{"from", "half"}}), "starts later", where,
                 "before each update", "after update 4");
}

TEST(TrainSpec, NobodyFollowsHimself) {
  EXPECT_PROBLEM(problem_of(following({{"leader.train.checkpoint.follow", "leader"}})), "in a circle",
                 "train.checkpoint.follow", "loads none", "leader from leader");
  Json circle = following({{"half.train.checkpoint.load", {{"from", "follower"}, {"restore", {"weights"}}}},
                           {"follower.train.checkpoint.save_after", 4},
                           {"leader.train.checkpoint.load", {{"from", "half"}, {"restore", {"weights"}}}}});
  EXPECT_PROBLEM(problem_of(circle), "in a circle", "train.checkpoint", "loads none",
                 "follower from leader from half from follower");
}

TEST(TrainSpec, WeightsComeFromAVariantOrAFile) {
  const auto load = [](const Json& load) { return problem_of(with("train.checkpoint.load", load)); };
  EXPECT_PROBLEM(load({{"who", "all"}}), "given twice, or not at all", "train.checkpoint.load", "'from' or 'file'",
                 "neither");
  EXPECT_PROBLEM(load({{"from", "main"}, {"file", "x.pt"}}), "given twice", "train.checkpoint.load", "", "both");
  EXPECT_PROBLEM(load({{"file", "x.pt"}}), "weights only", "train.checkpoint.load.restore", "[\"weights\"]",
                 "optimizer");
  EXPECT_NO_THROW(test::load(with("train.checkpoint.load", {{"file", "x.pt"}, {"restore", {"weights"}}})));
}

TEST(TrainSpec, WhatOnlyRankZeroRestoresMayNotSetTheRanksApart) {
  Json document = loading("saver");
  document["variants"]["loader"]["train"]["checkpoint"]["load"] = {{"from", "saver"}, {"who", "rank0"}};
  EXPECT_PROBLEM(problem_of(document), "wait for each other", "train.checkpoint.load.restore", "weights, optimizer",
                 "schedule");
  document["variants"]["loader"]["train"]["checkpoint"]["load"]["restore"] = {"weights", "optimizer"};
  EXPECT_NO_THROW(load(document));
}

/// What 'loader' is told beside the variant that it loads from.
Json loading_with(const Json& load) {
  Json document = loading("saver");
  document["variants"]["saver"]["train"]["checkpoint"] = {{"save_every", 3}};
  document["variants"]["loader"]["world_size"] = 2;
  document["variants"]["loader"]["train"]["checkpoint"]["load"].merge_patch(load);
  return document;
}

TEST(TrainSpec, CheckpointsAreAskedForByNumbersThatExist) {
  EXPECT_NO_THROW(load(loading_with({{"number", 6}})));
  for (const int number : {4, 9}) {
    EXPECT_PROBLEM(problem_of(loading_with({{"number", number}})), "never saved", "(variant 'loader')", "'saver' saves",
                   std::to_string(number));
  }
  EXPECT_NO_THROW(load(loading_with({{"of_rank", {3, nullptr}}, {"who", "newest"}})));
  EXPECT_PROBLEM(problem_of(loading_with({{"of_rank", {3, 5}}, {"who", "newest"}})), "never saved",
                 "(variant 'loader')", "'saver' saves", "5");
}

TEST(TrainSpec, CheckpointsOfRanksFitTheRanks) {
  const auto problem = [](const Json& load) { return problem_of(loading_with(load)); };
  EXPECT_PROBLEM(problem({{"of_rank", {3}}, {"who", "newest"}}), "every rank", "load.of_rank", "2 entries", "1");
  EXPECT_PROBLEM(problem({{"of_rank", {nullptr, nullptr}}}), "no rank has", "load.of_rank", "one number", "null");
  EXPECT_PROBLEM(problem({{"of_rank", {3, 6}}, {"number", 3}}), "given twice", "checkpoint.load", "either", "both");
  EXPECT_PROBLEM(problem({{"who", "newest"}}), "of several ranks", "load.who", "'of_rank'", "no 'of_rank'");
  EXPECT_PROBLEM(problem({{"of_rank", {3, 6}}, {"restore", {"weights", "schedule"}}}), "wait for each other",
                 "load.restore", "without who = newest", "schedule");
  EXPECT_NO_THROW(load(loading_with({{"of_rank", {3, 6}}})));
}

TEST(TrainSpec, PositionsAreAskedForWhereTheyAreRestored) {
  EXPECT_PROBLEM(problem_of(loading_with({{"epoch", "next"}})), "'epoch' has no effect", "load.epoch", "'sampler'",
                 "weights");
  EXPECT_PROBLEM(problem_of(loading_with({{"schedule", "own"}})), "'schedule' has no effect", "load.schedule",
                 "'schedule'", "weights");
  EXPECT_NO_THROW(
      load(loading_with({{"epoch", "again"}, {"schedule", "own"}, {"restore", {"weights", "schedule", "sampler"}}})));
}

TEST(TrainSpec, TheNewestCheckpointIsTheOneThatIsMeant) {
  const auto newest = [](const Json& load_spec) {
    const Scenario scenario = load(loading_with(load_spec));
    return newest_saved(*scenario.variant("loader").train.checkpoint.load, scenario.variant("saver"));
  };
  EXPECT_EQ(newest(Json::object()), 6);
  EXPECT_EQ(newest({{"pick", "highest_name"}}), 6);
  EXPECT_EQ(newest({{"number", 3}}), 3);
  EXPECT_EQ(newest({{"of_rank", {3, nullptr}}, {"who", "newest"}}), 3);
}

TEST(TrainSpec, BatchOfANode) {
  const Json document = with(with("world_size", 4), "train.batch", {{"per_node", 12}, {"ranks_per_node", 2}});
  const recipe::BatchSpec batch = load(document).variants[0].train.batch;
  EXPECT_EQ(batch.micro_size(4), 6);
  EXPECT_EQ(batch.global_size(4), 24);
  const auto problem = [](std::int64_t world_size, const Json& batch) {
    return problem_of(with(with("world_size", world_size), "train.batch", batch));
  };
  EXPECT_PROBLEM(problem(3, {{"per_node", 12}, {"ranks_per_node", 2}}), "fill their nodes",
                 "train.batch.ranks_per_node", "world_size = 3", "2");
  EXPECT_PROBLEM(problem(2, {{"per_node", 7}, {"ranks_per_node", 2}}), "does not divide", "train.batch.per_node",
                 "a multiple of 2", "7");
  EXPECT_PROBLEM(problem(2, {{"per_rank", 6}, {"ranks_per_node", 2}}), "has no effect", "train.batch.ranks_per_node",
                 "'per_node'", "per_rank");
}

TEST(TrainSpec, WithoutDdpNothingIsReduced) {
  EXPECT_NO_THROW(load(with("train.ddp", {{"wrap", false}})));
  for (const Json& more : {Json{{"average", false}}, Json{{"compression", "fp16"}}, Json{{"bucket_mb", 1}}}) {
    Json ddp = {{"wrap", false}};
    ddp.update(more);
    EXPECT_PROBLEM(problem_of(with("train.ddp", ddp)), "nothing is reduced", "train.ddp.wrap", "beside wrap", "false");
  }
}

TEST(TrainSpec, WithoutDdpItsKeysAndFaultsMeanNothing) {
  for (const char* key : {"find_unused_parameters", "gradient_as_bucket_view"}) {
    EXPECT_PROBLEM(problem_of(with("train.ddp", {{"wrap", false}, {key, true}})), "DDP's", "train.ddp.wrap",
                   "find_unused_parameters", "wrap = false");
  }
  Json document = with(with("train.ddp", {{"wrap", false}}), "train.gradient.clip_norm", 1);
  for (const Json& fault :
       {Json{{"kind", "clip_before_reduction"}}, Json{{"kind", "gradient_not_reduced"}, {"step", 0}, {"rank", 0}}}) {
    document["train"]["faults"] = Json::array({fault});
    EXPECT_PROBLEM(problem_of(document), "nothing is reduced", "train.faults", "other faults",
                   fault["kind"].get<std::string>());
  }
}

TEST(TrainSpec, WhatWouldHaveNoEffectIsRefused) {
  EXPECT_PROBLEM(problem_of(with("train.faults", {{{"kind", "clip_before_reduction"}}})), "nothing is clipped",
                 "train.faults", "clip_norm", "clip_before_reduction");
  EXPECT_PROBLEM(problem_of(with("train.faults", {{{"kind", "average_skipped"}}})), "nothing is averaged",
                 "train.faults", "train.ema", "average_skipped");
  EXPECT_PROBLEM(problem_of(with("train.faults", {{{"kind", "state_cast"}}})), "nothing is restored", "train.faults",
                 "train.checkpoint.load", "state_cast");
  EXPECT_PROBLEM(problem_of(with("train.evaluation", {{"samples", 4}, {"every", 9}})), "ever be evaluated",
                 "train.evaluation.every", "train.steps = 8", "9");
  EXPECT_PROBLEM(problem_of(with("train.checkpoint", {{"save_every", 9}})), "never be saved",
                 "train.checkpoint.save_every", "at most train.steps = 8", "9");
}

TEST(TrainSpec, TheRulesWarmUpGrowsFromOneToItsFactor) {
  const recipe::TrainSpec spec =
      load(with("train.learning_rate_rule", {{"kind", "linear"}, {"base_batch", 2}, {"warmup", 4}})).variants[0].train;
  EXPECT_EQ(recipe::rule_warmup(spec, 4, 0), 0.25);
  EXPECT_EQ(recipe::rule_warmup(spec, 4, 2), 0.625);
  EXPECT_EQ(recipe::rule_warmup(spec, 4, 4), 1);
  EXPECT_EQ(recipe::rule_warmup(spec, 4, 400), 1);
}

TEST(TrainSpec, HeldOutSamplesAreNotAugmented) {
  Json document = with("train.evaluation.samples", 2);
  document["train"]["data"] = {{"kind", "image_folder"}, {"path", "images"}, {"size", 8}};
  EXPECT_NO_THROW(load(document));
  document["train"]["data"]["augment"] = "sample";
  EXPECT_PROBLEM(problem_of(document), "be augmented", "train.evaluation", "\"none\"", "sample");
}

TEST(TrainSpec, AugmentationFromTheRanksGeneratorNeedsALoaderThatDoesNotFetchAhead) {
  Json document = minimal();
  document["train"]["data"] = {{"kind", "image_folder"}, {"path", "images"}, {"size", 8}, {"augment", "rank"}};
  EXPECT_NO_THROW(load(document));
  for (const char* kind : {"accelerate", "dispatch"}) {
    document["train"]["sampler"] = {{"kind", kind}};
    EXPECT_PROBLEM(problem_of(document), "prefetches", "train.data.augment", std::string("sampler ") + kind,
                   "\"rank\"");
  }
  document["train"]["data"]["augment"] = "sample";
  EXPECT_NO_THROW(load(document));
}

TEST(TrainSpec, WhatRankZeroDealsOutIsOneDataSet) {
  Json document = minimal();
  document["train"]["data"] = {{"kind", "synthetic"}, {"size", 8}, {"per_rank", true}};
  EXPECT_NO_THROW(load(document));
  document["train"]["sampler"] = {{"kind", "dispatch"}};
  EXPECT_PROBLEM(problem_of(document), "rank 0 reads for all ranks", "train.data.per_rank", "false", "true");
}

TEST(TrainSpec, CompressionAverages) {
  EXPECT_PROBLEM(problem_of(with("train.ddp", {{"average", false}, {"compression", "fp16"}})), "always average",
                 "train.ddp.average", "average = true", "average = false");
}

TEST(TrainSpec, RecordedChannelsAreKnown) {
  const Problem problem = problem_of(with("train.record.channels", {"loss", "wieght"}));
  EXPECT_PROBLEM(problem, "unknown channel 'wieght'", "train.record.channels", "weight", "'wieght'");
  EXPECT_EQ(problem.next, "did you mean 'weight'?");
}

TEST(TrainSpec, SeedKeepsEveryBitOfAnInteger) {
  EXPECT_EQ(load(with("train.seed.base", 9007199254740991)).variants[0].train.seed.base, 9007199254740991U);
  problem_of(with("train.seed.base", 9007199254740992));
  problem_of(with("train.seed.base", -1));
}

TEST(TrainSpec, CudaTakesWhatTheCpuTakesButForGoldens) {
  const Json on_gpu = with("train.device", "cuda");
  EXPECT_EQ(load(minimal()).variants[0].train.device, "cpu");
  EXPECT_EQ(load(on_gpu).variants[0].train.device, "cuda");
  EXPECT_PROBLEM(problem_of(with("train.device", "gpu")), "unknown value", "train.device", "cpu, cuda", "gpu");
  EXPECT_EQ(load(with(on_gpu, "train.faults", fault("learning_rate_factor", 0, 0))).variants[0].train.faults.size(), 1);
  const Json fused = with("train.optimizer", {{"kind", "adam"}, {"lr", 0.1}, {"fused", true}});
  EXPECT_EQ(load(with(fused, "train.device", "cuda")).variants[0].train.optimizer.kind, recipe::OptimizerKind::kAdam);
  EXPECT_PROBLEM(problem_of(with(on_gpu, "checks", {{{"that", "golden"}}})), "goldens exist only", "checks.0", "cpu",
                 "cuda");
}

TEST(TrainSpec, GlooJoinsRanksOnAnyDeviceAndNcclOnGpusOnly) {
  const Json on_gpu = with("train.device", "cuda");
  EXPECT_EQ(load(minimal()).variants[0].train.ddp.backend, "gloo");
  EXPECT_EQ(load(on_gpu).variants[0].train.ddp.backend, "nccl");
  EXPECT_EQ(load(with(on_gpu, "train.ddp.backend", "gloo")).variants[0].train.ddp.backend, "gloo");
  EXPECT_PROBLEM(problem_of(with("train.ddp.backend", "nccl")), "NCCL connects only GPUs", "train.ddp.backend", "gloo",
                 "nccl");
  EXPECT_PROBLEM(problem_of(with(on_gpu, "train.ddp.backend", "mpi")), "unknown value", "train.ddp.backend",
                 "gloo, nccl", "mpi");
}

TEST(TrainSpec, Tf32RoundsAsFloat16DoesWhereAGpuUsesIt) {
  const auto arithmetic = [](const char* device, bool tf32) {
    return load(with(with("train.device", device), "train.determinism", {{"tf32", tf32}}))
        .variants[0]
        .train.coarsest_arithmetic()
        .value_or("its own");
  };
  EXPECT_EQ(arithmetic("cuda", true), "float16");
  EXPECT_EQ(arithmetic("cuda", false), "its own");
  EXPECT_EQ(arithmetic("cpu", true), "its own");
}

}  // namespace
}  // namespace lockstep::scenario
