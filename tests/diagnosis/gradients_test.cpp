// Losses and gradients that part: each planted mistake is named first, and its neighbours are not taken for it.
#include <bit>
#include <cmath>

#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/gradient_terms_causes.h"

#include "tests/support/tiny/diagnosed.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::diagnosis {
namespace {

using test::Bench;
using test::kParameters;
using test::mixed;
using test::multiply;
using test::pair;
using trace::Channel;
using trace::Record;

std::string cause(const Bench& bench, std::int64_t step, Channel channel = Channel::kGradient,
                  const std::string& tensor = "fc.weight") {
  return test::cause_named(bench, test::parted(step, channel, tensor), suspects_in_gradients);
}

/// The gradients of a run, before and after the reduction, and its losses where asked for.
void scale_all(trace::RunTrace& run, std::int64_t first, double factor, bool losses = true) {
  multiply(run, first, Channel::kGradientLocal, factor);
  multiply(run, first, Channel::kGradient, factor);
  if (losses) multiply(run, first, Channel::kLoss, factor);
}

TEST(GradientCauses, AgreementHasNone) {
  for (const std::int64_t ranks : {1, 2, 3, 4, 6}) {
    const Bench bench(pair(1, ranks));
    for (const Channel channel : {Channel::kLoss, Channel::kGradientLocal, Channel::kGradient, Channel::kMetric})
      EXPECT_EQ(cause(bench, 1, channel), "") << ranks;
  }
}

TEST(GradientCauses, ALossTimesTheRanks) {
  for (const std::int64_t a : {1, 2}) {
    for (const std::int64_t ranks : {2, 3, 4, 6}) {
      for (const std::int64_t step : {0, 2}) {
        for (const bool losses : {true, false}) {
          Bench bench(pair(a, ranks));
          scale_all(bench.run("b"), step, static_cast<double>(ranks), losses);
          EXPECT_EQ(cause(bench, step), "loss.world_scale") << ranks;
          EXPECT_EQ(cause(bench, step, Channel::kLoss), "loss.world_scale") << ranks;
        }
      }
    }
  }
}

/// The same mistake on both sides shows as the ratio of their ranks.
TEST(GradientCauses, ALossTimesTheRanksOnBothSides) {
  Bench bench(pair(2, 6));
  scale_all(bench.run("a"), 0, 2);
  scale_all(bench.run("b"), 0, 6);
  EXPECT_EQ(cause(bench, 0), "loss.world_scale");
}

/// SUM for MEAN has the same ratio after the reduction, and is told by the law.
TEST(GradientCauses, ASumOfGradientsIsNoScaledLoss) {
  Bench bench(pair(1, 3));
  multiply(bench.run("b"), 0, Channel::kGradient, 3);
  EXPECT_EQ(cause(bench, 0), "grad.reduce_sum");
}

TEST(GradientCauses, AnyOtherFactorHasNoName) {
  Bench bench(pair(1, 3));
  scale_all(bench.run("b"), 0, 1.5);
  EXPECT_EQ(cause(bench, 0), "");
}

TEST(GradientCauses, MicroBatchesThatAreAdded) {
  for (const std::int64_t micro_batches : {2, 3}) {
    for (const std::int64_t ranks : {1, 2}) {
      Json setup = pair(ranks, ranks);
      setup["variants"]["b"]["train"] = {{"batch", {{"accumulation", micro_batches}}}};
      Bench bench(setup);
      scale_all(bench.run("b"), 1, static_cast<double>(micro_batches));
      EXPECT_EQ(cause(bench, 1), "grad.accum_scale") << micro_batches << ", " << ranks;
    }
  }
}

TEST(GradientCauses, OfSidesCutAlikeNothingAccusesTheLeftOne) {
  Bench bench(pair(2, 2, {{"batch", {{"accumulation", 3}}}}));
  scale_all(bench.run("a"), 1, 3);
  EXPECT_EQ(cause(bench, 1), "");
  Bench other_world(pair(1, 4, {{"batch", {{"accumulation", 3}}}}));
  scale_all(other_world.run("a"), 1, 3);
  EXPECT_EQ(cause(other_world, 1), "") << "they have the micro-batches in common";
  Bench right(pair(2, 2, {{"batch", {{"accumulation", 3}}}}));
  scale_all(right.run("b"), 1, 3);
  EXPECT_EQ(cause(right, 1), "grad.accum_scale");
}

/// A tiny training records one loss for all its micro-batches: the count is that of the recipe, or of the losses.
TEST(GradientCauses, ACountThatIsNotTheRanksOwn) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    Bench all(pair(1, ranks)), data(pair(1, ranks)), twice(pair(1, ranks));
    const auto w = static_cast<double>(ranks);
    scale_all(all.run("b"), 0, 1 / w);
    EXPECT_EQ(cause(all, 0), "loss.denominator_global") << ranks;
    scale_all(data.run("b"), 0, 12 / w / 24);
    EXPECT_EQ(cause(data, 0), "loss.denominator_global") << ranks;
    scale_all(twice.run("b"), 0, 1 / w, false);
    EXPECT_EQ(cause(twice, 0), "grad.double_average") << ranks;
  }
}

TEST(GradientCauses, GradientsThatPileUp) {
  for (const std::int64_t a : {1, 3}) {
    for (const std::int64_t ranks : {1, 2, 3, 4}) {
      for (const std::int64_t step : {1, 2}) {
        Bench bench(pair(a, ranks));
        trace::RunTrace& run = bench.run("b");
        for (std::int64_t rank = 0; rank < ranks; ++rank) {
          for (const char* name : kParameters) {
            const Record stood = test::at(run, rank, step - 1, Channel::kGradient, name);
            for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient}) {
              const Record fresh = test::at(run, rank, step, channel, name);
              test::put(run, rank, step, mixed({{1, &fresh}, {1, &stood}}));
            }
          }
        }
        EXPECT_EQ(cause(bench, step), "grad.not_zeroed") << a << ", " << ranks << ", " << step;
        EXPECT_EQ(cause(bench, step, Channel::kGradientLocal), "grad.not_zeroed") << a << ", " << ranks;
      }
    }
  }
}

TEST(GradientCauses, GradientsPileUpOnceToTwoPartsInAThousand) {
  const auto named = [](float times) {
    std::vector<float> fresh(32, 1), stood(32), sum(32);
    for (std::size_t i = 0; i < fresh.size(); ++i) {
      stood[i] = i % 2 == 0 ? 1.0F : -1.0F;
      sum[i] = fresh[i] + times * stood[i];
    }
    Bench bench(pair(1, 1));
    for (const char* run : {"a", "b"}) {
      const auto& own = run == std::string("a") ? fresh : sum;
      test::put(bench.run(run), 0, 0, test::floats(Channel::kGradient, "fc.weight", stood, {4, 8}));
      test::put(bench.run(run), 0, 1, test::floats(Channel::kGradientLocal, "fc.weight", own, {4, 8}));
    }
    return test::cause_named(bench, test::parted(1, Channel::kGradientLocal, "fc.weight"), suspects_in_gradient_terms);
  };
  for (const float sign : {1.0F, -1.0F}) {
    EXPECT_EQ(named(1 + sign * 1.9e-3F), "grad.not_zeroed") << sign;
    EXPECT_EQ(named(1 + sign * 2.1e-3F), "") << sign;
  }
}

TEST(GradientCauses, WeightsInTheGradients) {
  for (const double part : {0.01, 0.5}) {
    Bench bench(pair(1, 3));
    trace::RunTrace& run = bench.run("b");
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (const char* name : kParameters) {
        const Record weight = test::at(run, rank, 0, Channel::kWeight, name);
        for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient}) {
          const Record fresh = test::at(run, rank, 1, channel, name);
          test::put(run, rank, 1, mixed({{1, &fresh}, {part, &weight}}));
        }
      }
    }
    EXPECT_EQ(cause(bench, 1), "opt.decay_scale") << part;
  }
}

/// Gradients that differ by a part of the weights and by noise. All three are at right angles to each other.
TEST(GradientCauses, WeightsInTheGradientsExplainTenTimesWhatTheyLeave) {
  const auto named = [](float part, float noise) {
    std::vector<float> left(32, 1), weight(32), right(32);
    for (std::size_t i = 0; i < left.size(); ++i) {
      weight[i] = i % 2 == 0 ? 1.0F : -1.0F;
      right[i] = left[i] + part * weight[i] + (i % 4 < 2 ? noise : -noise);
    }
    Bench bench(pair(1, 1));
    for (const char* run : {"a", "b"}) {
      const auto& own = run == std::string("a") ? left : right;
      test::put(bench.run(run), 0, 0, test::floats(Channel::kWeight, "fc.weight", weight, {4, 8}));
      test::put(bench.run(run), 0, 1, test::floats(Channel::kGradientLocal, "fc.weight", own, {4, 8}));
    }
    return test::cause_named(bench, test::parted(1, Channel::kGradientLocal, "fc.weight"), suspects_in_gradient_terms);
  };
  EXPECT_EQ(named(0.0045F, 0.0005F), "") << "without the weights 9.1 times as much is left";
  EXPECT_EQ(named(0.0055F, 0.0005F), "opt.decay_scale") << "11.0 times";
}

TEST(GradientCauses, AnotherParametersGradient) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    Bench bench(pair(1, ranks));
    trace::RunTrace& run = bench.run("b");
    const double mean = 1 / static_cast<double>(ranks);
    std::vector<Record> first, second;
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      // Another of the same size, with numbers of its own.
      std::vector<float> numbers(32);
      for (std::size_t i = 0; i < numbers.size(); ++i)
        numbers[i] = static_cast<float>(std::sin(static_cast<double>(i * i) * static_cast<double>(rank + 1) + 1));
      second.push_back(test::floats(Channel::kGradientLocal, "up.weight", numbers, {4, 8}));
      first.push_back(test::at(run, rank, 1, Channel::kGradientLocal, "fc.weight"));
    }
    std::vector<std::pair<double, const Record*>> of_first, of_second;
    for (std::size_t rank = 0; rank < static_cast<std::size_t>(ranks); ++rank) {
      const bool swapped = rank + 1 == static_cast<std::size_t>(ranks);
      of_first.emplace_back(mean, swapped ? &second[rank] : &first[rank]);
      of_second.emplace_back(mean, swapped ? &first[rank] : &second[rank]);
    }
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      Record to_first = mixed(of_first), to_second = mixed(of_second);
      to_first.channel = to_second.channel = Channel::kGradient;
      to_first.name = "fc.weight";
      to_second.name = "up.weight";
      test::put(run, rank, 1, to_first);
      test::step_at(run, rank, 1).records.push_back(second[static_cast<std::size_t>(rank)]);
      test::step_at(run, rank, 1).records.push_back(to_second);
    }
    EXPECT_EQ(cause(bench, 1), "comm.order_mismatch") << ranks;
  }
}

/// Gradients of one rank, with the last bits of bfloat16 or float16 only.
void shorten(trace::RunTrace& run, std::int64_t rank, std::uint32_t mask, double error) {
  for (const char* name : kParameters) {
    Record& own = test::at(run, rank, 1, Channel::kGradientLocal, name);
    const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(*own.max_abs)) & mask;
    for (std::size_t i = 0; i < own.sketch->buckets.size(); ++i)
      own.sketch->buckets[i] *= 1 + (i % 3 == 0 ? error : -error);
    own.max_abs = std::bit_cast<float>(bits);
  }
}

TEST(GradientCauses, ADetourThatTheElementsShow) {
  Bench bench(pair(3, 3));
  compare::Divergence at = test::parted(1, Channel::kGradient, "fc.weight");
  EXPECT_EQ(test::cause_named(bench, at, suspects_in_gradients), "");
  at.detour = compare::Detour{.ranks = {1}};
  EXPECT_EQ(test::cause_named(bench, at, suspects_in_gradients), "fp.lowprec_accumulate");
  for (const std::size_t side : {0, 1}) {
    bench.scenario.variants[side].train.ddp.compression = recipe::Compression::kBf16;
    EXPECT_EQ(test::cause_named(bench, at, suspects_in_gradients), "") << "that is what a side asks for";
    bench.scenario.variants[side].train.ddp.compression = recipe::Compression::kNone;
  }
}

TEST(GradientCauses, AFactorOfShortNumbersIsNoRounding) {
  Bench bench(pair(3, 3));
  for (const char* run : {"a", "b"}) {
    for (std::int64_t rank = 0; rank < 3; ++rank) shorten(bench.run(run), rank, 0xffff0000U, 0);
  }
  multiply(bench.run("b"), 1, Channel::kGradientLocal, 1 + 0x1p-10);
  EXPECT_EQ(cause(bench, 1, Channel::kGradientLocal), "");
}

TEST(GradientCauses, OneRankInSixteenBits) {
  for (const auto& [mask, error] : {std::pair(0xffff0000U, 0x1p-9), {0xffffe000U, 0x1p-12}}) {
    for (const std::int64_t ranks : {1, 2, 3}) {
      Bench bench(pair(ranks, ranks)), loose(pair(ranks, ranks));
      shorten(bench.run("b"), ranks - 1, mask, error);
      // If all ranks do it, they may sum so; if one does, it computes so.
      EXPECT_EQ(cause(bench, 1, Channel::kGradientLocal), ranks > 1 ? "fp.precision_mode" : "fp.lowprec_accumulate");
      multiply(bench.run("b"), 1, Channel::kLoss, 1.001);
      EXPECT_EQ(cause(bench, 1, Channel::kLoss), "fp.precision_mode");
      shorten(loose.run("b"), ranks - 1, 0xffffffffU, error);
      EXPECT_EQ(cause(loose, 1, Channel::kGradientLocal), "") << "as far apart, with all their bits";
      Record& own = test::at(loose.run("b"), ranks - 1, 1, Channel::kGradientLocal, kParameters[0]);
      own.max_abs = std::bit_cast<float>(std::bit_cast<std::uint32_t>(static_cast<float>(*own.max_abs)) & mask);
      EXPECT_EQ(cause(loose, 1, Channel::kGradientLocal), "") << "one short number of two is chance";
    }
  }
}

TEST(GradientCauses, Clipping) {
  const double threshold = 0.25;
  const auto clipped = [&](double loss_scale, const std::vector<double>& norms) {
    Json train = {{"gradient", {{"clip_norm", threshold}}}};
    if (loss_scale != 1) train["gradient"]["loss_scale"] = loss_scale;
    const auto ranks = static_cast<std::int64_t>(norms.size());
    Bench bench(pair(ranks, ranks, train));
    for (const char* variant : {"a", "b"}) {
      trace::RunTrace& run = bench.run(variant);
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        double squares = 0;
        for (const char* name : kParameters)
          squares += std::pow(*test::at(run, rank, 1, Channel::kGradient, name).norm, 2);
        const double wanted = run.run == "b/0" ? norms[static_cast<std::size_t>(rank)] : threshold;
        for (const char* name : kParameters) {
          Record& reduced = test::at(run, rank, 1, Channel::kGradient, name);
          Record last = mixed({{wanted == 0 ? 1 : wanted / std::sqrt(squares), &reduced}});
          reduced = mixed({{loss_scale, &reduced}});
          Record& own = test::at(run, rank, 1, Channel::kGradientLocal, name);
          own = mixed({{loss_scale, &own}});
          last.name = std::string("clipped ") + name;
          test::step_at(run, rank, 1).records.push_back(last);
        }
      }
    }
    return cause(bench, 1, Channel::kGradient, "clipped fc.bias");
  };
  EXPECT_EQ(clipped(1, {0.25, 0.25, 0.25}), "");
  EXPECT_EQ(clipped(1, {0.25, 0, 0.25}), "clip.rank_subset");
  EXPECT_EQ(clipped(1, {0.25, 0}), "clip.rank_subset");
  EXPECT_EQ(clipped(1, {0, 0, 0}), "clip.no_effect");
  EXPECT_EQ(clipped(1, {0}), "clip.no_effect");
  EXPECT_EQ(clipped(1024, {0.25 / 1024, 0.25 / 1024}), "clip.before_unscale");
  EXPECT_EQ(clipped(1024, {0.25, 0.25}), "");
  EXPECT_EQ(clipped(1, {0.2, 0.2}), "") << "another threshold";
}

TEST(GradientCauses, NothingRecordedNothingNamed) {
  Bench bench(pair(1, 3));
  scale_all(bench.run("b"), 0, 3);
  EXPECT_EQ(cause(bench, 1000), "");
  test::erase(bench.run("b"), 1, 0, Channel::kGradientLocal, "fc.bias");
  EXPECT_EQ(cause(bench, 0, Channel::kLoss), "");
  test::erase_channel(bench.run("b"), Channel::kGradientLocal);
  EXPECT_EQ(cause(bench, 0), "");
  compare::Divergence golden = test::parted(0, Channel::kGradient, "fc.weight");
  golden.left = "golden";
  EXPECT_EQ(test::cause_named(bench, golden, suspects_in_gradients), "");
}

}  // namespace
}  // namespace lockstep::diagnosis
