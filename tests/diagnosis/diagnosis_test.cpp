// Causes of randomness, of rounding, of ranks that part and of shares that differ: each named where it is planted, and
// not beside it.
#include <cmath>
#include <functional>

#include <gtest/gtest.h>

#include "harness/diagnosis/diagnose.h"
#include "harness/diagnosis/random_causes.h"

#include "tests/support/tiny/bench.h"
#include "tests/support/tiny/diagnosed.h"

namespace lockstep::test {
namespace {

using trace::Channel;
using Names = std::vector<std::string>;

/// Causes that a check's first divergence is given, after what control runs have shown of it.
Names causes_of(const Bench& bench, const std::function<void(compare::Divergence&)>& shown = nullptr,
                diagnosis::Tried tried = {}) {
  checks::CheckResult result = bench.check();
  tried.is_no_rounding |= result.is_no_rounding;
  if (shown && result.divergence) shown(*result.divergence);
  if (result.divergence) diagnosis::diagnose(bench.question(), *result.divergence, tried);
  EXPECT_TRUE(result.divergence);
  Names names;
  for (const compare::Suspect& suspect :
       result.divergence ? result.divergence->suspects : std::vector<compare::Suspect>{}) {
    EXPECT_FALSE(suspect.evidence.empty()) << suspect.cause;
    names.push_back(suspect.cause);
  }
  return names;
}

Json checking(const char* that, const Json& more = Json::object()) {
  Json check = {{"that", that}};
  check.update(more);
  return {{"checks", {check}}};
}

Json repeated() {
  Json changes = checking("repeatable", {{"variants", {"a"}}});
  changes["repeats"] = 2;
  return changes;
}

void spoil_from(trace::RunTrace& run, std::int64_t step, Channel channel, const std::string& name) {
  for (trace::Trace& rank : run.ranks) {
    for (const trace::Step& at : rank.steps) {
      if (at.step >= step && at.find(channel, name) != nullptr) spoil(run, rank.rank, at.step, channel, name);
    }
  }
}

TEST(RandomCauses, ARunThatBeginsOtherwiseIsUnseeded) {
  Bench bench(repeated());
  spoil_from(bench.run("a", 1), -1, Channel::kWeight, "fc.weight");
  EXPECT_EQ(causes_of(bench), Names{"rng.unseeded"});
}

TEST(RandomCauses, SumsInTheOrderOfArrivalAreToldFromRaces) {
  Bench sums(repeated());
  spoil_from(sums.run("a", 1), 1, Channel::kGradient, "fc.weight");
  EXPECT_EQ(causes_of(sums), Names{"fp.unordered_threads"});
  Bench race(repeated());
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    trace::Record own = at(race.run("a", 1), rank, 1, Channel::kGradientLocal, "fc.weight");
    own.channel = Channel::kGradient;
    put(race.run("a", 1), rank, 1, own);
  }
  EXPECT_EQ(causes_of(race), Names{"comm.race"});
  put(race.run("a", 1), 0, 1, at(race.run("a", 1), 1, 1, Channel::kGradient, "fc.weight"));
  EXPECT_EQ(causes_of(race), Names{}) << "all ranks hold that of one: it has arrived";
}

/// A factor of each run's own, or noise: no addend is missing there.
TEST(RandomCauses, WhatLacksNoAddendIsNoRace) {
  for (const bool is_noise : {false, true}) {
    Bench bench(repeated());
    for (std::int64_t rank = 0; rank < 2; ++rank) {
      trace::Record other = at(bench.run("a", 1), rank, 1, Channel::kGradient, "fc.weight");
      for (std::size_t i = 0; i < other.sketch->buckets.size(); ++i) {
        if (is_noise) other.sketch->buckets[i] += 0.01 * other.sketch->norm * (i % 2 == 0 ? 1 : -1);
        if (!is_noise) other.sketch->buckets[i] *= 0.7;
      }
      other.digest.low ^= 1;
      put(bench.run("a", 1), rank, 1, other);
    }
    EXPECT_EQ(causes_of(bench), Names{}) << is_noise;
  }
}

/// A sum that is not made of whole addends may lack a part of one if it is off by a 16th of its norm.
TEST(RandomCauses, AMissingAddendIsASixteenthOfTheNorm) {
  const auto named = [](double part) {
    Bench bench(checking("ranks_agree"));
    trace::Record& gradient = test::at(bench.run("a"), 1, 1, Channel::kGradient, "fc.weight");
    const double each = part * *gradient.norm / std::sqrt(static_cast<double>(trace::Sketch::kBuckets));
    for (std::size_t i = 0; i < gradient.sketch->buckets.size(); ++i)
      gradient.sketch->buckets[i] += i % 2 == 0 ? each : -each;
    gradient.digest.low ^= 1;
    compare::Divergence at{.step = 1,
                           .channel = Channel::kGradient,
                           .tensor = "fc.weight",
                           .rank = 1,
                           .left = {"a/0", 0},
                           .right = {"a/0", 1}};
    at.class_ = scenario::Class::kNondeterminism;
    return causes_named(bench, at, diagnosis::suspects_in_random);
  };
  EXPECT_EQ(named(0.9 / 16), Names{});
  EXPECT_EQ(named(1.1 / 16), Names{"comm.race"});
}

TEST(RandomCauses, RanksThatPartOtherwiseInEachRun) {
  Bench bench(checking("ranks_agree"));
  compare::Divergence at{.step = 1,
                         .channel = Channel::kGradient,
                         .tensor = "fc.weight",
                         .rank = 1,
                         .left = {"a/0", 0},
                         .right = {"a/0", 1}};
  at.class_ = scenario::Class::kNondeterminism;
  EXPECT_EQ(causes_named(bench, at, diagnosis::suspects_in_random), Names{"fp.unordered_threads"});
  trace::Record own = test::at(bench.run("a"), 1, 1, Channel::kGradientLocal, "fc.weight");
  own.channel = Channel::kGradient;
  put(bench.run("a"), 1, 1, own);
  EXPECT_EQ(causes_named(bench, at, diagnosis::suspects_in_random), Names{"comm.race"});
  at.class_ = scenario::Class::kSemantic;
  EXPECT_EQ(causes_named(bench, at, diagnosis::suspects_in_random), Names{});
}

TEST(ControlRuns, MemoryFailsOnce) {
  using diagnosis::Again;
  const auto after = [](const Bench& bench, Again again, scenario::Class class_ = scenario::Class::kSemantic) {
    return causes_of(bench, [=](compare::Divergence& at) { at.class_ = class_; }, {.again = again});
  };
  Bench flipped(checking("ranks_agree", {{"variants", {"a"}}}));
  trace::Record& weight = test::at(flipped.run("a"), 1, 2, Channel::kWeight, "fc.weight");
  weight.sketch->buckets[5] += 1;
  weight.norm = *weight.norm + 1;
  weight.digest.low ^= 1;
  EXPECT_EQ(after(flipped, Again::kNotTried), Names{"hw.sdc_rank"});
  EXPECT_EQ(after(flipped, Again::kOnceOtherwise, scenario::Class::kNondeterminism), Names{"hw.sdc_rank"});
  EXPECT_EQ(after(flipped, Again::kSame), Names{}) << "memory does not fail again in the same place";
  EXPECT_EQ(after(flipped, Again::kEachTimeOtherwise, scenario::Class::kNondeterminism), Names{});
}

/// Two trainings whose own gradients part by a factor.
struct PartedAtRandom : Bench {
  PartedAtRandom(const Json& determinism, double factor)
      : Bench(merged(checking("equal", {{"variants", {"a", "b"}}}), {{"train", {{"determinism", determinism}}}})) {
    trace::Record& gradient = at(run("b"), 0, 1, Channel::kGradientLocal, "fc.weight");
    for (double& bucket : gradient.sketch->buckets) bucket *= factor;
    gradient.digest.low ^= 1;
  }

 private:
  static Json merged(Json one, const Json& other) {
    one.update(other);
    return one;
  }
};

compare::Divergence parted_at_random() {
  return {.step = 1,
          .channel = Channel::kGradientLocal,
          .tensor = "fc.weight",
          .left = "a/0",
          .right = "b/0",
          .class_ = scenario::Class::kNondeterminism};
}

TEST(RandomCauses, ThreadsMustBeSeveralAndPartSumsByRoundingOnly) {
  const auto named = [](const Json& determinism, double factor) {
    return causes_named(PartedAtRandom(determinism, factor), parted_at_random(), diagnosis::suspects_in_random);
  };
  const Json one = {{"threads", 1}, {"algorithms", "default"}}, two = {{"threads", 2}, {"algorithms", "default"}};
  EXPECT_EQ(named(two, 1 + 0x1p-20), (Names{"fp.unordered_threads", "fp.atomic_op"}));
  EXPECT_EQ(named({{"threads", 2}}, 1 + 0x1p-20), Names{"fp.unordered_threads"}) << "deterministic algorithms";
  EXPECT_EQ(named(two, 0.5), Names{});
  EXPECT_EQ(named(one, 1 + 0x1p-20), Names{});
}

TEST(RandomCauses, TheOperatorTellsAtomicAdditionsFromThreads) {
  const PartedAtRandom bench({{"threads", 2}, {"algorithms", "default"}}, 1 + 0x1p-20);
  compare::Divergence at = parted_at_random();
  const auto named = [&] { return causes_named(bench, at, diagnosis::suspects_in_random); };
  EXPECT_EQ(named(), (Names{"fp.unordered_threads", "fp.atomic_op"}));
  at.operator_ =
      compare::OperatorFinding{.call = {.name = "aten::index_put_"}, .text = "index_put_ computes a different"};
  EXPECT_EQ(named(), (Names{"fp.atomic_op", "fp.unordered_threads"}));
  at.operator_->call.name = "aten::addmm";
  EXPECT_EQ(named(), (Names{"fp.unordered_threads", "fp.atomic_op"}));
}

/// What parts is an operator that draws, or that is told another number: no order in which anything arrives.
TEST(RandomCauses, AnOperatorThatIsToldOtherwiseRefutesAnyOrderOfArrival) {
  Bench race(repeated());
  for (std::int64_t rank = 0; rank < 2; ++rank) {
    trace::Record other = at(race.run("a", 1), rank, 1, Channel::kGradient, "fc.weight");
    other.sketch = at(race.run("a", 1), 1, 1, Channel::kGradientLocal, "fc.weight").sketch;
    other.digest.low ^= static_cast<std::uint64_t>(1 + rank);
    put(race.run("a", 1), rank, 1, other);
  }
  const auto after = [&](compare::OperatorFinding::Says says, const char* name, bool by_value) {
    return causes_of(race, [=](compare::Divergence& at) {
      at.operator_ = compare::OperatorFinding{.says = says, .call = {.name = name}, .by_value = by_value};
    });
  };
  using Says = compare::OperatorFinding::Says;
  EXPECT_EQ(after(Says::kIsFed, "aten::add_", false), Names{"comm.race"});
  EXPECT_EQ(after(Says::kIsFed, "aten::add_", true), Names{});
  EXPECT_EQ(after(Says::kComputes, "aten::randn", false), Names{"rng.unseeded"});
}

/// Generators of rank 0 that part in step 1: seed, and place among the numbers that are made at once.
std::vector<std::string> causes_of_generators(const std::vector<std::int64_t>& left,
                                              const std::vector<std::int64_t>& right, bool flagged = false) {
  Bench bench(checking("equal", {{"variants", {"a", "b"}}}));
  at(bench.run("a"), 0, 1, Channel::kRng, "cpu").integers = left;
  trace::Record& other = at(bench.run("b"), 0, 1, Channel::kRng, "cpu");
  other.integers = right;
  other.digest.low ^= 1;
  return causes_of(bench, [=](compare::Divergence& at) {
    if (flagged) at.operator_ = compare::OperatorFinding{.call = {.name = "aten::dropout"}, .by_value = true};
  });
}

TEST(RandomCauses, ALoaderDrawsFewNumbersFromOneSeed) {
  EXPECT_EQ(causes_of_generators({3, 20}, {3, 22}), Names{"rng.loader_draw"});
  EXPECT_EQ(causes_of_generators({3, 623}, {3, 1}), Names{"rng.loader_draw"}) << "the next block";
  EXPECT_EQ(causes_of_generators({}, {}), Names{"rng.loader_draw"}) << "an older trace";
  EXPECT_EQ(causes_of_generators({3, 20}, {4, 22}), Names{}) << "another seed";
  EXPECT_EQ(causes_of_generators({3, 20}, {3, 90}), Names{}) << "no loader";
  EXPECT_EQ(causes_of_generators({3, 20}, {3, 20}), Names{}) << "whole blocks";
  EXPECT_EQ(causes_of_generators({3, 20}, {3, 21}, true), Names{}) << "an operator was told not to draw";
}

TEST(RandomCauses, WhatIsNotBehindEqualInputsIsUnknown) {
  Bench bench(repeated());
  spoil_from(bench.run("a", 1), 1, Channel::kOptimizer, "fc.weight.momentum_buffer");
  EXPECT_EQ(causes_of(bench), Names{});
}

TEST(RankCauses, RanksThatBeginApartInitialisedTheirOwn) {
  Bench bench(checking("ranks_agree", {{"variants", {"a"}}}));
  put(bench.run("a"), 1, -1, floats(Channel::kWeight, "fc.weight", std::vector<float>(32, 0.5F), {4, 8}));
  EXPECT_EQ(causes_of(bench), Names{"init.rank_divergent"});
}

TEST(RankCauses, PartsOfATensorAreNoCopiesOfIt) {
  Bench bench(checking("equal", {{"variants", {"a", "b"}}}));
  for (const std::int64_t rank : {0, 1}) {
    std::vector<float> part(16, 0.5F);
    if (rank == 1) part[0] = 9;  // no multiple of the other's
    put(bench.run("b"), rank, -1, floats(Channel::kWeight, "fc.weight", part, {2, 8}));
  }
  EXPECT_EQ(causes_of(bench), Names{"init.weights"});
}

TEST(RankCauses, HaveTheirNamesBetweenTwoRunsToo) {
  for (const bool all : {false, true}) {
    Json three = checking("equal", {{"variants", {"a", "b"}}});
    three["world_size"] = 3;
    Bench begin(three), order(three);
    for (const std::int64_t rank : {0, 1, 2}) {
      if (rank != 1 && !all) continue;
      put(begin.run("b"), rank, -1, floats(Channel::kWeight, "fc.weight", std::vector<float>(32, 0.5F), {4, 8}));
      spoil(order.run("b"), rank, 2, Channel::kGradient, "fc.weight");
    }
    EXPECT_EQ(causes_of(begin), Names{all ? "init.weights" : "init.rank_divergent"});
    EXPECT_EQ(causes_of(order), Names{all ? "fp.reduction_order" : "fp.rank_order"});
  }
}

TEST(RankCauses, AWeightThatWasTouchedIsNoOtherBeginning) {
  for (const float factor : {1.0F, 1.4F}) {
    Bench bench(checking("ranks_agree", {{"variants", {"a"}}}));
    std::vector<float> weight;
    for (int i = 0; i < 32; ++i) weight.push_back(std::sin(static_cast<float>(i)));
    put(bench.run("a"), 0, -1, floats(Channel::kWeight, "fc.weight", weight, {4, 8}));
    for (float& element : weight) element *= factor;
    for (const std::size_t touched : {3, 8, 13, 20, 21, 30}) weight[touched] += 0.25F;
    put(bench.run("a"), 1, -1, floats(Channel::kWeight, "fc.weight", weight, {4, 8}));
    EXPECT_EQ(causes_of(bench), Names{}) << factor;
  }
}

/// The same numbers in other places, of which the elements tell whether a memory layout is why.
TEST(RankCauses, APermutationThatIsNoLayoutIsNoStridedTensor) {
  Bench bench(checking("ranks_agree", {{"variants", {"a"}}}));
  const std::vector<float> rows = {1, 2, 3, 4, 5, 6}, others = {4, 5, 6, 1, 2, 3};
  put(bench.run("a"), 0, 1, floats(Channel::kWeight, "fc.weight", rows, {2, 3}));
  put(bench.run("a"), 1, 1, floats(Channel::kWeight, "fc.weight", others, {2, 3}));
  EXPECT_EQ(causes_of(bench), Names{"comm.noncontiguous"}) << "nobody has seen the elements";
  const auto seen = [&](bool is_other_layout) {
    return causes_of(bench, [=](compare::Divergence& at) { at.element = {.is_other_layout = is_other_layout}; });
  };
  EXPECT_EQ(seen(true), Names{"comm.noncontiguous"});
  EXPECT_EQ(seen(false), Names{});
}

TEST(RankCauses, AnotherOrderOfAddingOnOneRank) {
  Json three = checking("ranks_agree", {{"variants", {"a"}}}), two = three;
  three["world_size"] = 3;
  Bench bench(three), pair(two);
  for (Bench* one : {&bench, &pair})
    spoil(one->run("a"), 1, 2, Channel::kGradient, "fc.weight");  // other bits, the same sketch
  EXPECT_EQ(causes_of(pair), Names{}) << "two addends have one sum";
  EXPECT_EQ(causes_of(bench), Names{"fp.rank_order"});
  EXPECT_EQ(causes_of(bench, nullptr, {.is_no_rounding = true}), Names{});
}

/// What one rank holds may lie within rounding of the others', and be no mean of all, although no cause is known.
/// Where float64 has shown that it is no more, an operator that was told something else rounds otherwise.
TEST(RoundingCauses, AnOperatorThatIsToldOtherwiseMayRoundOtherwise) {
  Bench bench(checking("equal", {{"variants", {"a", "b"}}}));
  for (const std::int64_t rank : {0, 1}) spoil(bench.run("b"), rank, 2, Channel::kGradientLocal, "fc.weight");
  const auto told = [&](scenario::Class class_) {
    return causes_of(bench, [=](compare::Divergence& at) {
      at.operator_ = compare::OperatorFinding{.call = {.name = "aten::mean"}, .by_value = true};
      at.class_ = class_;
    });
  };
  EXPECT_EQ(told(scenario::Class::kRounding), Names{"fp.rounding"});
  EXPECT_EQ(told(scenario::Class::kSemantic), Names{});
}

TEST(RankCauses, NoiseThatNoOrderOfAddingMakesIsNone) {
  Json three = checking("ranks_agree", {{"variants", {"a"}}});
  three["world_size"] = 3;
  const auto causes_at = [&](float noise) {
    Bench bench(three);
    std::vector<float> mean(32);
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      std::vector<float> own(32);
      for (std::size_t i = 0; i < own.size(); ++i)
        mean[i] += (own[i] = std::sin(static_cast<float>(i + 40 * rank))) / 3;
      put(bench.run("a"), rank, 2, floats(Channel::kGradientLocal, "fc.weight", own, {4, 8}));
    }
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      std::vector<float> held = mean;
      for (std::size_t i = 0; i < held.size() && rank == 1; ++i) held[i] += noise * std::cos(static_cast<float>(i * i));
      put(bench.run("a"), rank, 2, floats(Channel::kGradient, "fc.weight", held, {4, 8}));
    }
    return causes_of(bench);
  };
  EXPECT_EQ(causes_at(0x1p-24F), Names{"fp.rank_order"});
  for (float noise = 0x1p-19F; noise < 0x1p-10F; noise *= 2) EXPECT_EQ(causes_at(noise), Names{}) << noise;
}

TEST(RankCauses, ClippingThatRoundsOtherwiseOnOneRankIsNoOrderOfAdding) {
  for (const std::int64_t ranks : {2, 3}) {
    Json changes = checking("ranks_agree", {{"variants", {"a"}}});
    changes["world_size"] = ranks;
    Bench bench(changes);
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      trace::Record clipped = at(bench.run("a"), rank, 2, Channel::kGradient, "fc.weight");
      clipped.name = "clipped fc.weight";
      if (rank == 1) clipped.digest.low ^= 1;
      step_at(bench.run("a"), rank, 2).records.push_back(clipped);
    }
    EXPECT_EQ(causes_of(bench), Names{});
    EXPECT_EQ(causes_of(bench, [](compare::Divergence& at) { at.class_ = scenario::Class::kRounding; }),
              Names{"fp.rounding"});
  }
}

TEST(RoundingCauses, OtherBucketsAreOtherCollectives) {
  for (const bool asked : {true, false}) {
    Json changes = checking("equal", {{"variants", {"a", "b"}}});
    changes["variants"] = {{"a", Json::object()}, {"b", Json::object()}};
    if (asked) changes["variants"]["b"]["train"]["ddp"]["bucket_mb"] = 0.001;
    Bench bench(changes);
    put(bench.run("b"), 0, 1, text(Channel::kCollective, "0", "broadcast Int[3] from 0"));
    EXPECT_EQ(causes_of(bench), asked ? Names{"fp.reduction_order"} : Names{});
    put(bench.run("b"), 0, 1, text(Channel::kCollective, "0", "broadcast Float[72] from 0"));
    EXPECT_EQ(causes_of(bench), Names{}) << "buffers that only one side broadcasts";
  }
}

TEST(RoundingCauses, FollowWhatTheSidesDoDifferently) {
  const auto with = [](const Json& change) {
    Json changes = checking("equal", {{"variants", {"a", "b"}}});
    changes["variants"] = {{"a", Json::object()}, {"b", change}};
    Bench bench(changes);
    for (std::int64_t rank = 0; rank < bench.run("b").world_size(); ++rank)
      spoil(bench.run("b"), rank, 1, Channel::kGradient, "fc.weight");
    return causes_of(bench);
  };
  EXPECT_EQ(with(Json::object()), Names{"fp.reduction_order"});
  EXPECT_EQ(with({{"train", {{"determinism", {{"threads", 2}}}}}}), Names{"fp.thread_count"});
  EXPECT_EQ(with({{"train", {{"determinism", {{"cpu", "portable"}}}}}}), Names{"fp.isa"});
  EXPECT_EQ(with({{"train", {{"autocast", "bf16"}}}}), Names{"fp.precision_mode"});
  EXPECT_EQ(with({{"train", {{"determinism", {{"flush_denormal", true}}}}}}), Names{"fp.denormal"});
  EXPECT_EQ(with({{"train", {{"batch", {{"accumulation", 2}}}}}}), Names{"fp.batch_variance"});
}

TEST(RoundingCauses, DenormalNumbersAreLostOnOneSide) {
  Bench bench(checking("equal", {{"variants", {"a", "b"}}, {"on", {"weight"}}}));
  for (std::int64_t rank = 0; rank < bench.run("b").world_size(); ++rank)
    spoil(bench.run("b"), rank, 1, Channel::kWeight, "fc.weight");
  const auto with = [&](double left, double right, double largest) {
    return causes_of(bench, [&](compare::Divergence& at) {
      at.class_ = scenario::Class::kRounding;
      at.element = compare::Element{.left = left, .right = right, .unequal = 1, .of = 4, .largest = largest};
    });
  };
  EXPECT_EQ(with(-3e-41, 0, 3e-39), Names{"fp.denormal"});
  EXPECT_EQ(with(-3e-41, -2e-41, 3e-39), Names{"fp.kernel_variant"}) << "a denormal number on both sides";
  EXPECT_EQ(with(-3e-41, 0, 3e-9), Names{"fp.kernel_variant"}) << "others are apart, too";
}

TEST(RoundingCauses, AHookThatRoundsIsRefutedInFloat64AsAllRoundingIs) {
  Json changes = checking("equal", {{"variants", {"a", "b"}}});
  changes["variants"] = {{"a", Json::object()}, {"b", {{"train", {{"ddp", {{"compression", "fp16"}}}}}}}};
  Bench bench(changes);
  for (const std::int64_t rank : {0, 1}) spoil(bench.run("b"), rank, 1, Channel::kGradient, "fc.weight");
  EXPECT_EQ(causes_of(bench), Names{"comm.lossy"});
  const auto refuted = [](compare::Divergence& at) { at.suspects = {{"comm.lossy", {"as it seemed"}}}; };
  EXPECT_EQ(causes_of(bench, refuted, {.is_no_rounding = true}), Names{});
}

TEST(RoundingCauses, AnUpdateThatRoundsOtherwiseIsAnotherKernel) {
  Bench bench(checking("equal", {{"variants", {"a", "b"}}}));
  spoil_from(bench.run("b"), 2, Channel::kWeight, "fc.weight");
  EXPECT_EQ(causes_of(bench), Names{"fp.kernel_variant"});
}

/// Layers that look at a rank's whole share part by design; the same layers at one share do not.
TEST(ShareCauses, AreNamedWhereSharesDiffer) {
  const auto with = [](const Json& model, std::int64_t ranks, bool running_means) {
    Json changes = checking("rounding", {{"variants", {"a", "b"}}});
    const Json train = {{"model", model}};
    changes["variants"] = {{"a", {{"world_size", 1}, {"train", train}}},
                           {"b", {{"world_size", ranks}, {"train", train}}}};
    Bench bench(changes);
    for (const char* name : {"a", "b"}) {
      for (trace::Trace& rank : bench.run(name).ranks) {
        if (running_means)
          step_at(bench.run(name), rank.rank, 0).records.push_back(floats(Channel::kBuffer, "bn.running_mean", {1}));
        put(bench.run(name), rank.rank, 0, scalar(Channel::kLoss, "reduced", name[0] == 'a' ? 0.5F : 0.7F));
      }
    }
    return causes_of(bench);
  };
  const Json dropout = {{"kind", "mlp"}, {"dropout", 0.5}}, batch = {{"kind", "resnet"}},
             synchronized = {{"kind", "resnet"}, {"norm", "sync_batch"}};
  EXPECT_EQ(with(dropout, 2, false), Names{"rng.layout_bound"});
  EXPECT_EQ(with(batch, 2, true), Names{"model.batchnorm_local"});
  EXPECT_EQ(with(synchronized, 2, true), Names{});
  EXPECT_EQ(with(dropout, 1, false), Names{});
}

}  // namespace
}  // namespace lockstep::test
