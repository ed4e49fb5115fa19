#include <cmath>

#include "tests/support/tiny/bench.h"

// Check "ledger": learning rate, counters and denominators against their closed form.

namespace lockstep::test {
namespace {

using trace::Channel;

Json ledger_of(const Json& train = Json::object()) {
  Json all = {{"steps", 12}, {"schedule", {{"kind", "step"}, {"every", 3}, {"gamma", 0.7}}}};
  all.merge_patch(train);
  return {{"train", all}, {"variants", {{"a", Json::object()}}}, {"checks", {{{"that", "ledger"}}}}};
}

TEST(Ledger, AgreesOnEverySchedulesEpochsAndBatches) {
  EXPECT_TRUE(agrees(Bench(ledger_of()).check()));
  EXPECT_TRUE(
      agrees(Bench(ledger_of({{"schedule", {{"kind", "constant"}, {"every", nullptr}, {"gamma", nullptr}}}})).check()));
  EXPECT_TRUE(agrees(Bench(ledger_of({{"batch", {{"accumulation", 3}}}})).check())) << "accumulation";
  EXPECT_TRUE(agrees(Bench(ledger_of({{"data", {{"size", 31}}}})).check())) << "a short last batch, padded";
  EXPECT_TRUE(
      agrees(Bench(ledger_of({{"data", {{"size", 31}}}, {"sampler", {{"kind", "contiguous"}, {"drop_last", true}}}}))
                 .check()));
  EXPECT_TRUE(agrees(Bench(ledger_of({{"data", {{"size", 31}}}, {"batch", {{"accumulation", 2}}}})).check()))
      << "an epoch ends within an update";
  EXPECT_TRUE(agrees(Bench(ledger_of({{"sampler", {{"kind", "none"}}}})).check()));
  EXPECT_TRUE(agrees(Bench(ledger_of({{"learning_rate_rule", {{"kind", "sqrt"}, {"base_batch", 7}}}})).check()));
  EXPECT_TRUE(agrees(Bench(ledger_of({{"record", {{"every", 5}}}})).check()));
}

TEST(Ledger, SeesAWrongRateAtOneStep) {
  Bench bench(ledger_of());
  bench.rerun("a", {.learning_rate = [](auto step, double rate) { return step == 7 ? rate * 1.001 : rate; }});
  EXPECT_TRUE(diverges_at(bench.check(), 7, Channel::kLedger, "learning_rate", 0));
}

TEST(Ledger, HasRoomForRoundingOnly) {
  Bench bench(ledger_of());
  bench.rerun("a", {.learning_rate = [](auto, double rate) { return std::nextafter(rate, 1); }});
  EXPECT_TRUE(agrees(bench.check()));
  bench.rerun("a", {.learning_rate = [](auto, double rate) { return rate * (1 + 1e-13); }});
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kLedger, "learning_rate", 0));
  bench.rerun("a", {.learning_rate = [](auto step, double rate) { return step == 2 ? std::nan("") : rate; }});
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kLedger, "learning_rate", 0));
}

TEST(Ledger, SeesAScheduleThatStartsOver) {
  Bench bench(ledger_of());
  bench.rerun("a", {.learning_rate = [](auto step, double rate) { return step >= 5 ? 0.1 : rate; }});
  EXPECT_TRUE(diverges_at(bench.check(), 5, Channel::kLedger, "learning_rate", 0));
}

TEST(Ledger, SeesAScheduleOneStepLate) {
  Bench bench(ledger_of());
  bench.rerun("a", {.learning_rate = [](auto step, double rate) { return step == 3 ? rate / 0.7 : rate; }});
  EXPECT_TRUE(diverges_at(bench.check(), 3, Channel::kLedger, "learning_rate", 0));
}

TEST(Ledger, SeesEveryWrongEntry) {
  for (const char* name : {"loss_denominator", "samples_taken", "updates", "epoch"}) {
    Bench bench(ledger_of());
    const std::int64_t right = at(bench.run("a"), 1, 4, Channel::kLedger, name).integers[0];
    put(bench.run("a"), 1, 4, integer(name, right + 1));
    EXPECT_TRUE(diverges_at(bench.check(), 4, Channel::kLedger, name, 1)) << name;
  }
}

TEST(Ledger, TakesTheEarliestStepOfAllRanks) {
  Bench bench(ledger_of());
  put(bench.run("a"), 0, 6, integer("updates", 99));
  put(bench.run("a"), 1, 2, integer("epoch", 99));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kLedger, "epoch", 1));
}

TEST(Ledger, SeesADenominatorThatIgnoresAShortBatch) {
  Bench bench(ledger_of({{"data", {{"size", 31}}}}));  // 16 on each rank: 6, 6, 4
  ASSERT_EQ(at(bench.run("a"), 0, 2, Channel::kLedger, "loss_denominator").integers[0], 4);
  put(bench.run("a"), 0, 2, integer("loss_denominator", 6));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kLedger, "loss_denominator", 0));
}

TEST(Ledger, SeesADenominatorThatIgnoresAccumulation) {
  Bench bench(ledger_of({{"batch", {{"accumulation", 3}}}}));
  for (std::int64_t step = 0; step < 12; ++step) {
    for (const std::int64_t rank : {0, 1}) put(bench.run("a"), rank, step, integer("loss_denominator", 2));
  }
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kLedger, "loss_denominator", 0));
}

TEST(Ledger, SeesAnEpochThatStartsOverAfterAResume) {
  Json changes = ledger_of({{"data", {{"size", 60}}}});  // five steps an epoch
  Bench bench(changes);
  trace::RunTrace resumed = resumed_from(bench.run("a"), 7, "resumed");
  bench.run("a") = resumed;
  EXPECT_TRUE(agrees(bench.check())) << "the state after loading has no ledger, and needs none";
  for (std::int64_t step = 7; step < 12; ++step) {
    for (const std::int64_t rank : {0, 1}) put(bench.run("a"), rank, step, integer("epoch", step < 12 ? 1 : 2));
  }
  EXPECT_TRUE(diverges_at(bench.check(), 10, Channel::kLedger, "epoch", 0))
      << "the epoch's position was lost: it ends two steps late";
}

TEST(Ledger, SeesAReducedLossThatIsNoMean) {
  Bench bench(ledger_of());
  const trace::Record right = at(bench.run("a"), 1, 5, Channel::kLoss, "reduced");
  put(bench.run("a"), 1, 5, scalar(Channel::kLoss, "reduced", static_cast<float>(*right.number * (1 + 1e-7))));
  EXPECT_TRUE(agrees(bench.check())) << "rounding";
  put(bench.run("a"), 1, 5, scalar(Channel::kLoss, "reduced", static_cast<float>(*right.number * (1 + 1e-5))));
  EXPECT_TRUE(diverges_at(bench.check(), 5, Channel::kLoss, "reduced", 1));
  put(bench.run("a"), 1, 5, scalar(Channel::kLoss, "reduced", std::nanf("")));
  EXPECT_TRUE(diverges_at(bench.check(), 5, Channel::kLoss, "reduced", 1));
}

TEST(Ledger, HasNoMeanOfLossesThatAreNotFinite) {
  Bench bench(ledger_of());
  put(bench.run("a"), 0, 5, scalar(Channel::kLoss, "local", std::nanf("")));
  for (const std::int64_t rank : {0, 1}) put(bench.run("a"), rank, 5, scalar(Channel::kLoss, "reduced", std::nanf("")));
  EXPECT_TRUE(agrees(bench.check()));
}

TEST(Ledger, CountsEveryHeldOutSampleOnce) {
  const auto evaluate = [](Bench& bench, std::int64_t counted) {
    for (trace::Trace& rank : bench.run("a").ranks) {
      for (trace::Step& step : rank.steps) {
        if (step.step % 4 == 3) step.records.push_back(integers(Channel::kMetric, "counted", {counted}));
      }
    }
  };
  const Json held_out = ledger_of({{"evaluation", {{"samples", 7}, {"every", 4}}}});
  Bench right(held_out), padded(held_out);
  evaluate(right, 7);
  EXPECT_TRUE(agrees(right.check()));
  evaluate(padded, 8);
  EXPECT_TRUE(diverges_at(padded.check(), 3, Channel::kMetric, "counted", 0)) << "padding is counted";
  put(right.run("a"), 1, 7, integers(Channel::kMetric, "counted", {3}));
  EXPECT_TRUE(diverges_at(right.check(), 7, Channel::kMetric, "counted", 1));
  right.scenario.variants[0].train.evaluation->reduce = recipe::EvaluationReduce::kRoot;
  EXPECT_TRUE(agrees(right.check())) << "what the other ranks hold is no metric";
  erase(right.run("a"), 0, 11, Channel::kMetric, "counted");
  EXPECT_TRUE(diverges_at(right.check(), 11, Channel::kMetric, "counted", 0));
}

TEST(Ledger, FollowsTheWarmUpOfTheRule) {
  const Json rule = {{"kind", "linear"}, {"base_batch", 3}, {"warmup", 6}};  // 12 samples: the factor is 4
  Bench bench(ledger_of({{"learning_rate_rule", rule}}));
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kLedger, "learning_rate", 0)) << "no warm-up at all";
  bench.rerun("a", {.learning_rate = [](auto step, double rate) {
                return rate * (step < 6 ? (1 + 3 * static_cast<double>(step) / 6) / 4 : 1);
              }});
  EXPECT_TRUE(agrees(bench.check()));
}

TEST(Ledger, HoldsEveryParameterGroupToItsRate) {
  const Json groups = Json::array({{{"parameters", "fc.bias"}, {"lr", 0.5}}});
  Bench bench(ledger_of({{"optimizer", {{"groups", groups}}}}));
  EXPECT_TRUE(diverges_at(bench.check(), 0, Channel::kLedger, "learning_rate.1", 0)) << "not recorded";
  for (trace::Trace& rank : bench.run("a").ranks) {
    for (trace::Step& step : rank.steps) {
      if (step.step >= 0)
        step.records.push_back(number("learning_rate.1", 0.5 * std::pow(0.7, static_cast<double>(step.step / 3))));
    }
  }
  EXPECT_TRUE(agrees(bench.check()));
  put(bench.run("a"), 1, 4, number("learning_rate.1", 0.5));
  EXPECT_TRUE(diverges_at(bench.check(), 4, Channel::kLedger, "learning_rate.1", 1));
}

TEST(Ledger, SeesAMissingEntry) {
  Bench bench(ledger_of());
  erase(bench.run("a"), 1, 3, Channel::kLedger, "learning_rate");
  const auto result = bench.check();
  ASSERT_TRUE(diverges_at(result, 3, Channel::kLedger, "learning_rate", 1));
  EXPECT_EQ(result.divergence->actual, "not recorded");
}

TEST(Ledger, TakesTheRatesOfTheOptimizersThatUpdate) {
  const auto renamed = [](Bench& bench, const std::string& name, const std::string& to, std::int64_t from_step) {
    for (trace::Trace& rank : bench.run("a").ranks) {
      for (trace::Step& step : rank.steps) {
        for (trace::Record& record : step.records) {
          if (step.step >= from_step && record.channel == Channel::kLedger && record.name == name) record.name = to;
        }
      }
    }
  };
  Bench bench(ledger_of());
  renamed(bench, "learning_rate", "optimizer1.learning_rate", 0);
  EXPECT_TRUE(agrees(bench.check()));
  renamed(bench, "optimizer1.learning_rate", "optimizer0.learning_rate", 6);
  EXPECT_TRUE(agrees(bench.check())) << "both keep the promise";
  put(bench.run("a"), 1, 7, number("optimizer0.learning_rate", 0.5));
  EXPECT_TRUE(is_inconclusive(bench.check(), "2 optimizers"));
  put(bench.run("a"), 1, 2, integer("samples_taken", 99));
  EXPECT_TRUE(diverges_at(bench.check(), 2, Channel::kLedger, "samples_taken", 1));
}

TEST(Ledger, SeesATrainingThatStopsEarlyOrRunsOn) {
  Bench early(ledger_of());
  for (const std::int64_t rank : {0, 1}) erase_step(early.run("a"), rank, 11);
  EXPECT_TRUE(diverges_at(early.check(), 10, Channel::kLedger, "updates", 0));
  Bench late(ledger_of());
  late.scenario.variants[0].train.steps = 11;
  EXPECT_TRUE(diverges_at(late.check(), 11, Channel::kLedger, "updates", 0));
}

TEST(Ledger, IsInconclusiveWithoutALedger) {
  Bench nobody(ledger_of());
  erase_channel(nobody.run("a"), Channel::kLedger);
  EXPECT_TRUE(is_inconclusive(nobody.check()));
  EXPECT_TRUE(is_inconclusive(Bench(ledger_of({{"record", {{"channels", {"samples", "weight"}}}}})).check(),
                              "does not record"));
  Bench no_steps(ledger_of());
  for (trace::Trace& rank : no_steps.run("a").ranks) rank.steps.clear();
  EXPECT_TRUE(is_inconclusive(no_steps.check()));
  Bench no_size(ledger_of());
  no_size.run("a").ranks[0].header.erase("samples");
  EXPECT_TRUE(is_inconclusive(no_size.check(), "the number of samples"));
}

TEST(Ledger, WorksOnOneRank) {
  Json changes = ledger_of();
  changes["world_size"] = 1;
  Bench bench(changes);
  EXPECT_TRUE(agrees(bench.check()));
  put(bench.run("a"), 0, 1, integer("samples_taken", 23));
  EXPECT_TRUE(diverges_at(bench.check(), 1, Channel::kLedger, "samples_taken", 0));
}

}  // namespace
}  // namespace lockstep::test
