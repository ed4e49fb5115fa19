// Evaluations: which samples the ranks take, and what their metrics are means of.
#include <functional>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

Record metric(const std::string& name, double value) {
  Record record = test::number(name, value);
  record.channel = Channel::kMetric;
  return record;
}

Record ids(const std::string& name, const std::vector<std::int64_t>& taken) {
  Record record = test::integer(name, 0);
  record.shape = {static_cast<std::int64_t>(taken.size())};
  record.integers = taken;
  return record;
}

/// Five samples are held out of 25. Rank 0 has the losses 6 and 3 right of 3, rank 1 the losses 2 and 1 right of 2.
std::vector<Record> evaluated_by(std::size_t rank) {
  const bool is_first = rank == 0;
  return {metric("loss", 1.6),
          metric("accuracy", 0.8),
          ids("seen.evaluated ids",
              is_first ? std::vector<std::int64_t>{20, 22, 24} : std::vector<std::int64_t>{21, 23, 20}),
          test::number("seen.evaluated loss", is_first ? 6 : 2),
          test::integer("seen.evaluated correct", is_first ? 3 : 1),
          test::integer("seen.evaluated targets", is_first ? 3 : 2)};
}

using Changed = std::function<void(std::vector<std::vector<Record>>&)>;

Outcome evaluated(const Changed& change, const Json& evaluation = Json::object()) {
  std::vector<std::vector<Record>> records = {evaluated_by(0), evaluated_by(1)};
  change(records);
  trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(2), .unplaced = {}};
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    run.ranks[rank].rank = static_cast<std::int64_t>(rank);
    run.ranks[rank].header = {{"samples", 20}};
    run.ranks[rank].steps = {{.step = 0, .records = {}}, {.step = 1, .records = records[rank]}};
  }
  scenario::Promises promises{.world_size = 2};
  promises.train.evaluation = {
      .samples = 5,
      .every = 2,
      .batch = 4,
      .shares = recipe::named<recipe::Shares>(evaluation.value("shares", "trimmed")),
      .average = recipe::named<recipe::EvaluationAverage>(evaluation.value("average", "samples")),
      .reduce = recipe::named<recipe::EvaluationReduce>(evaluation.value("reduce", "all"))};
  return law_named("evaluation").judge(run, promises);
}

std::string broken_at(const Outcome& outcome) { return outcome.broken ? outcome.broken->at.tensor : ""; }

TEST(LawEvaluation, MetricsAreMeansOverWhatTheRanksCount) {
  const Outcome sound = evaluated([](auto&) {});
  EXPECT_TRUE(sound.holds());
  EXPECT_EQ(sound.judged, 8U) << "samples and the rest of a division, loss and accuracy, on both ranks";
  const auto with = [](std::size_t rank, const Record& record) {
    return evaluated([&](auto& records) {
      for (Record& one : records[rank]) {
        if (one.name == record.name) one = record;
      }
    });
  };
  EXPECT_EQ(broken_at(with(0, metric("loss", 0.8))), "loss") << "divided by the ranks again";
  EXPECT_EQ(broken_at(with(0, metric("loss", 2.0))), "loss") << "not reduced";
  EXPECT_EQ(broken_at(with(1, metric("accuracy", 0.8 + 1e-9))), "accuracy");
  EXPECT_EQ(with(1, metric("accuracy", 0.5)).broken->at.rank, 1);
  EXPECT_EQ(broken_at(with(1, test::integer("seen.evaluated targets", 3))), "loss") << "padding is counted";
}

TEST(LawEvaluation, EachRankTakesItsShare) {
  const auto taking = [](const std::vector<std::int64_t>& samples, const Json& evaluation) {
    return broken_at(evaluated([&](auto& records) { records[1][2] = ids("seen.evaluated ids", samples); }, evaluation));
  };
  EXPECT_EQ(taking({21, 23, 20}, Json::object()), "");
  EXPECT_EQ(taking({21, 23}, Json::object()), "seen.evaluated ids") << "no batch of padding";
  EXPECT_EQ(taking({20, 22, 19}, Json::object()), "seen.evaluated ids") << "a sample of the training";
  EXPECT_EQ(taking({23, 21, 20}, Json::object()), "seen.evaluated ids") << "another order";
  EXPECT_EQ(taking({20, 21, 22, 23, 24}, {{"shares", "all"}}), "seen.evaluated ids") << "rank 0 takes a share";
  EXPECT_EQ(taking({21, 23}, {{"shares", "leftovers"}}), "seen.evaluated ids") << "rank 0 takes the rest, too";
}

TEST(LawEvaluation, ARestIsAddedOnEachRank) {
  const auto with_rest = [](double loss) {
    return broken_at(evaluated(
        [&](auto& records) {
          for (std::size_t rank = 0; rank < 2; ++rank) {
            const auto first = static_cast<std::int64_t>(rank);
            records[rank] = {metric("loss", loss),
                             metric("accuracy", 0.8),
                             ids("seen.evaluated ids", {20 + first, 22 + first}),
                             test::number("seen.evaluated loss", 2),
                             test::integer("seen.evaluated correct", 2),
                             test::integer("seen.evaluated targets", 2),
                             ids("seen.evaluated_rest ids", {24}),
                             test::number("seen.evaluated_rest loss", 1),
                             test::integer("seen.evaluated_rest correct", 0),
                             test::integer("seen.evaluated_rest targets", 1)};
          }
        },
        {{"shares", "leftovers"}}));
  };
  EXPECT_EQ(with_rest(1), "");
  EXPECT_EQ(with_rest(1.25), "loss") << "the rest is left out of the count";
}

TEST(LawEvaluation, MeansOfRanksAndOfOneRankHaveTheirOwnForm) {
  const auto with_loss = [](const std::vector<double>& losses, const std::vector<double>& accuracies,
                            const Json& evaluation) {
    return broken_at(evaluated(
        [&](auto& records) {
          for (std::size_t rank = 0; rank < 2; ++rank) {
            records[rank][0] = metric("loss", losses[rank]);
            records[rank][1] = metric("accuracy", accuracies[rank]);
          }
        },
        evaluation));
  };
  EXPECT_EQ(with_loss({1.5, 1.5}, {0.75, 0.75}, {{"average", "ranks"}}), "");
  EXPECT_EQ(with_loss({3, 3}, {1.5, 1.5}, {{"average", "ranks"}}), "loss") << "the sum is not divided";
  EXPECT_EQ(with_loss({2, 1}, {1, 0.5}, {{"reduce", "none"}}), "");
  EXPECT_EQ(with_loss({1.6, 1.6}, {0.8, 0.8}, {{"reduce", "none"}}), "loss");
  EXPECT_EQ(with_loss({1.6, 2}, {0.8, 1}, {{"reduce", "root"}}), "") << "rank 1 holds no metric";
}

}  // namespace
}  // namespace lockstep::laws
