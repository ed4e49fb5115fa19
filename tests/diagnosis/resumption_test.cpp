// Causes of a training that does not go on where it stopped: each planted fault is named first, its neighbours are not.
#include <bit>
#include <cmath>
#include <random>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/suspected.h"

namespace lockstep::test {
namespace {

using diagnosis::suspects_in_resumption;
using trace::Channel;

constexpr std::int64_t kSteps = 14;

/// So many updates on 36 samples, 3 updates an epoch; stopped after some and gone on with.
Json stopped(std::int64_t after, std::int64_t ranks = 2) {
  return {
      {"world_size", ranks},
      {"train",
       {{"steps", kSteps}, {"data", {{"size", 36}}}, {"schedule", {{"kind", "step"}, {"every", 4}, {"gamma", 0.5}}}}},
      {"variants",
       {{"straight", Json::object()},
        {"half", {{"train", {{"steps", after}, {"checkpoint", {{"save_after", after}}}}}}},
        {"resumed", {{"train", {{"checkpoint", {{"load", {{"from", "half"}}}}}}}}}}},
      {"checks",
       {{{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}},
        {{"that", "ledger"}, {"variants", {"resumed"}}}}}};
}

/// A training that went on without a flaw, to be spoiled.
class Stopped : public Bench {
 public:
  explicit Stopped(std::int64_t after, std::int64_t ranks = 2) : Bench(stopped(after, ranks)), saved(after - 1) {
    run("resumed") = resumed_from(run("straight"), after, "resumed/0");
  }

  std::string named(std::size_t check = 0) const {
    return first_cause(suspects_of(*this, suspects_in_resumption, check));
  }

  /// From its first update on, the resumed run has records that the straight one has so many steps later.
  void shift(std::int64_t steps, Channel channel, const std::string& name) {
    for (std::int64_t rank = 0; rank < run("straight").world_size(); ++rank) {
      for (std::int64_t step = saved + 1; step < kSteps; ++step) {
        if (step + steps < kSteps)
          put(run("resumed"), rank, step, at(run("straight"), rank, step + steps, channel, name));
      }
    }
  }

  /// The state after loading, on these ranks, is that of another step.
  void load(std::int64_t step, Channel channel, const std::string& name, std::int64_t from_rank = 0) {
    for (std::int64_t rank = from_rank; rank < run("straight").world_size(); ++rank)
      put(run("resumed"), rank, saved, at(run("straight"), rank, step, channel, name));
  }

  void add(const std::string& side, std::int64_t rank, std::int64_t step, const trace::Record& record) {
    step_at(run(side), rank, step).records.push_back(record);
  }

  std::int64_t saved;
};

/// Asked although nothing parts: no part of a flawless resumption fits any cause.
TEST(ResumptionCauses, NoneWhereNothingWasLost) {
  for (const std::int64_t after : {4, 5, 6}) {
    Stopped bench(after);
    EXPECT_TRUE(agrees(bench.check()));
    const diagnosis::Question question = bench.question();
    for (const Channel channel : {Channel::kSamples, Channel::kRng, Channel::kGradient, Channel::kOptimizer,
                                  Channel::kWeight, Channel::kLedger}) {
      for (const std::int64_t step : {bench.saved, bench.saved + 1}) {
        if (channel == Channel::kRng && step > bench.saved) continue;  // what parts there has one cause only
        const compare::Divergence at{
            .step = step, .channel = channel, .tensor = "x", .left = "straight/0", .right = "resumed/0"};
        EXPECT_EQ(first_cause(suspects_in_resumption(diagnosis::Scene(question, at))), "") << trace::name_of(channel);
      }
    }
  }
}

TEST(ResumptionCauses, TheEpochBeginsAnew) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    Stopped bench(5, ranks);
    bench.shift(-2, Channel::kSamples, "ids");
    EXPECT_EQ(bench.named(), "data.resume_restart") << ranks;
    bench.shift(-5, Channel::kSamples, "ids");
    EXPECT_EQ(bench.named(), "data.resume_restart") << "with the first epoch";
  }
  Stopped boundary(6);
  boundary.shift(-3, Channel::kSamples, "ids");
  EXPECT_EQ(boundary.named(), "data.resume_restart") << "an epoch is trained twice";
}

/// No straight run there: the closed form of the ledger, and the epoch itself.
TEST(ResumptionCauses, TheEpochBeginsAnewByTheLedgerAlone) {
  Stopped bench(5);
  bench.shift(-2, Channel::kSamples, "ids");
  bench.shift(-2, Channel::kLedger, "epoch");
  EXPECT_EQ(bench.named(1), "data.resume_restart");
  Stopped counter(5);
  put(counter.run("resumed"), 0, 6, integer("epoch", 7));
  EXPECT_EQ(counter.named(1), "") << "a wrong number of the epoch is no restart";
}

/// With a constant rate every shift explains the other steps, and none the one that differs.
TEST(ResumptionCauses, AnotherRateInTheLastStepIsNoShift) {
  Stopped bench(5);
  const std::int64_t last = bench.run("resumed").ranks[0].steps.back().step;
  for (const trace::Step& step : bench.run("straight").ranks[0].steps) {
    for (const char* run : {"straight", "resumed"}) {
      const bool has = bench.run(run).ranks[0].find(step.step) != nullptr && step.step >= 0;
      const double rate = std::string(run) == "resumed" && step.step == last ? 0.1001 : 0.1;
      for (std::int64_t rank = 0; has && rank < bench.run(run).world_size(); ++rank) {
        trace::Step& held = step_at(bench.run(run), rank, step.step);
        if (held.find(Channel::kLedger, "learning_rate") != nullptr)
          put(bench.run(run), rank, step.step, scalar(Channel::kLedger, "learning_rate", rate));
      }
    }
  }
  EXPECT_EQ(bench.named(), "");
}

TEST(ResumptionCauses, OffByOne) {
  for (const std::int64_t shift : {-1, 1}) {
    Stopped bench(5);
    bench.shift(shift, Channel::kSamples, "ids");
    EXPECT_EQ(bench.named(), "ckpt.off_by_one") << shift;
    Stopped rates(5);
    rates.shift(shift, Channel::kLedger, "learning_rate");
    EXPECT_EQ(rates.named(), "ckpt.schedule_position") << shift;
    Stopped counter(5);
    counter.run("resumed") = resumed_from(counter.run("straight"), 5 + shift, "resumed/0");
    EXPECT_EQ(counter.named(), "ckpt.off_by_one") << shift;
    Stopped state(5);
    state.load(4 + shift, Channel::kWeight, "fc.weight");
    EXPECT_EQ(state.named(), "") << "half of a checkpoint: " << shift;
    state.load(4 + shift, Channel::kWeight, "fc.bias");
    EXPECT_EQ(state.named(), "ckpt.off_by_one") << shift;
  }
}

/// A loop without a loader: items have numbers, and no ids.
TEST(ResumptionCauses, OffByOneByItemsAlone) {
  for (const std::int64_t shift : {-1, 0, 1, 2}) {
    Stopped bench(5);
    for (const char* run : {"straight", "resumed"}) {
      for (trace::Trace& rank : bench.run(run).ranks) {
        for (trace::Step& step : rank.steps) {
          std::erase_if(step.records, [](const trace::Record& record) { return record.channel == Channel::kSamples; });
          const std::int64_t taken = step.step + (run == std::string("resumed") ? shift : 0);
          if (step.step > bench.saved || run == std::string("straight"))
            step.records.push_back(integers(Channel::kSamples, "items", {rank.rank, 7 * taken}));
        }
      }
    }
    EXPECT_EQ(bench.named(), shift == -1 || shift == 1 ? "ckpt.off_by_one" : "") << shift;
  }
}

TEST(ResumptionCauses, AnEpochWithoutABatch) {
  Stopped skips(6);
  skips.shift(3, Channel::kSamples, "ids");
  EXPECT_EQ(skips.named(), "data.resume_empty_epoch");
  const auto shorter = [](std::int64_t after) {
    Stopped bench(after);
    for (const std::int64_t rank : {0, 1}) {
      for (std::int64_t step = 11; step < kSteps; ++step) erase_step(bench.run("resumed"), rank, step);
    }
    return bench.named();
  };
  EXPECT_EQ(shorter(6), "data.resume_empty_epoch");
  EXPECT_EQ(shorter(5), "") << "too short, but stopped within an epoch";
}

TEST(ResumptionCauses, AnOrderThatNobodyBegan) {
  Stopped next(5);
  next.shift(3, Channel::kSamples, "ids");
  EXPECT_EQ(next.named(), "data.resume_generator_late");
  Stopped bench(4);
  for (const std::int64_t rank : {0, 1}) {
    for (const std::int64_t step : {4, 5}) {
      auto ids = at(bench.run("straight"), rank, step, Channel::kSamples, "ids").integers;
      for (std::int64_t& id : ids) id = (id * 5 + 1) % 36;
      put(bench.run("resumed"), rank, step, integers(Channel::kSamples, "ids", ids));
    }
  }
  EXPECT_EQ(bench.named(), "data.resume_generator_late");
}

TEST(ResumptionCauses, OneOtherSampleHasNoName) {
  Stopped bench(4);
  auto ids = at(bench.run("straight"), 1, 4, Channel::kSamples, "ids").integers;
  ids[2] = at(bench.run("straight"), 1, 3, Channel::kSamples, "ids").integers[0];
  put(bench.run("resumed"), 1, 4, integers(Channel::kSamples, "ids", ids));
  EXPECT_EQ(bench.check().status, Status::kDivergence);
  EXPECT_EQ(bench.named(), "");
}

TEST(ResumptionCauses, TheOptimizersState) {
  const auto lose = [](Stopped& bench, const std::string& side) {
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      for (const char* name : {"fc.bias.momentum_buffer", "fc.weight.momentum_buffer"})
        erase(bench.run(side), rank, bench.saved, Channel::kOptimizer, name);
    }
  };
  Stopped applied(5);
  lose(applied, "resumed");
  EXPECT_EQ(applied.named(), "ckpt.opt_not_applied");
  Stopped missing(5);
  lose(missing, "resumed");
  lose(missing, "half");
  EXPECT_EQ(missing.named(), "ckpt.opt_missing");
  Stopped zero(5);
  for (const std::int64_t rank : {0, 1})
    put(zero.run("resumed"), rank, zero.saved, floats(Channel::kOptimizer, "fc.bias.momentum_buffer", {0, 0, 0, 0}));
  EXPECT_EQ(zero.named(), "ckpt.opt_not_applied");
  Stopped other(5);
  for (const std::int64_t rank : {0, 1})
    put(other.run("resumed"), rank, other.saved, floats(Channel::kOptimizer, "fc.bias.momentum_buffer", {1, 2, 3, 4}));
  EXPECT_EQ(other.named(), "") << "wrong, but neither zero nor absent";
  Stopped counter(5);
  for (const std::int64_t rank : {0, 1}) {
    for (const char* side : {"straight", "half"})
      counter.add(side, rank, counter.saved, floats(Channel::kOptimizer, "fc.bias.step", {5}));
    counter.add("resumed", rank, counter.saved, floats(Channel::kOptimizer, "fc.bias.step", {0}));
  }
  EXPECT_EQ(counter.check().status, Status::kDivergence);
  EXPECT_EQ(counter.named(), "") << "its momentum is restored";
}

TEST(ResumptionCauses, ScheduleAndCounters) {
  Stopped rates(5);
  rates.shift(-5, Channel::kLedger, "learning_rate");
  EXPECT_EQ(rates.named(), "ckpt.schedule_missing");
  Stopped constant(5);
  for (std::int64_t step = 5; step < kSteps; ++step) {
    for (const std::int64_t rank : {0, 1}) put(constant.run("resumed"), rank, step, number("learning_rate", 0.1));
  }
  EXPECT_EQ(constant.named(), "ckpt.schedule_missing");
  Stopped taken(5);
  taken.shift(-5, Channel::kLedger, "samples_taken");
  EXPECT_EQ(taken.named(), "ckpt.schedule_missing");
  Stopped other(5);
  for (std::int64_t step = 5; step < kSteps; ++step) {
    for (const std::int64_t rank : {0, 1}) put(other.run("resumed"), rank, step, number("learning_rate", 0.3));
  }
  EXPECT_EQ(other.named(), "") << "a rate of its own";
}

TEST(ResumptionCauses, ACounterThatBeginsAtZero) {
  Stopped bench(5);
  auto& run = bench.run("resumed");
  run = bench.run("straight");
  run.run = "resumed/0";
  EXPECT_EQ(bench.named(), "") << "nothing at all was loaded";
  for (const std::int64_t rank : {0, 1})
    put(run, rank, -1, at(bench.run("straight"), rank, 4, Channel::kWeight, "fc.weight"));
  EXPECT_EQ(bench.named(), "ckpt.schedule_missing");
}

float through(float value, int bits) {
  int exponent = 0;
  const float scaled = std::ldexp(std::frexp(value, &exponent), bits);
  return std::ldexp(std::nearbyint(scaled), exponent - bits);
}

/// The name of what `change` makes of every element of a state that was saved.
template <typename Change>
std::string after(Channel channel, const std::string& name, Change change) {
  Stopped bench(5);
  std::mt19937 random(3);
  std::normal_distribution<float> normal(0, 0.1F);
  std::vector<float> saved(4000);
  for (float& value : saved) value = normal(random);
  std::vector<float> loaded = saved;
  for (float& value : loaded) value = change(value, normal(random));
  for (const std::int64_t rank : {0, 1}) {
    put(bench.run("straight"), rank, bench.saved, floats(channel, name, saved));
    put(bench.run("resumed"), rank, bench.saved, floats(channel, name, loaded));
  }
  return bench.named();
}

TEST(ResumptionCauses, StateThroughANarrowerFormat) {
  for (const int bits : {8, 11}) {
    const auto cast = [&](float value, float) { return through(value, bits); };
    EXPECT_EQ(after(Channel::kWeight, "fc.weight", cast), "ckpt.dtype_cast") << bits;
    EXPECT_EQ(after(Channel::kOptimizer, "fc.weight.momentum_buffer", cast), "ckpt.dtype_cast") << bits;
  }
  for (const float size : {0x1p-22F, 0x1p-10F, 0x1p-13F, 1.0F}) {
    const auto noise = [&](float value, float other) { return value + size * other; };
    EXPECT_EQ(after(Channel::kWeight, "fc.weight", noise), "") << size;
  }
  Stopped other(5);
  auto record = at(other.run("resumed"), 0, 4, Channel::kWeight, "fc.weight");
  record.dtype = trace::DType::kFloat64;
  put(other.run("resumed"), 0, 4, record);
  EXPECT_EQ(other.named(), "ckpt.dtype_cast");
}

TEST(ResumptionCauses, WeightsThatWereNotLoaded) {
  for (const std::int64_t ranks : {1, 2, 3}) {
    Stopped some(5, ranks);
    some.load(-1, Channel::kWeight, "fc.bias");
    EXPECT_EQ(some.named(), "ckpt.keys_dropped") << ranks;
    some.load(-1, Channel::kWeight, "fc.weight");
    EXPECT_EQ(some.named(), "ckpt.keys_dropped") << ranks;
    if (ranks == 1) continue;
    Stopped others(5, ranks);
    others.load(-1, Channel::kWeight, "fc.bias", 1);
    others.load(-1, Channel::kWeight, "fc.weight", 1);
    EXPECT_EQ(others.named(), "ckpt.load_rank0_only") << ranks;
  }
}

TEST(ResumptionCauses, OneRankOfSeveralThatLostItsStateIsNotAllButRankZero) {
  for (const std::int64_t rank : {1, 2}) {
    Stopped bench(5, 3);
    trace::Record zero = at(bench.run("resumed"), rank, 4, Channel::kOptimizer, "fc.weight.momentum_buffer");
    zero = floats(Channel::kOptimizer, zero.name, std::vector<float>(32, 0), zero.shape);
    put(bench.run("resumed"), rank, 4, zero);
    EXPECT_EQ(bench.named(), "ckpt.opt_not_applied") << rank;
  }
}

TEST(ResumptionCauses, RankZeroAloneByItsOwnRun) {
  for (const std::int64_t ranks : {2, 3, 4}) {
    Json changes = stopped(5, ranks);
    changes["checks"] = {{{"that", "ranks_agree"}, {"variants", {"resumed"}}}};
    Bench bench(changes);
    auto& run = bench.run("resumed");
    run = resumed_from(bench.run("straight"), 5, "resumed/0");
    for (std::int64_t rank = 1; rank < ranks; ++rank) {
      for (const char* name : {"fc.bias", "fc.weight"})
        put(run, rank, 4, at(bench.run("straight"), rank, -1, Channel::kWeight, name));
    }
    EXPECT_EQ(first_cause(suspects_of(bench, suspects_in_resumption)), "ckpt.load_rank0_only") << ranks;
    bench.runs.erase("straight");
    bench.runs.erase("half");
    EXPECT_EQ(first_cause(suspects_of(bench, suspects_in_resumption)), "ckpt.load_rank0_only") << ranks;
    for (std::int64_t rank = 1; rank < ranks; ++rank) put(run, rank, 4, at(run, 0, 4, Channel::kWeight, "fc.bias"));
    EXPECT_EQ(first_cause(suspects_of(bench, suspects_in_resumption)), "") << "the others loaded a part";
  }
}

TEST(ResumptionCauses, Generators) {
  Stopped missing(5);
  missing.load(-1, Channel::kRng, "cpu");
  EXPECT_EQ(missing.named(), "ckpt.rng_missing");
  Stopped early(5);
  put(early.run("resumed"), 1, 4, text(Channel::kRng, "cpu", "x"));
  EXPECT_EQ(early.named(), "ckpt.rng_order") << "neither the saved state nor the first one";
  Stopped late(5);
  for (std::int64_t step = 5; step < kSteps; ++step) put(late.run("resumed"), 1, step, text(Channel::kRng, "cpu", "x"));
  EXPECT_EQ(late.named(), "ckpt.rng_order");
  Stopped reseeded(5);
  at(reseeded.run("straight"), 1, 4, Channel::kRng, "cpu").integers = {3, 20};
  trace::Record other = text(Channel::kRng, "cpu", "x");
  other.integers = {1234, 1};
  put(reseeded.run("resumed"), 1, 4, other);
  EXPECT_EQ(reseeded.named(), "ckpt.rng_missing") << "another seed";
  at(reseeded.run("resumed"), 1, 4, Channel::kRng, "cpu").integers = {3, 0};
  EXPECT_EQ(reseeded.named(), "ckpt.rng_missing") << "the same seed, and nothing drawn yet";
  at(reseeded.run("resumed"), 1, 4, Channel::kRng, "cpu").integers = {3, 22};
  EXPECT_EQ(reseeded.named(), "ckpt.rng_order");
  at(reseeded.run("resumed"), 1, 4, Channel::kRng, "cpu").integers = {3, 18};
  EXPECT_EQ(reseeded.named(), "") << "no draw leads back";
  Stopped later(5);
  put(later.run("resumed"), 1, 7, text(Channel::kRng, "cpu", "x"));
  EXPECT_EQ(later.named(), "") << "not of the resumption";
}

TEST(ResumptionCauses, Buffers) {
  for (const bool lost : {true, false}) {
    Stopped bench(5);
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      const auto own = static_cast<float>(rank);
      const auto mean = [](float first) { return floats(Channel::kBuffer, "bn.running_mean", {first, 3, 5}); };
      bench.add("straight", rank, -1, mean(0));
      bench.add("straight", rank, 4, mean(1 + own));
      bench.add("resumed", rank, 4, mean(lost ? 0 : 7));
    }
    EXPECT_EQ(bench.named(), lost ? "ckpt.buffers_missing" : "");
  }
}

TEST(ResumptionCauses, BucketLayout) {
  for (const std::int64_t ranks : {2, 3}) {
    for (const float factor : {1 + 0x1p-23F, 1.5F}) {
      Stopped bench(5, ranks);
      const Faults faults{.gradient = [&](auto step, const auto&, auto& gradient) {
        for (float& value : gradient) value *= step == 5 ? factor : 1;
      }};
      bench.run("resumed") =
          resumed_from(tiny_run(bench.scenario.variant("straight"), "resumed/0", faults), 5, "resumed/0");
      EXPECT_EQ(bench.named(), factor < 1.1F ? "ckpt.bucket_layout" : "") << ranks;
    }
  }
}

TEST(ResumptionCauses, APositionOfOtherRanks) {
  for (const std::int64_t ranks : {3, 4, 6}) {
    Json changes = stopped(2);
    changes["train"]["data"]["size"] = 144;
    changes["checks"] = {
        {{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}, {"on", {"samples"}}}};
    changes["variants"]["resumed"]["world_size"] = ranks;
    Bench bench(changes);
    auto& run = bench.run("resumed");
    const trace::RunTrace whole = run;
    run = resumed_from(run, 2, "resumed/0");
    const std::int64_t position = 2 * ranks / 2;  // updates that have passed 12 samples on each rank
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      for (std::int64_t step = 2; step + position - 2 < 12; ++step)
        put(run, rank, step,
            *whole.ranks[static_cast<std::size_t>(rank)].find(step + position - 2)->find(Channel::kSamples, "ids"));
    }
    EXPECT_EQ(first_cause(suspects_of(bench, suspects_in_resumption)), "ckpt.position_unit") << ranks;
  }
}

TEST(ResumptionCauses, StandsWhatIsNotThere) {
  for (const Channel gone :
       {Channel::kSamples, Channel::kLedger, Channel::kOptimizer, Channel::kWeight, Channel::kRng}) {
    Stopped bench(5);
    erase_channel(bench.run("resumed"), gone);
    bench.named();
    erase_channel(bench.run("straight"), gone);
    bench.load(-1, gone == Channel::kRng ? Channel::kWeight : Channel::kRng, gone == Channel::kRng ? "fc.bias" : "cpu");
    EXPECT_NE(bench.named(), "") << trace::name_of(gone);
  }
}

}  // namespace
}  // namespace lockstep::test
