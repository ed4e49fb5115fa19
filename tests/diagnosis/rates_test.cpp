// Learning rates that part: counted otherwise, scaled otherwise, decided otherwise; and those of another recipe.
#include <cmath>
#include <numbers>

#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"

namespace lockstep::diagnosis {
namespace {

using trace::Channel;

constexpr int kSteps = 24;

/// Trainings whose ledgers hold what a test says.
class Rated {
 public:
  explicit Rated(const Json& train, std::int64_t world = 3, std::int64_t world_of_a = 0)
      : bench({{"world_size", world},
               {"train", merged(train)},
               {"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}}}},
               {"variants", {{"a", {{"world_size", world_of_a == 0 ? world : world_of_a}}}, {"b", Json::object()}}}}) {
    set("a", [this](double t) { return form(t); });
    set("b", [this](double t) { return form(t); });
  }

  static Json merged(Json train) {
    train["steps"] = kSteps;
    return train;
  }

  /// Half a cosine after a warm-up of 4, whatever the recipe.
  static double curve(double t, double warmup = 4) {
    return t < warmup ? 0.1 * (0.25 + 0.75 * t / warmup) : 0.1 * (1 + std::cos(std::numbers::pi * t / 200)) / 2;
  }
  double form(double t) const { return curve(t); }

  template <typename Rate>
  void set(const std::string& variant, Rate rate) {
    trace::RunTrace& run = bench.run(variant);
    for (std::int64_t rank = 0; rank < run.world_size(); ++rank) set(variant, rank, rate);
  }
  template <typename Rate>
  void set(const std::string& variant, std::int64_t rank, Rate rate) {
    for (std::int64_t t = 0; t < kSteps; ++t)
      test::put(bench.run(variant), rank, t, test::number("learning_rate", rate(static_cast<double>(t))));
  }

  std::string cause(std::int64_t step, Channel channel = Channel::kWeight) const {
    compare::Divergence at = test::parted(step, channel, channel == Channel::kLedger ? "learning_rate" : "fc.weight");
    return test::cause_named(bench, at, suspects_in_rates);
  }
  std::string against_form(std::int64_t step) const {
    compare::Divergence at = test::parted(step, Channel::kLedger, "learning_rate");
    at.left = "closed form";
    return test::cause_named(bench, at, suspects_in_rates);
  }

  test::Bench bench;
};

Json warmup_cosine() {
  return {{"schedule", {{"kind", "warmup_cosine"}, {"period", 200}, {"warmup", 4}, {"factor", 0.25}}}};
}

TEST(RateCauses, EqualRatesHaveNone) {
  EXPECT_EQ(Rated(warmup_cosine()).cause(3), "");
  EXPECT_EQ(Rated(warmup_cosine()).against_form(3), "");
}

TEST(RateCauses, TheScheduleTakesAStepForEachRank) {
  for (const std::int64_t ranks : {2, 3, 6}) {
    const auto w = static_cast<double>(ranks);
    Rated fast(warmup_cosine(), ranks, 1), slow(warmup_cosine(), ranks, 1);
    fast.set("b", [&](double t) { return Rated::curve(t * w); });
    slow.set("b", [&](double t) { return Rated::curve(std::floor(t / w)); });
    EXPECT_EQ(fast.cause(1), "lr.schedule_rate") << ranks;
    EXPECT_EQ(fast.against_form(1), "lr.schedule_rate") << ranks;
    EXPECT_EQ(fast.cause(1, Channel::kLedger), "lr.schedule_rate") << ranks;
    EXPECT_EQ(slow.cause(1), "lr.schedule_rate") << ranks;
    Rated other(warmup_cosine(), ranks, 1);
    other.set("b", [&](double t) { return Rated::curve(t * (w + 0.5)); });
    EXPECT_EQ(other.cause(1), "") << ranks;
  }
}

/// Where the recipe has no closed form to offer, the other side's rates tell.
TEST(RateCauses, ThePaceOfRatesWithoutAForm) {
  Rated rated({{"schedule", {{"kind", "cosine"}, {"period", 10}}}}, 2);
  rated.set("a", [](double t) { return 1 / (1 + t); });
  rated.set("b", [](double t) { return 1 / (1 + 2 * t); });
  EXPECT_EQ(rated.cause(1), "lr.schedule_rate");
}

/// A run of n steps does not come to a change after n/W: nothing tells its pace.
TEST(RateCauses, AFlatLineHasNoPace) {
  for (const char* kind : {"cosine", "constant"}) {
    for (const std::int64_t change : {6, 15, 19}) {
      Rated rated(
          {{"schedule", kind == std::string("cosine") ? Json{{"kind", kind}, {"period", 10}} : Json{{"kind", kind}}}},
          4);
      rated.set("a", [](double) { return 0.1; });
      rated.set("b", [&](double t) { return t < static_cast<double>(change) ? 0.1 : 0.137; });
      for (const Channel channel : {Channel::kWeight, Channel::kLedger})
        EXPECT_EQ(rated.cause(change, channel), "") << kind << " " << change;
    }
  }
}

TEST(RateCauses, AWarmupInAnotherUnit) {
  for (const double unit : {3.0, 1.0 / 3, 2.0, 0.5}) {
    Json train = warmup_cosine();
    train["batch"] = {{"accumulation", 2}};
    train["schedule"]["warmup"] = 6;
    Rated rated(train, 3);
    rated.set("a", [&](double t) { return Rated::curve(t, 6); });
    rated.set("b", [&](double t) { return Rated::curve(t, 6 * unit); });
    EXPECT_EQ(rated.cause(1), "lr.warmup_unit") << unit;
    EXPECT_EQ(rated.against_form(1), "lr.warmup_unit") << unit;
  }
  Rated rated(warmup_cosine(), 3);
  rated.set("b", [&](double t) { return Rated::curve(t, 5); });
  EXPECT_EQ(rated.cause(1), "") << "another warm-up is another recipe";
}

TEST(RateCauses, AFactorOfTheRanks) {
  for (const std::int64_t ranks : {2, 3, 6}) {
    const auto w = static_cast<double>(ranks);
    for (const double factor : {w, 1 / w, std::sqrt(w)}) {
      Rated rated(warmup_cosine(), ranks, 1);
      rated.set("b", [&](double t) { return factor * Rated::curve(t); });
      EXPECT_EQ(rated.cause(0), "lr.scaled_wrongly") << ranks << ", " << factor;
      EXPECT_EQ(rated.against_form(0), "lr.scaled_wrongly") << ranks << ", " << factor;
    }
    Rated rated(warmup_cosine(), ranks, 1);
    rated.set("b", [&](double t) { return 1.7 * Rated::curve(t); });
    EXPECT_EQ(rated.cause(0), "") << ranks;
  }
}

TEST(RateCauses, AFactorThatBeginsLaterIsAnotherSchedule) {
  for (const double factor : {2.0, 0.5, 4.0, 0.25}) {
    Rated rated(warmup_cosine(), 4, 1);
    rated.set("b", [&](double t) { return (t < 5 ? 1 : factor) * Rated::curve(t); });
    EXPECT_EQ(rated.cause(5), "") << factor;
    EXPECT_EQ(rated.against_form(5), "") << factor;
  }
}

TEST(RateCauses, ARuleThatWasNotApplied) {
  Json train = warmup_cosine();
  train["learning_rate_rule"] = {{"kind", "linear"}, {"base_batch", 2}};
  Rated rated(train, 3);
  rated.set("a", [](double t) { return 6 * Rated::curve(t); });
  EXPECT_EQ(rated.cause(0), "lr.not_scaled");
  EXPECT_EQ(rated.against_form(0), "lr.not_scaled");
  rated.set("b", [](double t) { return (t < 3 ? 6 : 1) * Rated::curve(t); });
  EXPECT_EQ(rated.cause(3), "") << "it was applied at first";
}

/// Of three ranks of "b", rank 2 has another rate from step 5 on.
struct OneRankAstray : Rated {
  explicit OneRankAstray(const Json& schedule) : Rated({{"schedule", schedule}}, 3) {
    for (const char* name : {"a", "b"}) set(name, [](double) { return 0.1; });
    set("b", 2, [](double t) { return t < 5 ? 0.1 : 0.01; });
  }
  std::string against_a() const { return test::cause_named(bench, parted(), suspects_in_rates); }
  std::string against_rank_0(std::int64_t step) const {
    compare::Divergence at = parted();
    at.left = {"b/0", 0};
    at.right = {"b/0", 2};
    at.step = step;
    return test::cause_named(bench, at, suspects_in_rates);
  }

 private:
  static compare::Divergence parted() { return test::parted(5, Channel::kWeight, "fc.weight", 2); }
};

/// Rank 2's loss rises from step 2 on, its own and not that of all: a plateau of patience 2 is seen after step 4. It is
/// of no use before step `from`.
struct OneRankDecides : OneRankAstray {
  explicit OneRankDecides(double rise, std::int64_t from = 0) : OneRankAstray({{"kind", "plateau"}, {"patience", 2}}) {
    for (std::int64_t rank = 0; rank < 3; ++rank) {
      for (std::int64_t t = 0; t < kSteps; ++t) {
        const double falling = 3 - 0.1 * static_cast<double>(t);
        const double own = rank == 2 && t >= 2 && t < 5 ? rise : falling - (rank == 2 && t < from ? 2 : 0);
        test::put(bench.run("b"), rank, t, test::scalar(Channel::kLoss, "reduced", static_cast<float>(falling)));
        test::put(bench.run("b"), rank, t, test::scalar(Channel::kLoss, "local", static_cast<float>(own)));
      }
    }
  }
};

TEST(RateCauses, RanksThatDecideForThemselves) {
  const OneRankDecides rated(4);
  EXPECT_EQ(rated.against_a(), "control.local_metric");
  EXPECT_EQ(rated.against_rank_0(5), "control.local_metric");
  EXPECT_EQ(rated.against_rank_0(4), "");
}

TEST(RateCauses, ARankThatFollowsItsOwnLossFromSomeStepOn) {
  EXPECT_EQ(OneRankDecides(4, 2).against_a(), "control.local_metric");
}

TEST(RateCauses, RanksThatFollowNobodysLossPartForAnotherReason) {
  const OneRankDecides rated(1);
  EXPECT_EQ(rated.against_a(), "");
  EXPECT_EQ(rated.against_rank_0(5), "");
}

TEST(RateCauses, WithoutLossesAPlateauIsAllThatIsKnown) {
  OneRankDecides rated(1);
  for (const char* name : {"a", "b"}) test::erase_channel(rated.bench.run(name), Channel::kLoss);
  EXPECT_EQ(rated.against_a(), "control.local_metric");
  EXPECT_EQ(rated.against_rank_0(4), "");
}

TEST(RateCauses, RanksThatPartFollowNoMetricUnlessTheScheduleDoes) {
  const OneRankAstray rated(Json{{"kind", "constant"}});
  EXPECT_EQ(rated.against_a(), "");
  EXPECT_EQ(rated.against_rank_0(5), "");
}

TEST(RateCauses, NothingRecordedNothingNamed) {
  Rated rated(warmup_cosine(), 3);
  test::erase_channel(rated.bench.run("b"), Channel::kLedger);
  EXPECT_EQ(rated.cause(1), "");
  EXPECT_EQ(rated.cause(1, Channel::kLedger), "");
  EXPECT_EQ(rated.cause(1000), "");
}

}  // namespace
}  // namespace lockstep::diagnosis
