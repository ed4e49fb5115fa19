// Programs whose tensors lie in parts on several ranks: what is wrong with their reductions.
#include <gtest/gtest.h>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::diagnosis {
namespace {

using test::parted;
using trace::Channel;
using trace::Record;

/// Two programs "a" and "b" of two ranks that split tensors, and so compute one batch together.
struct Split : test::Bench {
  Split() : Bench(test::pair(2, 2)) {
    for (scenario::Variant& variant : scenario.variants) variant.known.emplace();
    for (const char* variant : {"a", "b"}) {
      for (trace::Trace& rank : run(variant).ranks) {
        rank.header["seen"]["ddp"] = {{"wrap", false}, {"sharded", true}};
        rank.header["data_parallel"] = {{"rank", 0}, {"size", 1}};
        for (trace::Step& step : rank.steps) {
          std::erase_if(step.records, [](const Record& record) { return record.channel == Channel::kGradientLocal; });
        }
      }
      for (std::int64_t step = 0; step < 2; ++step) {
        const Record loss = *run(variant).ranks[0].find(step)->find(Channel::kLoss, "local");
        replace(variant, 1, step, loss);
      }
    }
  }

  void replace(const std::string& variant, std::int64_t rank, std::int64_t step, const Record& record) {
    trace::Step& at = test::step_at(run(variant), rank, step);
    for (Record& old : at.records) {
      if (old.channel == record.channel && old.name == record.name) old = record;
    }
  }

  Record& gradient(const std::string& variant, std::int64_t rank, const char* name = "fc.bias") {
    return test::at(run(variant), rank, 1, Channel::kGradient, name);
  }

  void scale(const std::string& variant, double factor) {
    for (const std::int64_t rank : {0, 1}) gradient(variant, rank) = test::mixed({{factor, &gradient(variant, rank)}});
  }

  void reduce(const std::string& variant) {
    for (const std::int64_t rank : {0, 1})
      test::step_at(run(variant), rank, 1)
          .records.push_back(test::text(Channel::kCollective, "7", "allreduce Float[3] SUM"));
  }

  std::string cause() const {
    return test::cause_named(*this, parted(1, Channel::kGradient, "fc.bias"), suspects_in_sharded);
  }
};

/// Nobody adds what the ranks contribute to a tensor that each holds whole.
TEST(Sharded, WholeTensorsWhoseGradientsNobodyAdds) {
  Split split;
  split.gradient("b", 1) = test::mixed({{3, &split.gradient("b", 1)}});
  EXPECT_EQ(split.cause(), "grad.not_reduced");
  split.gradient("b", 1).layout = "tp=2: S(0)";
  split.gradient("b", 0).layout = "tp=2: S(0)";
  EXPECT_EQ(split.cause(), "") << "in parts: something else is wrong";
}

TEST(Sharded, OtherLossesMakeOtherGradients) {
  Split split;
  split.gradient("b", 1) = test::mixed({{3, &split.gradient("b", 1)}});
  split.replace("b", 1, 1, test::scalar(Channel::kLoss, "local", 123));
  EXPECT_EQ(split.cause(), "");
}

TEST(Sharded, GradientsThatAreReducedOnceMore) {
  for (const auto& [factor, expected] : {std::pair(2.0, "grad.reduce_sum"), std::pair(0.5, "grad.double_average")}) {
    Split split;
    split.scale("b", factor);
    EXPECT_EQ(split.cause(), "") << "nothing is reduced";
    split.reduce("b");
    EXPECT_EQ(split.cause(), expected);
    split.reduce("a");
    EXPECT_EQ(split.cause(), "") << "both reduce as often";
  }
  Split thrice;
  thrice.scale("b", 3);
  thrice.reduce("b");
  EXPECT_EQ(thrice.cause(), "") << "no number of ranks";
}

/// Each rank takes half of what it took.
void halve_batches(trace::RunTrace& run) {
  for (trace::Trace& rank : run.ranks) {
    for (trace::Step& step : rank.steps) {
      for (Record& record : step.records) {
        if (record.channel != Channel::kSamples) continue;
        const std::vector<std::int64_t> half(record.integers.begin(), record.integers.begin() + record.shape[0] / 2);
        record = test::integers(Channel::kSamples, record.name, half);
      }
    }
  }
}

/// One side divides the batch by the ranks, the other by the shares: two ranks compute one together.
TEST(Sharded, ABatchThatIsDividedByTheRanks) {
  const auto at = parted(0, Channel::kSamples, "ids");
  Split split;
  halve_batches(split.run("b"));
  EXPECT_EQ(test::cause_named(split, at, suspects_in_batch_size), "data.batch_semantics");
  Split alike;
  halve_batches(alike.run("a"));
  for (trace::Trace& rank : alike.run("a").ranks) rank.header.erase("data_parallel");
  EXPECT_EQ(test::cause_named(alike, at, suspects_in_batch_size), "") << "two halves are one batch";
}

}  // namespace
}  // namespace lockstep::diagnosis
