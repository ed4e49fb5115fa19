// Programs that are not ours: what their recorders saw, beside what their traces hold, names the mistake; either of
// them alone does not.
#include <bit>

#include <gtest/gtest.h>

#include "harness/diagnosis/clipping_causes.h"
#include "harness/diagnosis/diagnose.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/shards_causes.h"

#include "tests/support/tiny/diagnosed.h"
#include "tests/support/tiny/mixed.h"

namespace lockstep::diagnosis {
namespace {

using test::parted;
using trace::Channel;
using trace::kInitialStep;
using trace::Record;

/// Two programs "a" and "b" of two ranks.
struct Programs : test::Bench {
  explicit Programs(std::int64_t ranks = 2, const Json& train = Json::object())
      : Bench(test::pair(ranks, ranks, train)) {
    for (scenario::Variant& variant : scenario.variants) variant.known.emplace();
    see("a", {{"ddp", {{"wrap", true}}}});
    see("b", {{"ddp", {{"wrap", true}}}});
  }

  void see(const std::string& variant, const Json& facts) {
    for (trace::Trace& rank : run(variant).ranks) {
      Json& seen = rank.header["seen"];
      if (seen.is_null()) seen = Json::object();
      seen.update(facts);
    }
  }

  void tell(const std::string& variant, std::int64_t step, const Record& record) {
    for (trace::Trace& rank : run(variant).ranks) {
      trace::Step& at = test::step_at(run(variant), rank.rank, step);
      std::erase_if(at.records,
                    [&](const Record& old) { return old.channel == record.channel && old.name == record.name; });
      at.records.push_back(record);
    }
  }
  void tell_each(const std::string& variant, const std::string& name, const std::vector<std::int64_t>& values) {
    for (std::size_t step = 0; step < values.size(); ++step)
      tell(variant, static_cast<std::int64_t>(step), test::integer(name, values[step]));
  }

  std::string cause(std::int64_t step, Channel channel, const std::string& tensor,
                    std::vector<compare::Suspect> (*suspects_of)(const Scene&)) const {
    return test::cause_named(*this, parted(step, channel, tensor), suspects_of);
  }
  /// Of ranks of "b".
  std::string cause_within(std::int64_t step, Channel channel, const std::string& tensor,
                           std::vector<compare::Suspect> (*suspects_of)(const Scene&)) const {
    compare::Divergence at = parted(step, channel, tensor, 1);
    at.left = {"b/0", 0};
    at.right = {"b/0", 1};
    return test::cause_named(*this, at, suspects_of);
  }
};

float through_bf16(float value) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U); }

// ---- reductions that nobody recorded

using Gradients = std::pair<Record, Record>;  ///< of the two ranks

/// "b" reduces nothing that its recorder saw; `made`: what its ranks hold instead.
void leave_unrecorded(Programs& programs, Record (*made)(std::int64_t rank, const Gradients& own)) {
  trace::RunTrace& b = programs.run("b");
  for (const char* name : test::kParameters) {
    const Gradients own{test::at(b, 0, 0, Channel::kGradientLocal, name),
                        test::at(b, 1, 0, Channel::kGradientLocal, name)};
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      Record record = made(rank, own);
      record.channel = Channel::kGradient;
      test::put(b, rank, 0, record);
    }
  }
  test::erase_channel(b, Channel::kGradientLocal);
}

Record kept(std::int64_t rank, const Gradients& own) { return rank == 0 ? own.first : own.second; }
Record summed(std::int64_t, const Gradients& own) { return test::mixed({{1, &own.first}, {1, &own.second}}); }
Record averaged(std::int64_t, const Gradients& own) { return test::mixed({{0.5, &own.first}, {0.5, &own.second}}); }

std::string cause_of_reduction(Record (*made)(std::int64_t rank, const Gradients& own), double factor_of_loss = 1) {
  Programs programs;
  leave_unrecorded(programs, made);
  if (factor_of_loss != 1) test::multiply(programs.run("b"), 0, Channel::kLoss, factor_of_loss);
  return programs.cause(0, Channel::kGradientLocal, "fc.weight", suspects_in_gradients);
}

TEST(UnrecordedReduction, HasTheWeightsOfTheOtherSidesGradients) {
  EXPECT_EQ(cause_of_reduction(kept), "grad.not_reduced");
  EXPECT_EQ(cause_of_reduction(summed), "grad.reduce_sum");
  EXPECT_EQ(cause_of_reduction(averaged), "") << "a mean by hand is no mistake";
  EXPECT_EQ(cause_of_reduction(summed, 2), "") << "other losses have other gradients";
}

TEST(UnrecordedReduction, RanksAloneThatExchangeNothing) {
  Programs programs;
  leave_unrecorded(programs, kept);
  const auto cause = [&] { return programs.cause_within(0, Channel::kGradient, "fc.weight", suspects_in_gradients); };
  EXPECT_EQ(cause(), "") << "the script reduces something itself";
  test::erase_channel(programs.run("b"), Channel::kCollective);
  EXPECT_EQ(cause(), "grad.not_reduced");
  test::put(programs.run("b"), 1, 0, test::at(programs.run("b"), 0, 0, Channel::kGradient, "fc.bias"));
  EXPECT_EQ(cause(), "") << "one gradient is the same on both";
}

// ---- one process

TEST(GradientTerms, OfOneProcessAndOneOfTwoOptimizers) {
  Programs programs(1);
  trace::RunTrace& b = programs.run("b");
  const Record last = test::at(b, 0, 0, Channel::kGradient, "fc.weight"),
               now = test::at(b, 0, 1, Channel::kGradient, "fc.weight");
  test::put(b, 0, 1, test::mixed({{1, &now}, {1, &last}}));
  for (const char* run : {"a", "b"}) test::erase_channel(programs.run(run), Channel::kGradientLocal);
  EXPECT_EQ(programs.cause(1, Channel::kGradient, "fc.weight", suspects_in_gradients), "grad.not_zeroed");
  test::put(b, 0, 1, test::mixed({{1, &now}, {0.5, &last}}));
  EXPECT_EQ(programs.cause(1, Channel::kGradient, "fc.weight", suspects_in_gradients), "");
}

// ---- the loss

/// The loss twice as large, where ranks and micro-batches are two.
std::string cause_of_twice_the_loss(const Json& framework) {
  Programs programs(2, {{"batch", {{"accumulation", 2}}}});
  for (const char* run : {"a", "b"}) programs.see(run, {{"optimizer", Json::array()}});
  for (trace::Trace& rank : programs.run("b").ranks) rank.header["framework"] = framework;
  for (const Channel channel : {Channel::kLoss, Channel::kGradientLocal, Channel::kGradient})
    test::multiply(programs.run("b"), 0, channel, 2);
  return programs.cause(0, Channel::kLoss, "local", suspects_in_gradients);
}

TEST(LossScaling, WhoDividesByTheMicroBatchesDecidesATie) {
  EXPECT_EQ(cause_of_twice_the_loss(Json::array()), "grad.accum_scale");
  EXPECT_EQ(cause_of_twice_the_loss({"lightning 2.6"}), "loss.world_scale");
}

/// HSDP averages over replicas and shards: a loss that is divided by the replicas, too.
TEST(LossScaling, ADivisionByADimensionOfTheMesh) {
  Programs programs(4);
  for (const char* run : {"a", "b"}) {
    for (trace::Trace& rank : programs.run(run).ranks)
      rank.steps.front().records.front().layout = "dp_replicate=2,dp_shard=2: R,S(0)";
  }
  for (const Channel channel : {Channel::kLoss, Channel::kGradientLocal, Channel::kGradient})
    test::multiply(programs.run("b"), 0, channel, 0.5);
  EXPECT_EQ(programs.cause(0, Channel::kLoss, "local", suspects_in_gradients), "grad.double_average");
}

// ---- what FSDP2 was told

Json told(const char* computes, const char* reduces) {
  return {{"ddp", {{"wrap", false}, {"fsdp", {{"param_dtype", computes}, {"reduce_dtype", reduces}}}}}};
}

TEST(Policies, GradientsThatAreReducedInSixteenBits) {
  Programs programs;
  programs.see("a", told("float32", "float32"));
  programs.see("b", told("float32", "bfloat16"));
  test::multiply(programs.run("b"), 0, Channel::kGradient, 1.001);
  EXPECT_EQ(programs.cause(0, Channel::kGradient, "fc.bias", suspects_in_gradients), "comm.lossy");
  test::multiply(programs.run("b"), 0, Channel::kGradientLocal, 1.3);
  EXPECT_NE(programs.cause(0, Channel::kGradient, "fc.bias", suspects_in_gradients), "comm.lossy")
      << "their own gradients differ";
}

TEST(Policies, ModelsThatComputeInSixteenBits) {
  Programs programs;
  programs.see("a", told("float32", "float32"));
  programs.see("b", told("bfloat16", "float32"));
  test::multiply(programs.run("b"), 0, Channel::kLoss, 1.001);
  EXPECT_EQ(programs.cause(0, Channel::kLoss, "local", suspects_in_gradients), "fp.precision_mode");
}

TEST(Policies, ADivisorOfAnotherNumberOfRanks) {
  Programs programs(4);
  test::multiply(programs.run("b"), 0, Channel::kGradient, 2);  // a sum over four ranks, divided by two
  EXPECT_EQ(programs.cause(0, Channel::kGradient, "fc.bias", suspects_in_gradients), "comm.wrong_group");
}

// ---- precision

TEST(Precision, TheLossOfAProgramTellsThatTheForwardPassWasRounded) {
  Programs programs(1);
  trace::RunTrace& b = programs.run("b");
  for (const char* run : {"a", "b"}) {
    test::erase_channel(programs.run(run), Channel::kGradientLocal);
    test::erase(programs.run(run), 0, 0, Channel::kLoss, "reduced");
  }
  for (const char* name : test::kParameters) {
    Record& record = test::at(b, 0, 0, Channel::kGradient, name);
    for (std::size_t i = 0; i < trace::Sketch::kBuckets; ++i) record.sketch->buckets[i] *= i % 2 == 0 ? 1.004 : 0.997;
    record.max_abs = static_cast<double>(through_bf16(static_cast<float>(*record.max_abs)));
    record.digest.high ^= 1;
  }
  const auto cause = [&] { return programs.cause(0, Channel::kGradient, "fc.weight", suspects_in_gradients); };
  EXPECT_EQ(cause(), "fp.lowprec_accumulate");
  test::multiply(b, 0, Channel::kLoss, 1.001);
  EXPECT_EQ(cause(), "fp.precision_mode");
}

// ---- hyperparameters and modes

std::string cause_of_hyperparameter(const std::string& name, double left, double right) {
  Programs programs;
  programs.tell("a", kInitialStep, test::number(name, left));
  programs.tell("b", kInitialStep, test::number(name, right));
  return programs.cause(kInitialStep, Channel::kLedger, name, suspects_in_hyperparameters);
}

TEST(Hyperparameters, ThoseOfOptimizersHaveNames) {
  EXPECT_EQ(cause_of_hyperparameter("weight_decay", 0.1, 0), "opt.decay_scale");
  EXPECT_EQ(cause_of_hyperparameter("optimizer1.weight_decay.2", 0, 0.1), "opt.decay_scale");
  EXPECT_EQ(cause_of_hyperparameter("optimizer1.betas.0", 0.5, 0.9), "opt.hyperparameter");
  EXPECT_EQ(cause_of_hyperparameter("weight_decay", 0.1, 0.1), "");
  EXPECT_EQ(cause_of_hyperparameter("max_lr", 0.1, 0.2), "") << "the rates tell more";
}

TEST(Hyperparameters, BehindARateOfTheScheduleStandTheRates) {
  Programs programs;
  programs.rerun("b", {.learning_rate = [](std::int64_t, double rate) { return 2 * rate; }});
  programs.see("b", {{"ddp", {{"wrap", true}}}});
  programs.tell("a", kInitialStep, test::number("max_lr", 0.1));
  programs.tell("b", kInitialStep, test::number("max_lr", 0.2));
  compare::Divergence at = parted(kInitialStep, Channel::kLedger, "max_lr");
  diagnose(programs.question(), at, {});
  ASSERT_FALSE(at.suspects.empty());
  EXPECT_EQ(at.suspects[0].cause, "lr.scaled_wrongly");
}

TEST(Collectives, WhatFollowsThemTellsMore) {
  Programs programs;
  programs.tell("b", 0, test::text(Channel::kCollective, "0", "broadcast Float[3] from 0"));
  const auto cause = [&] {
    compare::Divergence at = parted(0, Channel::kCollective, "0");
    diagnose(programs.question(), at, {});
    return at.suspects.empty() ? "" : at.suspects[0].cause;
  };
  EXPECT_EQ(cause(), "") << "nothing follows";
  programs.rerun("b", {.learning_rate = [](std::int64_t, double rate) { return 2 * rate; }});
  programs.see("b", {{"ddp", {{"wrap", true}}}});
  EXPECT_EQ(cause(), "lr.scaled_wrongly");
}

TEST(Hyperparameters, AModelInEvaluationMode) {
  Programs programs;
  programs.tell_each("a", "seen.training", {1, 1, 1, 1});
  programs.tell_each("b", "seen.training", {1, 1, 0, 0});
  const auto cause = [&](std::int64_t step) {
    return programs.cause(step, Channel::kLoss, "local", suspects_in_hyperparameters);
  };
  EXPECT_EQ(cause(1), "");
  EXPECT_EQ(cause(2), "model.evaluation_mode");
}

// ---- schedules

/// "b" has taken these steps of the schedule, and the rates that they give; "a" one step for each update.
std::string cause_of_schedule(const std::vector<std::int64_t>& counts, double error = 0) {
  Programs programs;
  const auto rate = [](std::int64_t count) { return 0.1 / static_cast<double>(count + 1); };
  programs.tell_each("a", "seen.schedule_steps", {0, 1, 2, 3});
  programs.tell_each("b", "seen.schedule_steps", counts);
  for (std::int64_t step = 0; step < 4; ++step) {
    const std::int64_t count = counts[static_cast<std::size_t>(step)];
    programs.tell("a", step, test::number("learning_rate", rate(step)));
    programs.tell("b", step, test::number("learning_rate", rate(count) + (count == 2 ? error : 0)));
  }
  for (std::int64_t step = 0; step < 4; ++step) {
    if (counts[static_cast<std::size_t>(step)] == step) continue;
    return programs.cause(step, Channel::kWeight, "fc.weight", suspects_in_rates);
  }
  return "equal";
}

TEST(ScheduleSteps, OtherCountsOfOneScheduleHaveAName) {
  EXPECT_EQ(cause_of_schedule({0, 2, 4, 6}), "lr.schedule_rate");
  EXPECT_EQ(cause_of_schedule({0, 0, 1, 1}), "lr.schedule_rate");
  EXPECT_EQ(cause_of_schedule({0, 2, 4, 6}, 0.01), "") << "another schedule";
  EXPECT_EQ(cause_of_schedule({1, 2, 3, 4}), "") << "it began a step later, and counts alike";
  EXPECT_EQ(cause_of_schedule({0, 1, 2, 3}), "equal");
}

// ---- rates alone

/// Two programs of one rank, of which "b" has this rate from a step on.
struct OtherRates : Programs {
  explicit OtherRates(std::int64_t from) : Programs(1) {
    rerun("b", {.learning_rate = [from](auto step, double rate) { return step < from ? rate : 0.3 * rate; }});
  }
  std::string cause(std::int64_t step) const {
    return Programs::cause(step, Channel::kWeight, "fc.weight", suspects_in_rates);
  }
};

TEST(RatesAlone, AreNamedWhereNothingElseDiffers) {
  for (const std::int64_t from : {0, 2}) EXPECT_EQ(OtherRates(from).cause(from), "lr.differs") << from;
}

TEST(RatesAlone, AreNotNamedWhereAnythingElseDiffers) {
  for (const Channel channel : {Channel::kGradient, Channel::kOptimizer}) {
    OtherRates other(2);
    for (const Record& record : test::step_at(other.run("b"), 0, 2).records) {
      if (record.channel == channel) test::spoil(other.run("b"), 0, 2, channel, record.name);
    }
    EXPECT_EQ(other.cause(2), "") << name_of(channel);
  }
  OtherRates decayed(2);
  decayed.tell("b", 2, test::number("weight_decay", 0.1));
  EXPECT_EQ(decayed.cause(2), "");
  OtherRates told_wrongly(2);
  told_wrongly.tell("b", 2, test::number("learning_rate", 0.02));
  EXPECT_EQ(told_wrongly.cause(2), "") << "the weights do not follow";
  OtherRates unseen(2);
  test::erase_channel(unseen.run("b"), Channel::kGradient);
  test::erase_channel(unseen.run("a"), Channel::kGradient);
  EXPECT_EQ(unseen.cause(2), "") << "gradients are not recorded";
}

TEST(RatesAlone, EachParameterHasTheRateOfItsGroup) {
  const auto cause = [](const Json& first, const Json& second, double rate_of_second) {
    OtherRates other(1);
    const Json groups = {{{"parameters", first}}, {{"parameters", second}}};
    for (const char* run : {"a", "b"}) {
      other.see(run, {{"optimizer", {{{"groups", groups}}}}});
      other.tell(run, 1, test::number("learning_rate.1", rate_of_second));
    }
    return other.cause(1);
  };
  EXPECT_EQ(cause({"fc.weight", "fc.bias"}, Json::array(), 0.1), "lr.differs");
  EXPECT_EQ(cause({"fc.weight"}, {"fc.bias"}, 0.1), "") << "its rate is the same, and it moves otherwise";
  EXPECT_EQ(cause(Json::array(), Json::array(), 0.1), "") << "nobody says whose the rates are";
}

// ---- clipping

TEST(CallsOfClipping, NoneOnOneSide) {
  Programs programs;
  programs.tell("a", 0, test::number("seen.clip_norm", 0.01));
  programs.tell("a", 0, test::integer("seen.clips", 1));
  const auto cause = [&] {
    return programs.cause(0, Channel::kGradient, "clipped fc.weight", suspects_in_calls_of_clipping);
  };
  EXPECT_EQ(cause(), "clip.missing");
  programs.tell("a", 0, test::number("seen.clip_norm", 100));
  EXPECT_EQ(cause(), "") << "nothing was longer";
  programs.tell("a", 0, test::number("seen.clip_norm", 0.01));
  programs.tell("b", 0, test::integer("seen.clips", 1));
  EXPECT_EQ(cause(), "") << "both clip";
  programs.tell("b", 0, test::integer("seen.clips", 0));
  EXPECT_EQ(cause(), "clip.missing");
  programs.tell("b", 0, test::integer("seen.changed", 2));
  EXPECT_EQ(cause(), "") << "the script may have clipped them itself";
}

TEST(CallsOfClipping, OneForEachMicroBatch) {
  Programs programs;
  for (const char* run : {"a", "b"}) programs.tell(run, 0, test::integer("micro_batches", 2));
  programs.tell("a", 0, test::integer("seen.clips", 1));
  programs.tell("b", 0, test::integer("seen.clips", 2));
  EXPECT_EQ(programs.cause(0, Channel::kGradientLocal, "fc.weight", suspects_in_gradients), "clip.before_reduce");
  programs.tell("b", 0, test::integer("seen.clips", 3));
  EXPECT_EQ(programs.cause(0, Channel::kGradientLocal, "fc.weight", suspects_in_gradients), "");
}

TEST(CallsOfClipping, BeforeUnscaling) {
  Programs programs;
  const auto tell = [&](const std::string& run, const std::string& stage) {
    Record record = test::at(programs.run(run), 0, 0, Channel::kGradient, "fc.weight");
    record.name = stage + " fc.weight";
    programs.tell(run, 0, record);
  };
  for (const char* run : {"a", "b"}) programs.tell(run, 0, test::integer("seen.clips", 1));
  for (const char* stage : {"unscaled", "clipped"}) tell("a", stage);
  for (const char* stage : {"clipped", "unscaled"}) tell("b", stage);
  EXPECT_EQ(programs.cause(0, Channel::kGradient, "clipped fc.weight", suspects_in_calls_of_clipping),
            "clip.before_unscale");
}

// ---- checkpoints

const Json kLoaded = {{"loaded", {{{"file", "s.pt"}, {"sha256", "77"}}}}};

TEST(LoadedPrograms, OnlyRank0Loaded) {
  Programs programs;
  for (const char* name : test::kParameters) test::spoil(programs.run("b"), 0, kInitialStep, Channel::kWeight, name);
  const auto within = [&] {
    return programs.cause_within(kInitialStep, Channel::kWeight, "fc.bias", suspects_in_loaded_programs);
  };
  EXPECT_EQ(within(), "") << "nothing was loaded";
  programs.see("a", kLoaded);
  programs.see("b", kLoaded);
  EXPECT_EQ(within(), "ckpt.load_rank0_only");
  EXPECT_EQ(programs.cause(kInitialStep, Channel::kWeight, "fc.bias", suspects_in_loaded_programs),
            "ckpt.load_rank0_only");
  programs.see("b", {{"ddp", {{"wrap", false}}}});
  EXPECT_EQ(within(), "") << "nobody made the ranks alike";
  programs.see("b", {{"ddp", {{"wrap", true}}}});
  test::put(programs.run("b"), 0, kInitialStep,
            test::at(programs.run("b"), 1, kInitialStep, Channel::kWeight, "fc.bias"));
  EXPECT_EQ(within(), "") << "others hold a part of it";
}

/// As where a program resumes from what its run before has left.
TEST(LoadedPrograms, OneReadWhatTheOtherDidNot) {
  Programs programs;
  test::spoil(programs.run("b"), 0, kInitialStep, Channel::kWeight, "fc.bias");
  const auto cause = [&](std::int64_t step) {
    return programs.cause(step, Channel::kWeight, "fc.bias", suspects_in_left_overs);
  };
  EXPECT_EQ(cause(kInitialStep), "") << "nothing was read";
  programs.see("b", kLoaded);
  EXPECT_EQ(cause(kInitialStep), "ckpt.left_over");
  EXPECT_EQ(cause(0), "") << "they begin alike";
  programs.see("a", kLoaded);
  EXPECT_EQ(cause(kInitialStep), "") << "both read one";
}

TEST(LoadedPrograms, AnOptimizerThatStartsCold) {
  Programs programs;
  for (const char* run : {"a", "b"}) programs.see(run, kLoaded);
  const Record momentum = test::floats(Channel::kOptimizer, "fc.bias.momentum_buffer", {1, 2, 3, 4});
  programs.tell("a", kInitialStep, momentum);
  for (trace::Trace& rank : programs.run("b").ranks) {
    std::erase_if(test::step_at(programs.run("b"), rank.rank, kInitialStep).records,
                  [](const Record& record) { return record.channel == Channel::kOptimizer; });
  }
  const auto cause = [&] {
    return programs.cause(kInitialStep, Channel::kOptimizer, momentum.name, suspects_in_loaded_programs);
  };
  EXPECT_EQ(cause(), "ckpt.opt_not_applied");
  programs.see("b", {{"loaded", {{{"file", "t.pt"}, {"sha256", "78"}}}}});
  EXPECT_EQ(cause(), "") << "of another checkpoint";
}

/// The rows of a weight come in another order: its norm and largest element are the same.
TEST(LoadedPrograms, PartsInAnotherOrder) {
  Programs programs;
  for (const char* run : {"a", "b"}) programs.see(run, kLoaded);
  programs.tell("a", kInitialStep, test::floats(Channel::kWeight, "fc.bias", {1, 2, 3, 4}));
  programs.tell("b", kInitialStep, test::floats(Channel::kWeight, "fc.bias", {3, 4, 1, 2}));
  const auto cause = [&] {
    return programs.cause(kInitialStep, Channel::kWeight, "fc.bias", suspects_in_loaded_programs);
  };
  EXPECT_EQ(cause(), "ckpt.other_tensor");
  EXPECT_EQ(programs.cause(kInitialStep, Channel::kWeight, "fc.bias", suspects_in_update), "") << "no initialisation";
  programs.tell("b", kInitialStep, test::floats(Channel::kWeight, "fc.bias", {3, 4, 1, 5}));
  EXPECT_EQ(cause(), "");
}

TEST(LoadedPrograms, AScheduleThatCountsFromZero) {
  Programs programs;
  for (const char* run : {"a", "b"}) programs.see(run, kLoaded);
  programs.tell_each("a", "seen.schedule_steps", {4, 5, 6, 7});
  programs.tell_each("b", "seen.schedule_steps", {0, 1, 2, 3});
  programs.tell("b", 2, test::number("learning_rate", 0.5));
  const auto cause = [&](std::int64_t step) {
    return programs.cause(step, Channel::kWeight, "fc.bias", suspects_in_loaded_programs);
  };
  EXPECT_EQ(cause(2), "ckpt.schedule_missing");
  EXPECT_EQ(cause(1), "") << "the rates are the same";
}

// ---- seeds

TEST(Seeds, AGeneratorThatNobodySeeded) {
  Programs programs;
  programs.tell("a", 0, test::floats(Channel::kRng, "numpy", {1, 2}));
  programs.tell("b", 0, test::floats(Channel::kRng, "numpy", {1, 3}));
  const auto cause = [&] { return programs.cause(0, Channel::kInput, "x", suspects_in_seeds); };
  programs.see("a", {{"seeds", {{"numpy", "set"}}}});
  programs.see("b", {{"seeds", {{"numpy", "set"}}}});
  EXPECT_EQ(cause(), "") << "other seeds are another recipe";
  programs.see("b", {{"seeds", {{"numpy", "never"}}}});
  EXPECT_EQ(cause(), "rng.unseeded");
  programs.tell("b", 0, test::floats(Channel::kRng, "numpy", {1, 2}));
  EXPECT_EQ(cause(), "") << "its state is the same";
}

TEST(Seeds, AStateThatIsRecordedOneStepLater) {
  Programs programs;
  programs.see("a", {{"seeds", {{"numpy", "set"}}}});
  programs.see("b", {{"seeds", {{"numpy", "never"}}}});
  const auto cause = [&] { return programs.cause(0, Channel::kInput, "x", suspects_in_seeds); };
  EXPECT_EQ(cause(), "") << "nobody draws";
  programs.tell("a", 1, test::floats(Channel::kRng, "numpy", {1, 2}));
  programs.tell("b", 1, test::floats(Channel::kRng, "numpy", {1, 3}));
  EXPECT_EQ(cause(), "rng.unseeded");
}

TEST(Seeds, ASeedThatComesTooLate) {
  Programs programs;
  programs.see("b", {{"seeds", {{"cpu", "late"}}}});
  const auto cause = [&] { return programs.cause(kInitialStep, Channel::kRng, "cpu", suspects_in_seeds); };
  EXPECT_EQ(cause(), "") << "the weights are the same";
  test::spoil(programs.run("b"), 0, kInitialStep, Channel::kWeight, "fc.weight");
  EXPECT_EQ(cause(), "rng.unseeded");
  programs.see("a", {{"seeds", {{"cpu", "late"}}}});
  EXPECT_EQ(cause(), "") << "both, and they may be other scripts";
  for (const char* run : {"a", "b"}) programs.run(run).ranks[0].header["command"] = {"train.py"};
  EXPECT_EQ(cause(), "rng.unseeded");
}

// ---- threads

TEST(Environment, AnotherNumberOfThreadsOutweighsTheVariableThatAsksForIt) {
  Programs programs;
  const auto set = [&](const std::string& run, int threads, const std::string& torch) {
    for (trace::Trace& rank : programs.run(run).ranks)
      rank.header["environment"] = {
          {"threads", threads}, {"torch", torch}, {"variables", {{"OMP_NUM_THREADS", std::to_string(threads)}}}};
  };
  const auto cause = [&](scenario::Class class_ = scenario::Class::kRounding) {
    compare::Divergence at = parted(0, Channel::kLoss, "local");
    at.class_ = class_;
    return test::cause_named(programs, at, suspects_in_environment);
  };
  set("a", 1, "2.11");
  set("b", 2, "2.11");
  EXPECT_EQ(cause(), "fp.thread_count");
  EXPECT_EQ(cause(scenario::Class::kSemantic), "");
  set("b", 2, "2.10");
  EXPECT_EQ(cause(), "fp.library_version");
  set("b", 1, "2.11");
  EXPECT_EQ(cause(), "");
}

// ---- samples

TEST(Items, RanksThatTakeTheSameStream) {
  Programs programs;
  for (const char* run : {"a", "b"}) {
    for (trace::Trace& rank : programs.run(run).ranks) {
      for (trace::Step& step : rank.steps) {
        for (Record& record : step.records) {
          if (record.channel != Channel::kSamples) continue;
          const std::string variant = run;
          record = test::integers(Channel::kSamples, "items", record.integers);
          if (variant == "b") record = test::integers(Channel::kSamples, "items", {step.step + 9, 7 * step.step + 77});
        }
      }
    }
  }
  EXPECT_EQ(suspects_in_shards(programs.run("a"), programs.scenario.variants[0], 0).size(), 0U);
  const auto found = suspects_in_shards(programs.run("b"), programs.scenario.variants[1], 0);
  ASSERT_EQ(found.size(), 1U);
  EXPECT_EQ(found[0].cause, "data.not_sharded");
}

TEST(Items, PassesCountWhereTheSamplersEpochStandsStill) {
  Programs programs(2, {{"steps", 8}, {"sampler", {{"kind", "distributed"}}}});
  trace::RunTrace& b = programs.run("b");
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    for (std::int64_t step = 0; step < 8; ++step) {
      test::put(b, rank, step, test::at(b, rank, step % 2, Channel::kSamples, "ids"));
      test::put(b, rank, step, test::integer("epoch", 0));
    }
  }
  const auto cause = [&] {
    const auto found = suspects_in_epochs(b, programs.scenario.variants[1], 2);
    return found.empty() ? "" : found[0].cause;
  };
  EXPECT_EQ(cause(), "");
  programs.tell_each("b", "passes", {0, 0, 1, 1, 2, 2, 3, 3});
  EXPECT_EQ(cause(), "data.epoch_not_advanced");
}

}  // namespace
}  // namespace lockstep::diagnosis
