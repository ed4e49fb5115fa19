#include "harness/scenario/scenario.h"

#include <set>

#include <gtest/gtest.h>

#include "harness/scenario/checks.h"
#include "harness/trace/channel.h"

#include "tests/scenario/loading.h"
#include "tests/support/part.h"

namespace lockstep::scenario {
namespace {

using test::checked;
using test::load;
using test::minimal;
using test::names_of;
using test::with;
using test::with_variants;
using Names = std::vector<std::string>;

// design.md §4, with the "path" that digits need.
constexpr const char* kExampleOfTheDesign = R"({
  "$schema": "../../harness/scenario/scenario.schema.json",
  "name": "world-size-lenet",
  "description": "Same global batch on 1, 2, 3 and 4 ranks: same data order, updates equal up to reduction order.",
  "train": {
    "model": {"kind": "lenet"},
    "data": {"kind": "digits", "path": "digits.csv.gz"},
    "sampler": {"kind": "distributed", "shuffle": true, "drop_last": false},
    "batch": {"global": 24, "accumulation": 1},
    "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9, "weight_decay": 1e-4},
    "schedule": {"kind": "step", "every": 10, "gamma": 0.1},
    "steps": 20,
    "seed": {"base": 42, "policy": "add_rank"},
    "determinism": {"algorithms": "deterministic", "cudnn_benchmark": false, "threads": 1, "cpu": "portable"},
    "ddp": {"reduction": "ring", "bucket_mb": 25}
  },
  "variants": {"w1": {"world_size": 1}, "w2": {"world_size": 2}, "w3": {"world_size": 3}, "w4": {"world_size": 4}},
  "repeats": 2,
  "checks": [
    {"that": "repeatable"},
    {"that": "ranks_agree", "on": ["weight", "buffer", "optimizer"]},
    {"that": "equal", "variants": ["w1", "w2"], "on": ["samples"]},
    {"that": "rounding", "variants": ["w1", "w2", "w3", "w4"], "on": ["gradient", "weight"]},
    {"that": "golden", "variants": ["w1", "w4"]}
  ]
})";

TEST(Scenario, ExampleOfTheDesignLoads) {
  const Scenario scenario = load(Json::parse(kExampleOfTheDesign));
  EXPECT_EQ(scenario.name, "world-size-lenet");
  EXPECT_EQ(scenario.repeats, 2);
  EXPECT_EQ(names_of(scenario), (Names{"w1", "w2", "w3", "w4"}));
  for (std::int64_t w = 1; w <= 4; ++w) EXPECT_EQ(scenario.variants[static_cast<std::size_t>(w - 1)].world_size, w);
  const recipe::TrainSpec& train = scenario.variant("w3").train;
  EXPECT_EQ(train.model.kind, recipe::ModelKind::kLenet);
  EXPECT_EQ(train.data.options["size"], 1797);
  EXPECT_EQ(train.batch.micro_size(3), 8);
  EXPECT_EQ(train.steps, 20);
  EXPECT_EQ(train.seed.base, 42U);
  EXPECT_EQ(train.seed.policy, recipe::SeedPolicy::kAddRank);
  EXPECT_EQ(train.determinism.cpu, "portable");
  EXPECT_EQ(train.ddp.bucket_mb, 25.0);
  ASSERT_EQ(scenario.checks.size(), 5U);
  EXPECT_EQ(scenario.checks[0].variants, (Names{"w1", "w2", "w3", "w4"}));
  EXPECT_EQ(scenario.checks[1].channels,
            (std::vector{trace::Channel::kWeight, trace::Channel::kBuffer, trace::Channel::kOptimizer}));
  EXPECT_EQ(scenario.checks[4].that, CheckKind::kGolden);
  EXPECT_EQ(scenario.checks[4].variants, (Names{"w1", "w4"}));
}

TEST(Scenario, EveryCommittedScenarioLoads) {
  std::set<std::filesystem::path> files;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(lockstep::test::source_root() / "scenarios")) {
    const bool is_audit = entry.path().string().find("scenarios/audit/") != std::string::npos;
    if (entry.path().extension() == ".jsonc" && !is_audit) files.insert(entry.path());
  }
  EXPECT_GE(files.size(), 20U);
  std::size_t index = 0;
  for (const std::filesystem::path& file : files) {
    if (!lockstep::test::in_part(index++)) continue;
    EXPECT_NO_THROW(load_scenario(file)) << file;
  }
}

TEST(Scenario, MinimalOneIsCompletedWithEveryDefault) {
  const Scenario scenario = load(minimal());
  EXPECT_EQ(names_of(scenario), Names{"main"});
  const Variant& main = scenario.variant("main");
  EXPECT_EQ(main.world_size, 1);
  EXPECT_EQ(main.train.sampler.kind, recipe::SamplerKind::kDistributed);
  EXPECT_EQ(main.train.sampler.options["shuffle"], true);
  EXPECT_EQ(main.train.schedule.kind, recipe::ScheduleKind::kConstant);
  EXPECT_EQ(main.train.learning_rate_rule.kind, recipe::RateRuleKind::kNone);
  EXPECT_EQ(main.train.optimizer.options["momentum"], 0);
  EXPECT_EQ(main.train.data.options["shape"], Json({1, 8, 8}));
  EXPECT_EQ(main.train.batch.accumulation, 1);
  EXPECT_EQ(main.train.seed.policy, recipe::SeedPolicy::kSame);
  EXPECT_EQ(main.train.determinism.threads, 1);
  EXPECT_TRUE(main.train.ddp.average);
  EXPECT_FALSE(main.train.ddp.bucket_mb.has_value());
  EXPECT_FALSE(main.train.checkpoint.save_after || main.train.checkpoint.load);
  EXPECT_EQ(main.train.record.channels, trace::channel_names());
  EXPECT_TRUE(main.train.faults.empty());
  EXPECT_EQ(main.launch.directory, "work");
  EXPECT_EQ(main.launch.deadline_s, std::nullopt) << "a sound training takes the time that it takes";
  EXPECT_GT(main.launch.stall_s, 0);
  EXPECT_FALSE(main.launch.reverse_environment);
}

TEST(Scenario, LaunchIsRead) {
  const Scenario scenario = load(with("launch", {{"arrival_delay_ms", {0, 5}},
                                                 {"step_delay_ms", {3}},
                                                 {"environment", {{"A", "b"}}},
                                                 {"environment_order", "reversed"},
                                                 {"directory", "d"},
                                                 {"deadline_s", 7},
                                                 {"stall_s", 2.5}}));
  const LaunchSpec& launch = scenario.variants[0].launch;
  EXPECT_EQ(launch.arrival_delay_ms, (std::vector<std::int64_t>{0, 5}));
  EXPECT_EQ(launch.step_delay_ms, (std::vector<std::int64_t>{3}));
  EXPECT_EQ(launch.environment.at("A"), "b");
  EXPECT_TRUE(launch.reverse_environment);
  EXPECT_EQ(launch.directory, "d");
  EXPECT_EQ(launch.deadline_s, 7);
  EXPECT_EQ(launch.stall_s, 2.5);
}

TEST(Scenario, VariantMaySupplyWhatTheTrainingLacks) {
  Json document = minimal();
  document["train"].erase("steps");
  document["variants"] = {{"short", {{"train", {{"steps", 2}}}}}, {"long", {{"train", {{"steps", 9}}}}}};
  const Scenario scenario = load(document);
  EXPECT_EQ(scenario.variant("short").train.steps, 2);
  EXPECT_EQ(scenario.variant("long").train.steps, 9);
}

TEST(Scenario, VariantChangesOnlyWhatItSays) {
  const Scenario scenario =
      load(with_variants({{"a", Json::object()}, {"b", {{"train", {{"optimizer", {{"lr", 0.5}}}}}}}}));
  EXPECT_EQ(scenario.variant("a").train.optimizer.options["lr"], 0.1);
  EXPECT_EQ(scenario.variant("b").train.optimizer.options["lr"], 0.5);
  EXPECT_EQ(scenario.variant("b").train.optimizer.kind, recipe::OptimizerKind::kSgd);
}

TEST(Scenario, VariantOfAnotherKindDropsTheKeysOfTheOld) {
  Json document = with("train.schedule", {{"kind", "step"}, {"every", 3}, {"gamma", 0.5}});
  document["variants"] = {{"constant", {{"train", {{"schedule", {{"kind", "constant"}}}}}}},
                          {"same", {{"train", {{"schedule", {{"kind", "step"}, {"every", 4}}}}}}}};
  const Scenario scenario = load(document);
  EXPECT_EQ(scenario.variant("constant").train.schedule.options, Json({{"kind", "constant"}}));
  EXPECT_EQ(scenario.variant("same").train.schedule.options["gamma"], 0.5);
  EXPECT_EQ(scenario.variant("same").train.schedule.options["every"], 4);
}

TEST(Scenario, VariantOfAnotherKindThanTheDefaultKeepsItsKeys) {
  const Json change = {{"train", {{"schedule", {{"kind", "step"}, {"every", 4}}}}}};
  EXPECT_EQ(load(with_variants({{"a", change}})).variants[0].train.schedule.options["every"], 4);
}

TEST(Scenario, BatchOfAVariantReplacesTheOtherForm) {
  const Scenario scenario = load(
      with_variants({{"a", {{"world_size", 2}, {"train", {{"batch", {{"per_rank", 6}}}}}}}, {"b", Json::object()}}));
  EXPECT_EQ(scenario.variant("a").train.batch.per_rank, 6);
  EXPECT_FALSE(scenario.variant("a").train.batch.global.has_value());
  EXPECT_EQ(scenario.variant("a").train.batch.global_size(2), 12);
  EXPECT_EQ(scenario.variant("b").train.batch.global, 24);
  Json document = with("train.batch", {{"per_rank", 4}, {"accumulation", 2}});
  document["variants"] = {{"g", {{"train", {{"batch", {{"global", 8}}}}}}}};
  const recipe::BatchSpec batch = load(document).variants[0].train.batch;
  EXPECT_EQ(batch.global, 8);
  EXPECT_FALSE(batch.per_rank.has_value());
  EXPECT_EQ(batch.accumulation, 2);
}

TEST(Scenario, MatrixMultipliesVariants) {
  Json document = with_variants({{"w1", {{"world_size", 1}}}, {"w2", {{"world_size", 2}}}});
  document["matrix"] = {{"train.optimizer.lr", {0.1, 1e-5}}, {"train.seed.policy", {"same", "add_rank"}}};
  const Scenario scenario = load(document);
  EXPECT_EQ(names_of(scenario),
            (Names{"w1-lr=0.1-policy=same", "w1-lr=0.1-policy=add_rank", "w1-lr=1e-05-policy=same",
                   "w1-lr=1e-05-policy=add_rank", "w2-lr=0.1-policy=same", "w2-lr=0.1-policy=add_rank",
                   "w2-lr=1e-05-policy=same", "w2-lr=1e-05-policy=add_rank"}));
  const Variant& last = scenario.variants.back();
  EXPECT_EQ(last.world_size, 2);
  EXPECT_EQ(last.train.optimizer.options["lr"], 1e-5);
  EXPECT_EQ(last.train.seed.policy, recipe::SeedPolicy::kAddRank);
}

TEST(Scenario, MatrixAloneNamesItsVariants) {
  EXPECT_EQ(names_of(load(with("matrix", {{"world_size", {1, 2, 4}}}))),
            (Names{"world_size=1", "world_size=2", "world_size=4"}));
  EXPECT_EQ(names_of(load(with("matrix", {{"train.ddp.average", {true, false}}}))),
            (Names{"average=true", "average=false"}));
}

TEST(Scenario, MatrixOfKindsDropsTheKeysOfTheOld) {
  Json document = with("train.model", {{"kind", "mlp"}, {"hidden", {3}}});
  document["matrix"] = {{"train.model.kind", {"mlp", "lenet"}}};
  const Scenario scenario = load(document);
  EXPECT_EQ(scenario.variant("kind=mlp").train.model.options["hidden"], Json({3}));
  EXPECT_EQ(scenario.variant("kind=lenet").train.model.options, Json({{"kind", "lenet"}}));
}

TEST(Scenario, OverridesSetAnyPath) {
  const std::vector<std::string> overrides = {"train.optimizer.lr=0.2",
                                              "train.seed.policy=add_rank",
                                              "train.ddp.average=false",
                                              "repeats=3",
                                              "description=a=b",
                                              "train.data.shape=[1,4,4]",
                                              "name=other"};
  const Scenario scenario = load(minimal(), overrides);
  const recipe::TrainSpec& train = scenario.variants[0].train;
  EXPECT_EQ(train.optimizer.options["lr"], 0.2);
  EXPECT_EQ(train.seed.policy, recipe::SeedPolicy::kAddRank);
  EXPECT_FALSE(train.ddp.average);
  EXPECT_EQ(scenario.repeats, 3);
  EXPECT_EQ(scenario.description, "a=b");
  EXPECT_EQ(train.data.options["shape"], Json({1, 4, 4}));
  EXPECT_EQ(scenario.name, "other");
  EXPECT_EQ(scenario.overrides, overrides);
}

TEST(Scenario, OverrideReachesIntoListsAndVariants) {
  Json document = with_variants({{"a", {{"world_size", 2}}}});
  document["train"]["faults"] = {{{"kind", "kill"}, {"step", 1}, {"rank", 0}}};
  const Scenario scenario = load(document, {"train.faults.0.rank=1", "variants.a.world_size=4"});
  EXPECT_EQ(scenario.variants[0].train.faults.at(0).options["rank"], 1);
  EXPECT_EQ(scenario.variants[0].world_size, 4);
}

TEST(Scenario, LaterOverrideWins) {
  EXPECT_EQ(load(minimal(), {"train.steps=3", "train.steps=4"}).variants[0].train.steps, 4);
}

}  // namespace
}  // namespace lockstep::scenario
