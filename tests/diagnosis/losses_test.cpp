// Losses that part: unequal parts that weigh alike, and sums that are divided by something else.
#include <memory>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::diagnosis {
namespace {

using test::Bench;
using test::multiply;
using test::pair;
using trace::Channel;
using trace::Record;

std::string cause_in_losses(const Bench& bench, std::int64_t step, Channel channel = Channel::kGradient,
                            const std::string& tensor = "fc.weight") {
  return test::cause_named(bench, test::parted(step, channel, tensor), suspects_in_gradients);
}

/// A sample less on one rank, and the same one less on the only rank of the other side.
std::unique_ptr<Bench> with_short_batch(std::int64_t ranks, std::int64_t step, std::int64_t short_rank) {
  auto bench = std::make_unique<Bench>(pair(1, ranks));
  std::int64_t gone = -1;
  test::Faults on_b, on_a;
  on_b.ids = [&](std::int64_t at, std::int64_t rank, std::vector<std::int64_t>& ids) {
    if (at != step || rank != short_rank) return;
    gone = ids.back();
    ids.pop_back();
  };
  bench->rerun("b", on_b);
  on_a.ids = [&](std::int64_t at, std::int64_t, std::vector<std::int64_t>& ids) {
    if (at == step) std::erase(ids, gone);
  };
  bench->rerun("a", on_a);
  return bench;
}

TEST(LossCauses, UnequalShares) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    for (const std::int64_t short_rank : {std::int64_t{0}, ranks - 1}) {
      const auto made = with_short_batch(ranks, 1, short_rank);
      const Bench& bench = *made;
      EXPECT_EQ(cause_in_losses(bench, 1), "loss.unweighted_partial") << ranks;
      EXPECT_EQ(cause_in_losses(bench, 1, Channel::kLoss, "reduced"), "loss.unweighted_partial") << ranks;
      EXPECT_EQ(cause_in_losses(bench, 0), "") << "equal shares weigh alike";
    }
  }
}

TEST(LossCauses, UnequalTargets) {
  const auto made = with_short_batch(3, 1, 2);
  Bench& bench = *made;
  // The samples are as many; what is missing is one sample's targets.
  for (const char* name : {"a", "b"}) {
    trace::RunTrace& run = bench.run(name);
    for (trace::Trace& rank : run.ranks) {
      trace::Step& step = test::step_at(run, rank.rank, 1);
      Record& ids = test::at(run, rank.rank, 1, Channel::kSamples, "ids");
      const auto targets = static_cast<std::int64_t>(ids.integers.size());
      ids = test::integers(Channel::kSamples, "ids", std::vector<std::int64_t>(run.world_size() == 1 ? 12 : 4));
      step.records.push_back(test::integer("targets", 5 * targets));
    }
  }
  EXPECT_EQ(cause_in_losses(bench, 1), "loss.token_weighting_rank");
}

/// Two micro-batches' mean losses in the trace of "b", and what "a" makes of them.
std::unique_ptr<Bench> with_micro_losses(double first, double second, double truth) {
  Json setup = pair(1, 1);
  setup["variants"]["b"]["train"] = {{"batch", {{"accumulation", 2}}}};
  auto made = std::make_unique<Bench>(setup);
  Bench& bench = *made;
  for (const char* name : {"a", "b"}) {
    trace::RunTrace& run = bench.run(name);
    trace::Step& step = test::step_at(run, 0, 1);
    const bool whole = run.run == "a/0";
    std::erase_if(step.records, [](const Record& r) { return r.channel == Channel::kLoss || r.name == "x"; });
    const auto add = [&](const char* loss, double value, const char* input, std::int64_t rows) {
      step.records.push_back(test::scalar(Channel::kLoss, loss, static_cast<float>(value)));
      if (rows > 0)
        step.records.push_back(
            test::floats(Channel::kInput, input, std::vector<float>(static_cast<std::size_t>(rows)), {rows, 1}));
    };
    if (whole) {
      add("local", truth, "x", 12);
    } else {
      add("local.0", first / 2, "x.0", 8);
      add("local.1", second / 2, "x.1", 4);
    }
    add("reduced", whole ? truth : (first + second) / 2, "", 0);
  }
  return made;
}

TEST(LossCauses, UnequalMicroBatches) {
  EXPECT_EQ(cause_in_losses(*with_micro_losses(2.5, 1.25, (2.5 * 8 + 1.25 * 4) / 12), 1, Channel::kLoss),
            "loss.unweighted_partial");
  EXPECT_EQ(cause_in_losses(*with_micro_losses(2.5, 1.25, 2.0), 1, Channel::kLoss), "");
  EXPECT_EQ(cause_in_losses(*with_micro_losses(2.5, 1.25, (2.5 + 1.25) / 2), 1, Channel::kLoss), "");
}

TEST(LossCauses, UnequalTargetsOfMicroBatches) {
  const auto with_targets = [](double first, double second, double truth) {
    auto made = with_micro_losses(first, second, truth);
    for (const char* name : {"a", "b"})
      test::step_at(made->run(name), 0, 1).records.push_back(test::integer("targets", 41));
    return made;
  };
  EXPECT_EQ(cause_in_losses(*with_targets(2.5, 1.25, (2.5 * 30 + 1.25 * 11) / 41), 1, Channel::kLoss),
            "loss.token_weighting");
  EXPECT_EQ(cause_in_losses(*with_targets(2.5, 1.25, (2.5 * 30.4 + 1.25 * 10.6) / 41), 1, Channel::kLoss), "");
  EXPECT_EQ(cause_in_losses(*with_targets(2.5, 1.25, 3), 1, Channel::kLoss), "");
}

TEST(LossCauses, ALossDividedByDevices) {
  for (const std::int64_t ranks : {2, 3, 4, 6}) {
    for (const double divisor : {1.0, 2.0, 5.0}) {
      if (divisor == static_cast<double>(ranks)) continue;
      Bench bench(pair(1, ranks));
      multiply(bench.run("b"), 0, Channel::kLoss, static_cast<double>(ranks) / divisor, "reduced");
      EXPECT_EQ(cause_in_losses(bench, 0, Channel::kLoss, "reduced"), "loss.metric_divisor") << ranks << "/" << divisor;
    }
  }
  Bench bench(pair(1, 3));
  multiply(bench.run("b"), 0, Channel::kLoss, 1.1, "reduced");
  EXPECT_EQ(cause_in_losses(bench, 0, Channel::kLoss, "reduced"), "");
}

TEST(LossCauses, MetricsDividedByDevices) {
  const auto with_metrics = [](double loss, double accuracy) {
    auto made = std::make_unique<Bench>(pair(1, 3));
    Bench& bench = *made;
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (const auto& [name, value] : {std::pair("loss", loss), {"accuracy", accuracy}}) {
        Record its = test::scalar(Channel::kMetric, name, static_cast<float>(value));
        test::step_at(bench.run("b"), rank, 1).records.push_back(its);
        its.number = 0.5;
        if (rank == 0) test::step_at(bench.run("a"), 0, 1).records.push_back(its);
      }
    }
    return made;
  };
  EXPECT_EQ(cause_in_losses(*with_metrics(1.5, 1.5), 1, Channel::kMetric, "loss"), "loss.metric_divisor");
  EXPECT_EQ(cause_in_losses(*with_metrics(0.75, 0.75), 1, Channel::kMetric, "loss"), "loss.metric_divisor");
  EXPECT_EQ(cause_in_losses(*with_metrics(1.5, 0.75), 1, Channel::kMetric, "loss"), "");
  EXPECT_EQ(cause_in_losses(*with_metrics(0.6, 0.6), 1, Channel::kMetric, "loss"), "") << "a divisor of 2.5";
}

}  // namespace
}  // namespace lockstep::diagnosis
