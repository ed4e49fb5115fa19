// What a recipe says along the number of ranks, and which of it depends on them.
#include "harness/audit/quantities.h"

#include <functional>
#include <map>

#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using enum audit::Answer;
using Values = std::vector<std::string>;

/// A recipe at some numbers of ranks, with a run of each.
class Seen {
 public:
  Seen(const Json& train, const std::vector<int>& ranks) {
    Json whole = recipe(train);
    const Json main = whole["variants"]["main"];
    whole["variants"] = Json::object();
    for (const int count : ranks) whole["variants"]["w" + std::to_string(count)] = merged({main, on_ranks(count)});
    plan_ = plan::make_plan({tiny_scenario(whole, scratch_)});
    evidence_ = MemoryWorker(scratch_.path() / "runs").run(plan_, "");
    for (const int count : ranks) {
      const std::string name = "w" + std::to_string(count);
      seen_.push_back({.world_size = count,
                       .variant = &plan_.scenarios[0].variant(name),
                       .refusal = {},
                       .run = &*evidence_[plan_.runs_of("tiny", name).at(0)].trace});
    }
  }

  audit::Line line(const std::string& id) const {
    for (const audit::Line& line : audit::quantities(seen_)) {
      if (line.id == id) return line;
    }
    return {};
  }

  trace::RunTrace& run(std::size_t i) { return *evidence_[i].trace; }

  /// Makes programs of the trainings: the optimizer is not promised, but seen.
  void see_optimizer(const std::string& kind) {
    for (scenario::Variant& variant : plan_.scenarios[0].variants) variant.known = {"batch"};
    for (judge::Evidence& each : evidence_) {
      for (trace::Trace& rank : each.trace->ranks) rank.header["seen"]["optimizer"] = {{{"kind", kind}}};
    }
  }

  /// Gives each update another rate.
  void set_rates(std::size_t i, const std::function<double(std::int64_t step)>& rate) {
    for (std::int64_t step = 0; step < 4; ++step) put(run(i), 0, step, number("learning_rate", rate(step)));
  }

 private:
  Scratch scratch_;
  plan::Plan plan_;
  std::vector<judge::Evidence> evidence_;
  std::vector<audit::Seen> seen_;
};

TEST(Quantities, OfARecipeThatScalesAreTheSame) {
  const Seen seen(Json::object(), {1, 2, 3});
  for (const char* id : {"global-batch", "samples-per-epoch", "updates-per-epoch", "coverage", "last-batch", "rate",
                         "rate-per-sample", "denominator"})
    EXPECT_EQ(seen.line(id).answer, kSame) << id << seen.line(id).because;
  EXPECT_EQ(seen.line("updates-per-epoch").values, (Values{"8", "8", "8"}));
  EXPECT_EQ(seen.line("last-batch").values, (Values{"whole", "whole", "whole"}));
  for (const char* id : {"warmup", "first-drop", "decay", "clipping", "data-sets", "batch-norm", "dropout", "metric"})
    EXPECT_TRUE(seen.line(id).id.empty() || seen.line(id).answer == kSame) << id;
}

TEST(Quantities, OfABatchForEachRankChange) {
  const Seen seen({{"batch", {{"per_rank", 6}}}, {"optimizer", {{"weight_decay", 0.1}}}}, {1, 2});
  const audit::Line batch = seen.line("global-batch");
  EXPECT_EQ(batch.answer, kChanges);
  EXPECT_EQ(batch.values, (Values{"6", "12"}));
  EXPECT_TRUE(holds(batch.because, "2 x as many samples")) << batch.because;
  EXPECT_TRUE(holds(batch.instead, "3 samples a rank at 2 ranks")) << batch.instead;
  for (const char* id : {"updates-per-epoch", "rate-per-sample", "decay"})
    EXPECT_EQ(seen.line(id).answer, kChanges) << id;
  EXPECT_TRUE(holds(seen.line("rate-per-sample").instead, "linear 0.2 (Goyal et al. 2017)"))
      << seen.line("rate-per-sample").instead;
}

TEST(Quantities, OfALinearRuleForAdamHaveNoGround) {
  const Seen seen({{"batch", {{"per_rank", 6}}}, {"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}}, {1, 2});
  EXPECT_TRUE(holds(seen.line("rate-per-sample").instead, "not justified for adam"))
      << seen.line("rate-per-sample").instead;
}

TEST(Quantities, OfAProgramFollowTheOptimizerThatIsSeen) {
  Seen seen({{"batch", {{"per_rank", 6}}}}, {1, 2});
  seen.see_optimizer("adamw");
  EXPECT_TRUE(holds(seen.line("rate-per-sample").instead, "not justified for adamw"))
      << seen.line("rate-per-sample").instead;
  seen.see_optimizer("sgd");
  EXPECT_TRUE(holds(seen.line("rate-per-sample").instead, "linear 0.2 (Goyal et al. 2017)"))
      << seen.line("rate-per-sample").instead;
}

/// The rate that a warm-up leads to is not known before it ends.
TEST(Quantities, OfAWarmUpThatDoesNotEndHaveNoRule) {
  Seen seen({{"batch", {{"per_rank", 6}}}}, {1, 2});
  seen.see_optimizer("sgd");
  for (const std::size_t i : {0, 1}) seen.set_rates(i, [](std::int64_t step) { return 0.01 * (1 + step); });
  EXPECT_TRUE(holds(seen.line("rate-per-sample").because, "in a warm-up that these updates do not end"));
  EXPECT_FALSE(holds(seen.line("rate-per-sample").instead, "Goyal")) << seen.line("rate-per-sample").instead;
}

TEST(Quantities, OfARateThatGrowsWithoutTheBatchBlameTheRate) {
  Seen seen(Json::object(), {1, 2});
  seen.set_rates(1, [](std::int64_t) { return 0.2; });
  EXPECT_TRUE(holds(seen.line("rate-per-sample").because, "the rate grows by 2 x and the batch does not"))
      << seen.line("rate-per-sample").because;
  EXPECT_TRUE(seen.line("rate-per-sample").instead.starts_with("give all of them"));
}

TEST(Quantities, OfARateByRuleFollowTheBatch) {
  const Json rule = {{"kind", "linear"}, {"base_batch", 6}};
  const Seen seen({{"batch", {{"per_rank", 6}}}, {"learning_rate_rule", rule}}, {1, 2});
  EXPECT_EQ(seen.line("rate").answer, kChanges);
  EXPECT_TRUE(holds(seen.line("rate").because, "a heuristic, not an identity"));
  EXPECT_EQ(seen.line("rate-per-sample").answer, kSame);
}

TEST(Quantities, OfAScheduleThatStepsForEachRankAreSlips) {
  const Seen seen({{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}, {"schedule_every", "rank"}}, {1, 2});
  EXPECT_EQ(seen.line("first-drop").answer, kSlip);
  EXPECT_EQ(seen.line("first-drop").values, (Values{"24", "12"}));
  EXPECT_EQ(seen.line("rate").answer, kSlip);
  EXPECT_TRUE(holds(seen.line("rate").because, "the rates differ from update ")) << seen.line("rate").because;
}

TEST(Quantities, OfAScheduleByUpdatesChangeWithTheBatch) {
  const Seen seen({{"batch", {{"per_rank", 6}}}, {"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}},
                  {1, 2});
  EXPECT_EQ(seen.line("first-drop").answer, kChanges);
  EXPECT_EQ(seen.line("first-drop").values, (Values{"12", "24"}));
}

TEST(Quantities, OfAWarmUpByUpdatesChangeWithTheBatch) {
  const Seen seen({{"batch", {{"per_rank", 6}}}, {"schedule", {{"kind", "linear_warmup"}, {"warmup", 2}}}}, {1, 2});
  EXPECT_EQ(seen.line("warmup").answer, kChanges);
  EXPECT_EQ(seen.line("warmup").values, (Values{"12", "24"}));
  EXPECT_TRUE(holds(seen.line("warmup").instead, "1 updates at 2 ranks")) << seen.line("warmup").instead;
}

TEST(Quantities, OfAnEpochsEndTellUnequalShares) {
  const Seen seen({{"data", {{"size", 29}}}}, {1, 2});  // 24, and 5 that are left over
  EXPECT_EQ(seen.line("last-batch").values, (Values{"5", "6"}));
  EXPECT_EQ(seen.line("last-batch").answer, kChanges);
  EXPECT_EQ(seen.line("coverage").values, (Values{"1", "1..2"}));
  EXPECT_EQ(seen.line("coverage").answer, kChanges);
  EXPECT_EQ(seen.line("samples-per-epoch").values, (Values{"29", "30"}));
}

TEST(Quantities, OfNoSamplerTakeEverySampleOnEachRank) {
  const Seen seen({{"sampler", {{"kind", "none"}}}}, {1, 2});
  EXPECT_EQ(seen.line("coverage").answer, kSlip);
  EXPECT_EQ(seen.line("coverage").values, (Values{"1", "2"}));
  EXPECT_TRUE(holds(seen.line("coverage").instead, "distributed sampler"));
}

TEST(Quantities, OfAThresholdOnASumAreSlips) {
  const Seen seen({{"gradient", {{"clip_norm", 0.1}}}, {"ddp", {{"average", false}}}}, {1, 2});
  EXPECT_EQ(seen.line("clipping").answer, kSlip);
  EXPECT_EQ(seen.line("clipping").values, (Values{"0.1", "0.05"}));
  EXPECT_EQ(Seen({{"gradient", {{"clip_norm", 0.1}}}}, {1, 2}).line("clipping").answer, kSame);
}

TEST(Quantities, OfBatchNormalizationFollowTheMicroBatch) {
  const Json model = {{"kind", "resnet"}, {"widths", {4}}};
  const Seen own({{"model", model}}, {1, 2});
  EXPECT_EQ(own.line("batch-norm").answer, kChanges);
  EXPECT_EQ(own.line("batch-norm").values, (Values{"12", "6"}));
  const Seen all({{"model", merged({model, {{"norm", "sync_batch"}}})}}, {1, 2});
  EXPECT_EQ(all.line("batch-norm").answer, kSame);
}

TEST(Quantities, OfMasksFollowTheStreams) {
  const Json model = {{"kind", "mlp"}, {"hidden", {6}}, {"dropout", 0.5}};
  const Seen own({{"model", model}, {"seed", {{"policy", "add_rank"}}}}, {1, 2});
  EXPECT_EQ(own.line("dropout").answer, kChanges);
  EXPECT_EQ(own.line("dropout").values, (Values{"1", "2"}));
  const Seen same({{"model", model}, {"seed", {{"policy", "same"}}}}, {1, 2});
  EXPECT_EQ(same.line("dropout").answer, kChanges);
  EXPECT_TRUE(holds(same.line("dropout").because, "all ranks draw the same")) << same.line("dropout").because;
}

TEST(Quantities, OfDataThatEachRankMakesAreSlips) {
  const Seen seen({{"data", {{"per_rank", true}}}}, {1, 2});
  EXPECT_EQ(seen.line("data-sets").answer, kSlip);
  EXPECT_EQ(seen.line("data-sets").values, (Values{"1", "2"}));
}

TEST(Quantities, OfAMetricCountSamplesOfThePadding) {
  const auto of = [](const char* shares, const char* reduce) {
    const Json evaluation = {{"samples", 9}, {"every", 4}, {"shares", shares}, {"reduce", reduce}};
    return Seen({{"evaluation", evaluation}, {"batch", {{"global", 12}}}}, {1, 2}).line("metric");
  };
  EXPECT_EQ(of("padded", "all").answer, kSlip);
  EXPECT_EQ(of("padded", "all").values, (Values{"9", "10"}));
  EXPECT_EQ(of("trimmed", "all").answer, kSame);
}

/// Lines of text have unequally many targets.
TEST(Quantities, OfALossOfUnequallyManyTargetsAreSlips) {
  const Scratch scratch;
  const auto denominator = [&](const char* average) {
    Json lines = recipe({{"model", {{"kind", "transformer"}, {"width", 8}, {"heads", 2}, {"layers", 1}}},
                         {"loss", {{"average", average}}}});
    lines["train"].erase("data");
    lines["train"].erase("model");
    lines["variants"]["main"]["train"]["data"] = {
        {"kind", "text"}, {"path", scratch.write("lines.txt", "a\nbcd\n").string()}, {"length", 8}, {"by", "line"}};
    const scenario::Scenario scenario = tiny_scenario(lines, scratch);
    const auto at = [&](std::int64_t ranks) {
      return audit::Seen{.world_size = ranks, .variant = &scenario.variants[0], .refusal = {}, .run = nullptr};
    };
    for (const audit::Line& line : audit::quantities({at(1), at(2)})) {
      if (line.id == "denominator") return line;
    }
    return audit::Line();
  };
  EXPECT_EQ(denominator("rank").answer, kSlip);
  EXPECT_TRUE(holds(denominator("rank").because, "a mean of their means weighs targets unequally"));
  EXPECT_EQ(denominator("world").answer, kSame);
}

TEST(Quantities, NameNumbersOfRanksThatARecipeRefuses) {
  const Seen one(Json::object(), {1});
  const std::vector<audit::Line> lines =
      audit::quantities({{.world_size = 5, .variant = nullptr, .refusal = "5 ranks do not divide 12", .run = nullptr}});
  ASSERT_EQ(lines.size(), 1U);
  EXPECT_EQ(lines[0].id, "world-size@5");
  EXPECT_EQ(lines[0].answer, kChanges);
  EXPECT_TRUE(holds(lines[0].because, "the recipe refuses them: 5 ranks do not divide 12"));
  EXPECT_EQ(one.line("rate").answer, kCannotTell);
  EXPECT_EQ(one.line("rate").because, "it is known on fewer than two numbers of ranks");
}

}  // namespace
}  // namespace lockstep::test
