// Updates that part although their gradients agree: each planted mistake is named first, its neighbours are not.
#include <cmath>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::diagnosis {
namespace {

using test::at;
using test::Bench;
using test::kParameters;
using test::mixed;
using test::pair;
using test::put;
using trace::Channel;
using trace::Record;

std::string cause_in_update(const Bench& bench, std::int64_t step, Channel channel = Channel::kWeight,
                            std::int64_t rank = 0) {
  const char* tensor = channel == Channel::kOptimizer ? "fc.weight.momentum_buffer" : "fc.weight";
  return test::cause_named(bench, test::parted(step, channel, tensor, rank), suspects_in_update);
}

/// Ranks 0 and `rank` of "b" held against each other.
std::string cause_within(const Bench& bench, std::int64_t step, Channel channel, std::int64_t rank) {
  compare::Divergence where = test::parted(step, channel, "fc.weight", rank);
  where.left = {"b/0", 0};
  where.right = {"b/0", rank};
  return test::cause_named(bench, where, suspects_in_update);
}

TEST(UpdateCauses, AgreementHasNone) {
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    const Bench bench(pair(1, ranks));
    for (const Channel channel : {Channel::kOptimizer, Channel::kWeight, Channel::kBuffer, Channel::kEma}) {
      for (const std::int64_t step : {0, 1, 3}) EXPECT_EQ(cause_in_update(bench, step, channel), "") << ranks;
    }
  }
}

TEST(UpdateCauses, TrainingsThatBeginWithOtherWeights) {
  Bench bench(pair(2, 2));
  for (const std::int64_t rank : {0, 1}) test::spoil(bench.run("b"), rank, -1, Channel::kWeight, "fc.weight");
  EXPECT_EQ(cause_in_update(bench, -1), "init.weights");
  EXPECT_EQ(cause_in_update(bench, 0), "") << "they began alike, as far as this is asked";
}

TEST(UpdateCauses, AnEffectiveRateOfTheRanks) {
  for (const std::int64_t ranks : {2, 3, 4, 6}) {
    const auto w = static_cast<double>(ranks);
    for (const double factor : {w, 1 / w, std::sqrt(w), 1.3}) {
      for (const std::int64_t step : {0, 2}) {
        Bench bench(pair(1, ranks));
        test::Faults faults;
        faults.silent_rate = [&](std::int64_t at, double rate) { return at == step ? factor * rate : rate; };
        bench.rerun("b", faults);
        const bool named = factor != 1.3 && step == 0;  // later, it may be an update taken twice
        EXPECT_EQ(cause_in_update(bench, step), named ? "lr.scaled_wrongly" : "") << ranks << ", " << factor;
      }
    }
  }
}

/// The weights of "b" count in its momentum, and so in its update.
void decay(trace::RunTrace& run, std::int64_t step, double part) {
  for (std::int64_t rank = 0; rank < run.world_size(); ++rank) {
    for (const std::string name : kParameters) {
      const Record before = at(run, rank, step - 1, Channel::kWeight, name);
      const Record momentum = at(run, rank, step, Channel::kOptimizer, name + ".momentum_buffer");
      const Record after = at(run, rank, step, Channel::kWeight, name);
      put(run, rank, step, mixed({{1, &momentum}, {part, &before}}));
      put(run, rank, step, mixed({{1, &after}, {-0.1 * part, &before}}));
    }
  }
}

TEST(UpdateCauses, ADecayThatIsScaled) {
  for (const std::int64_t step : {0, 1, 3}) {
    for (const double part : {1e-3, 0.1}) {
      Bench bench(pair(1, 3));
      decay(bench.run("b"), step, part);
      EXPECT_EQ(cause_in_update(bench, step, Channel::kOptimizer), "opt.decay_scale") << step << ", " << part;
      EXPECT_EQ(cause_in_update(bench, step), "opt.decay_scale") << step << ", " << part;
    }
  }
  Json recipe = {{"optimizer", {{"weight_decay", 0.1}}}};
  Bench right(pair(1, 3, recipe));
  decay(right.run("a"), 0, 0.1);
  decay(right.run("b"), 0, 0.1);
  EXPECT_EQ(cause_in_update(right, 0), "") << "as the recipe says";
  Bench thrice(pair(1, 3, recipe));
  decay(thrice.run("a"), 0, 0.1);
  decay(thrice.run("b"), 0, 0.3);
  EXPECT_EQ(cause_in_update(thrice, 0), "opt.decay_scale");
}

// What one element more in the momentum looks like a decay of, a decay does not explain.
TEST(UpdateCauses, AnElementThatChangedIsNoDecay) {
  Bench bench(pair(1, 3));
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    const Record& weight = at(bench.run("b"), rank, 1, Channel::kWeight, kParameters[0]);
    std::vector<float> bump(32, 0);
    bump[3] = 1e-2F * static_cast<float>(*weight.norm);
    const Record more = test::floats(Channel::kOptimizer, "more", bump, {4, 8});
    const std::string name = std::string(kParameters[0]) + ".momentum_buffer";
    const Record momentum = at(bench.run("b"), rank, 2, Channel::kOptimizer, name);
    put(bench.run("b"), rank, 2, mixed({{1, &momentum}, {1, &more}}));
  }
  EXPECT_NE(cause_in_update(bench, 2, Channel::kOptimizer), "opt.decay_scale");
}

TEST(UpdateCauses, ADecayOfTheWeightsAlone) {
  Bench bench(pair(1, 3));
  for (std::int64_t rank = 0; rank < 3; ++rank) {
    for (const char* name : kParameters) {
      const Record before = at(bench.run("b"), rank, 0, Channel::kWeight, name);
      const Record after = at(bench.run("b"), rank, 1, Channel::kWeight, name);
      put(bench.run("b"), rank, 1, mixed({{1, &after}, {-0.01, &before}}));
    }
  }
  EXPECT_EQ(cause_in_update(bench, 1), "opt.decay_scale");
}

/// Eight elements may be a multiple of the weights by chance.
TEST(UpdateCauses, ADecayOfFewElementsHasNoName) {
  const auto of_elements = [](std::size_t count) {
    Bench bench(pair(1, 3));
    for (const char* name : {"a", "b"}) {
      trace::RunTrace& run = bench.run(name);
      for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient, Channel::kOptimizer})
        test::erase_channel(run, channel);
      std::vector<float> before(count), moved(count);
      for (std::size_t i = 0; i < count; ++i) {
        before[i] = 1 + static_cast<float>(i);
        moved[i] = before[i] - (i % 2 == 0 ? 0.5F : 0.25F);
      }
      const Record from = test::floats(Channel::kWeight, "fc.weight", before);
      const Record to = test::floats(Channel::kWeight, "fc.weight", moved);
      for (std::int64_t rank = 0; rank < run.world_size(); ++rank) {
        put(run, rank, 0, from);
        put(run, rank, 1, name == std::string("a") ? to : mixed({{1, &to}, {-0.01, &from}}));
        for (const std::int64_t step : {0, 1}) put(run, rank, step, at(run, rank, -1, Channel::kWeight, "fc.bias"));
      }
    }
    return cause_in_update(bench, 1);
  };
  EXPECT_EQ(of_elements(8), "");
  EXPECT_EQ(of_elements(9), "opt.decay_scale");
}

TEST(UpdateCauses, ARateInsideTheMomentum) {
  for (const std::int64_t last : {0, 3}) {
    Bench bench(pair(1, 3));
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (std::int64_t step = 0; step <= last; ++step) {
        for (const std::string name : kParameters) {
          Record& momentum = at(bench.run("b"), rank, step, Channel::kOptimizer, name + ".momentum_buffer");
          momentum = mixed({{0.1, &momentum}});
        }
      }
    }
    EXPECT_EQ(cause_in_update(bench, last, Channel::kOptimizer), "opt.momentum_correction");
  }
}

TEST(UpdateCauses, MomentumRescaledWithTheRate) {
  Bench bench(pair(1, 2, {{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}}));
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    for (const std::string name : kParameters) {
      const Record before = at(bench.run("b"), rank, 1, Channel::kOptimizer, name + ".momentum_buffer");
      Record& after = at(bench.run("b"), rank, 2, Channel::kOptimizer, name + ".momentum_buffer");
      after = mixed({{1, &after}, {-0.9 * 0.5, &before}});
    }
  }
  EXPECT_EQ(cause_in_update(bench, 2, Channel::kOptimizer), "opt.momentum_correction");
}

/// A rank's weights, as they were a step before.
void rest(trace::RunTrace& run, std::int64_t rank, std::int64_t step, bool with_state = true) {
  for (const char* name : kParameters) put(run, rank, step, at(run, rank, step - 1, Channel::kWeight, name));
  trace::Step& now = test::step_at(run, rank, step);
  if (with_state) std::erase_if(now.records, [](const auto& record) { return record.channel == Channel::kOptimizer; });
  for (const trace::Record& record : test::step_at(run, rank, step - 1).records) {
    if (with_state && record.channel == Channel::kOptimizer) now.records.push_back(record);
  }
}

TEST(UpdateCauses, WeightsThatDoNotMove) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    for (const std::int64_t step : {0, 2}) {
      Bench never(pair(1, ranks)), all(pair(1, ranks)), one(pair(1, ranks)), still(pair(1, ranks));
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        for (std::int64_t each = 0; each < 4; ++each) rest(never.run("b"), rank, each);
        rest(all.run("b"), rank, step);
      }
      EXPECT_EQ(cause_in_update(never, step), "opt.no_effect") << ranks;
      EXPECT_EQ(cause_in_update(all, step), "") << "what moves these tensors in another step holds them";
      rest(one.run("b"), ranks - 1, step);
      EXPECT_EQ(cause_in_update(one, step, Channel::kWeight, ranks - 1), ranks == 1 ? "" : "step.skip_disagree");
      Bench emptied(pair(1, ranks));
      rest(emptied.run("b"), ranks - 1, step, /*with_state=*/false);
      EXPECT_EQ(cause_in_update(emptied, step, Channel::kWeight, ranks - 1), "")
          << "a skipped update leaves its state alone";
      if (ranks > 1) {
        EXPECT_EQ(cause_within(one, step, Channel::kWeight, ranks - 1), "step.skip_disagree") << ranks;
      }
      for (std::int64_t rank = 0; rank < ranks; ++rank) {
        rest(still.run("b"), rank, step);
        put(still.run("b"), rank, step, test::number("learning_rate", 0));
      }
      EXPECT_EQ(cause_in_update(still, step), "") << "without a rate nothing moves";
    }
  }
}

/// Counters of rank 2 of "b" that are `count` after step 1; all are 1 after step 0, the others 2 after step 1.
std::string cause_of_counters(float count, bool rests = true) {
  Bench bench(pair(3, 3));
  if (rests) rest(bench.run("b"), 2, 1);
  for (const char* name : {"a", "b"}) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      const bool spoiled = std::string(name) == "b" && rank == 2;
      const auto put = [&](std::int64_t step, float value) {
        test::step_at(bench.run(name), rank, step)
            .records.push_back(test::floats(Channel::kOptimizer, "fc.weight.step", {value}));
      };
      put(0, 1);
      put(1, spoiled ? count : 2);
    }
  }
  const std::string within = cause_within(bench, 1, Channel::kOptimizer, 2);
  EXPECT_EQ(cause_in_update(bench, 1, Channel::kOptimizer), within);
  return within;
}

TEST(UpdateCauses, CountersThatLag) { EXPECT_EQ(cause_of_counters(1), "step.skip_disagree"); }

TEST(UpdateCauses, CountersThatRunAheadOrLagBehindTheirWeightsSkipNothing) {
  EXPECT_EQ(cause_of_counters(3, false), "");
  EXPECT_EQ(cause_of_counters(1, false), "");
}

/// Other bits in so many elements of a tensor of one rank.
void flip(Record& record, std::size_t elements, double by) {
  for (std::size_t i = 0; i < elements; ++i) record.sketch->buckets[(5 + 3 * i) % 32] += by;
  record.digest.low ^= 1;
}

TEST(UpdateCauses, FewElementsOfOneRank) {
  for (const std::int64_t ranks : {1, 2, 3, 4}) {
    for (const double by : {1e-3, 1e10, std::nan("")}) {
      for (const auto& [channel, name] :
           {std::pair(Channel::kWeight, "fc.weight"), {Channel::kOptimizer, "fc.weight.momentum_buffer"}}) {
        Bench few(pair(ranks, ranks)), many(pair(ranks, ranks));
        flip(at(few.run("b"), ranks - 1, 1, channel, name), 2, by);
        flip(at(many.run("b"), ranks - 1, 1, channel, name), 20, by);
        EXPECT_EQ(cause_in_update(few, 1, channel, ranks - 1), "hw.sdc_rank") << ranks << ", " << by;
        EXPECT_NE(cause_in_update(many, 1, channel, ranks - 1), "hw.sdc_rank") << ranks << ", " << by;
        if (ranks == 1 || channel != Channel::kWeight) continue;
        EXPECT_EQ(cause_within(few, 1, channel, ranks - 1), "hw.sdc_rank") << ranks << ", " << by;
        flip(at(few.run("b"), ranks - 1, 1, Channel::kGradient, "fc.bias"), 1, by);
        EXPECT_NE(cause_within(few, 1, channel, ranks - 1), "hw.sdc_rank") << "its gradient was another";
      }
    }
  }
}

/// Averages with a decay of one half.
void average(trace::RunTrace& run) {
  for (std::int64_t rank = 0; rank < run.world_size(); ++rank) {
    for (const char* name : kParameters) {
      Record mean = at(run, rank, 0, Channel::kWeight, name);
      mean.channel = Channel::kEma;
      for (std::int64_t step = 0; step < 4; ++step) {
        const Record weight = at(run, rank, step, Channel::kWeight, name);
        if (step > 0) mean = mixed({{0.5, &mean}, {0.5, &weight}});
        test::step_at(run, rank, step).records.push_back(mean);
      }
    }
  }
}

TEST(UpdateCauses, AveragesOfOneRank) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    Bench bench(pair(ranks, ranks, {{"ema", {{"decay", 0.5}}}}));
    average(bench.run("a"));
    average(bench.run("b"));
    EXPECT_EQ(cause_in_update(bench, 2, Channel::kEma), "");
    for (const char* name : kParameters)
      put(bench.run("b"), ranks - 1, 2, at(bench.run("b"), ranks - 1, 1, Channel::kEma, name));
    EXPECT_EQ(cause_in_update(bench, 2, Channel::kEma, ranks - 1), "ema.not_synced") << ranks;
    if (ranks > 1) {
      EXPECT_EQ(cause_within(bench, 2, Channel::kEma, ranks - 1), "ema.not_synced") << ranks;
    }
    EXPECT_EQ(cause_in_update(bench, 3, Channel::kEma, ranks - 1), "") << "this step averages as it should";
  }
}

/// Running means of 16 channels: of each rank's own batch, and of what is kept of the mean before.
void run_means(trace::RunTrace& run, bool broadcast, std::size_t root = 0) {
  const auto ranks = static_cast<std::size_t>(run.world_size());
  std::vector<std::vector<float>> means(ranks, std::vector<float>(16));
  for (std::int64_t step = 0; step < 4; ++step) {
    const std::vector<float> of_first = means[root];
    for (std::size_t rank = 0; rank < ranks; ++rank) {
      for (std::size_t i = 0; i < 16; ++i) {
        const float before = broadcast ? of_first[i] : means[rank][i];
        const double batch = std::sin(static_cast<double>((i + 1) * (rank + 2)) * static_cast<double>(step + 1));
        means[rank][i] = 0.9F * before + 0.1F * static_cast<float>(batch);
      }
      test::step_at(run, static_cast<std::int64_t>(rank), step)
          .records.push_back(test::floats(Channel::kBuffer, "bn.running_mean", means[rank]));
    }
  }
}

TEST(UpdateCauses, BuffersThatNobodyBroadcasts) {
  for (const std::int64_t ranks : {2, 3}) {
    Bench bench(pair(ranks, ranks)), synced(pair(ranks, ranks));
    run_means(bench.run("a"), true);
    run_means(bench.run("b"), false);
    EXPECT_EQ(cause_in_update(bench, 1, Channel::kBuffer, 1), "buffer.not_synced") << ranks;
    EXPECT_EQ(cause_within(bench, 1, Channel::kBuffer, 1), "buffer.not_synced") << ranks;
    run_means(synced.run("a"), true);
    run_means(synced.run("b"), true);
    EXPECT_EQ(cause_in_update(synced, 1, Channel::kBuffer, 1), "") << ranks;
    Bench rooted(pair(ranks, ranks));
    run_means(rooted.run("a"), true);
    run_means(rooted.run("b"), true, /*root=*/1);
    EXPECT_EQ(cause_in_update(rooted, 1, Channel::kBuffer), "") << "everybody has another rank's";
    bench.scenario.variants[1].train.model.options["norm"] = "batch";
    EXPECT_EQ(cause_within(bench, 1, Channel::kBuffer, 1), "model.batchnorm_local");
    Bench own(pair(1, ranks));
    own.scenario.variants[1].train.model.options["norm"] = "batch";
    for (const char* name : {"a", "b"}) run_means(own.run(name), true);
    EXPECT_EQ(cause_in_update(own, 1, Channel::kBuffer), "") << "each rank's are of its own batch";
  }
}

/// Statistics of all ranks' batch, synchronised by the layer, that one rank moves otherwise.
TEST(UpdateCauses, BuffersThatWereTheSameAndPartAreNoMatterOfABroadcast) {
  for (const bool broadcast : {true, false}) {
    Bench bench(pair(3, 3));
    for (const char* side : {"a", "b"}) {
      for (std::int64_t rank = 0; rank < 3; ++rank) {
        for (std::int64_t step = 0; step < 3; ++step) {
          const bool other = std::string(side) == "b" && rank == 2 && step == 2;
          test::step_at(bench.run(side), rank, step)
              .records.push_back(test::floats(Channel::kBuffer, "bn.running_mean",
                                              {1 + 0.1F * static_cast<float>(step), other ? 3.0F : 2.0F}));
        }
      }
    }
    for (scenario::Variant& variant : bench.scenario.variants) variant.train.ddp.broadcast_buffers = broadcast;
    EXPECT_EQ(cause_in_update(bench, 2, Channel::kBuffer, 2), broadcast ? "" : "buffer.not_synced");
  }
}

TEST(UpdateCauses, NothingRecordedNothingNamed) {
  Bench bench(pair(1, 3));
  rest(bench.run("b"), 0, 1);
  EXPECT_EQ(cause_in_update(bench, 1000), "");
  test::erase_channel(bench.run("b"), Channel::kGradient);
  test::erase_channel(bench.run("b"), Channel::kWeight);
  for (const Channel channel : {Channel::kOptimizer, Channel::kWeight, Channel::kBuffer, Channel::kEma})
    EXPECT_EQ(cause_in_update(bench, 1, channel), "");
  test::erase_step(bench.run("b"), 1, 0);
  EXPECT_EQ(cause_in_update(bench, 1), "");
}

}  // namespace
}  // namespace lockstep::diagnosis
