// The law of the reduction: what rounding can do to a mean raises no alarm, and what it cannot is told, and named.
#include <algorithm>
#include <bit>
#include <cmath>
#include <numeric>
#include <random>

#include <gtest/gtest.h>

#include "harness/checks/laws_check.h"
#include "harness/diagnosis/causes.h"
#include "harness/diagnosis/reduction_causes.h"
#include "harness/laws/reduced_sum.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::checks {
namespace {

using trace::Channel;
using Values = std::vector<float>;

/// What the ranks of one step hold: gradients of parameters of several sizes, and what becomes of them.
class Reducing {
 public:
  explicit Reducing(std::size_t ranks, unsigned seed = 1) : random_(seed) {
    std::normal_distribution<float> normal(0, 1e-2F);
    for (const auto& [name, size] : {std::pair("fc1.weight", 640), {"fc1.bias", 16}, {"fc2.weight", 90}}) {
      std::vector<Values> of_ranks(ranks, Values(static_cast<std::size_t>(size)));
      for (Values& values : of_ranks) std::generate(values.begin(), values.end(), [&] { return normal(random_); });
      own_.push_back({name, of_ranks});
    }
    mean();
  }

  std::size_t ranks() const { return own_[0].second.size(); }

  /// Every rank holds the mean, added up in an order of the rank's own choice for each element.
  void mean() {
    reduce([&](const std::vector<Values>& own, std::size_t, std::size_t element) {
      std::vector<std::size_t> order(ranks());
      std::iota(order.begin(), order.end(), 0);
      std::shuffle(order.begin(), order.end(), random_);
      float sum = 0;
      for (const std::size_t rank : order) sum += own[rank][element] * (1 / static_cast<float>(ranks()));
      return sum;
    });
  }

  /// Every rank holds these weights of the ranks' own gradients.
  void weights(const std::vector<double>& weights) {
    reduce([&](const std::vector<Values>& own, std::size_t, std::size_t element) {
      double sum = 0;
      for (std::size_t rank = 0; rank < ranks(); ++rank) sum += weights[rank] * static_cast<double>(own[rank][element]);
      return static_cast<float>(sum);
    });
  }

  /// `value`(the ranks' own gradients of a parameter, the rank, the element) is what a rank holds.
  template <typename Value>
  void reduce(Value value) {
    reduced_.clear();
    for (const auto& [name, own] : own_) {
      std::vector<Values> of_ranks(ranks(), Values(own[0].size()));
      for (std::size_t rank = 0; rank < ranks(); ++rank) {
        for (std::size_t element = 0; element < own[0].size(); ++element)
          of_ranks[rank][element] = value(own, rank, element);
      }
      reduced_.push_back(of_ranks);
    }
  }

  /// The rank keeps its own gradients of the first so many parameters.
  void keep(std::size_t rank, std::size_t parameters) {
    for (std::size_t i = 0; i < parameters; ++i) reduced_[i][rank] = own_[i].second[rank];
  }

  /// Changes the elements of one parameter's reduced gradients.
  template <typename Change>
  void change(std::size_t parameter, Change change) {
    for (Values& values : reduced_[parameter]) {
      for (float& value : values) value = change(value);
    }
  }

  double norm(std::size_t rank) const {
    double squares = 0;
    for (const auto& [name, own] : own_) {
      for (const float value : own[rank]) squares += static_cast<double>(value) * value;
    }
    return std::sqrt(squares);
  }

  trace::RunTrace run() const {
    trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(ranks())};
    for (std::size_t rank = 0; rank < ranks(); ++rank) {
      trace::Step step;
      for (const auto& [name, own] : own_)
        step.records.push_back(test::floats(Channel::kGradientLocal, name, own[rank]));
      for (std::size_t i = 0; i < own_.size(); ++i)
        step.records.push_back(test::floats(Channel::kGradient, own_[i].first, reduced_[i][rank]));
      run.ranks[rank].steps.push_back(step);
      run.ranks[rank].world_size = static_cast<std::int64_t>(ranks());
      run.ranks[rank].rank = static_cast<std::int64_t>(rank);
    }
    return run;
  }

  /// Whether all ranks hold the same bits.
  bool ranks_agree() const {
    return std::all_of(reduced_.begin(), reduced_.end(), [](const std::vector<Values>& of_ranks) {
      return std::all_of(of_ranks.begin(), of_ranks.end(), [&](const Values& own) { return own == of_ranks[0]; });
    });
  }

  /// Whether any rank holds anything but the mean.
  bool broken() const {
    const trace::RunTrace run = this->run();
    const laws::ReductionLaw law(run, 1.0 / static_cast<double>(ranks()), 0x1p-24);
    bool any = false;
    for (std::int64_t rank = 0; rank < run.world_size(); ++rank) any = any || !law.judge(0, rank).broken.empty();
    return any;
  }

  std::vector<std::string> causes(const std::string& compression = "none", scenario::Variant variant = {}) const {
    variant.train.ddp.compression = recipe::named<recipe::Compression>(compression);
    std::vector<std::string> names;
    for (const compare::Suspect& suspect : diagnosis::suspects_in_reduction(run(), variant, 0))
      names.push_back(suspect.cause);
    return names;
  }

 private:
  std::mt19937 random_;
  std::vector<std::pair<std::string, std::vector<Values>>> own_;  ///< by parameter, by rank
  std::vector<std::vector<Values>> reduced_;                      ///< the same
};

using Names = std::vector<std::string>;

TEST(Recover, FindsTheCoefficientsOfACombination) {
  Reducing reducing(3);
  reducing.weights({0.5, -2, 0});
  const trace::RunTrace run = reducing.run();
  const auto weights = laws::ReductionLaw(run, 1, 0x1p-24).judge(0, 0).weights;
  ASSERT_TRUE(weights);
  EXPECT_NEAR(weights->coefficients[0], 0.5, 1e-6);
  EXPECT_NEAR(weights->coefficients[1], -2, 1e-6);
  EXPECT_NEAR(weights->coefficients[2], 0, 1e-6);
  EXPECT_LT(weights->residual, 1e-6);
}

TEST(Recover, SaysNothingWhereTermsDependOnEachOther) {
  const trace::Record one = test::floats(Channel::kGradient, "g", {1, 2, 3}),
                      zero = test::floats(Channel::kGradient, "g", {0, 0, 0});
  EXPECT_FALSE(laws::recover({{.target = &*one.sketch, .terms = {&*one.sketch, &*one.sketch}}}));
  EXPECT_FALSE(laws::recover({{.target = &*one.sketch, .terms = {nullptr}}}));
  EXPECT_FALSE(laws::recover({{.target = &*zero.sketch, .terms = {&*one.sketch}}}));
  EXPECT_FALSE(laws::recover({}));
}

/// Every element is added up in a random order of its own. With real gradients: end_to_end/reduction_orders_test.cpp.
TEST(ReductionLaw, NoOrderOfAdditionsBreaksIt) {
  for (const std::size_t ranks : {1, 2, 3, 4, 5, 8, 16}) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      Reducing reducing(ranks, seed);
      EXPECT_FALSE(reducing.broken()) << ranks << " ranks, seed " << seed;
      EXPECT_EQ(reducing.ranks_agree(), ranks < 3) << ranks << " ranks: their orders make no other bits";
    }
  }
}

TEST(ReductionLaw, AFactorOfOneAndAThousandthBreaksIt) {
  for (const std::size_t ranks : {1, 2, 3, 4, 8}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      Reducing reducing(ranks, seed);
      reducing.weights(std::vector(ranks, (1 + 0x1p-10) / static_cast<double>(ranks)));
      EXPECT_TRUE(reducing.broken()) << ranks << " ranks, seed " << seed;
    }
  }
}

/// A recipe without DDP does not ask for the law; a check that names it does.
TEST(ReductionLaw, IsJudgedOfAModelThatNobodyWrapped) {
  Reducing reducing(2);
  reducing.keep(1, 3);
  scenario::Variant unwrapped;
  unwrapped.world_size = 2;
  unwrapped.train.ddp.wrap = false;
  unwrapped.train.record.channels = {"gradient.local", "gradient"};
  const laws::Law& law = laws::law_named("reduction");
  EXPECT_TRUE(judge_law(law, reducing.run(), unwrapped).divergence);
  EXPECT_FALSE(judge_law(law, Reducing(2).run(), unwrapped).divergence);
  EXPECT_FALSE(law.unasked(reducing.run(), unwrapped).empty());
  EXPECT_TRUE(law.unasked(reducing.run(), scenario::Variant()).empty());
}

TEST(ReductionLaw, ALostRankBreaksIt) {
  for (const std::size_t ranks : {2, 3, 4, 8}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      Reducing reducing(ranks, seed);
      std::vector<double> weights(ranks, 1 / static_cast<double>(ranks));
      weights[seed % ranks] = 0;
      reducing.weights(weights);
      EXPECT_TRUE(reducing.broken()) << ranks << " ranks, seed " << seed;
      EXPECT_EQ(reducing.causes(), Names{}) << "the lost one holds the others' sum, too: it is in no other group";
    }
  }
}

float through_bf16(float value) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U); }

TEST(ReductionLaw, ADetourThroughBf16BreaksItAndIsNamed) {
  for (const std::size_t ranks : {2, 3, 4, 8}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      Reducing reducing(ranks, seed);
      reducing.reduce([&](const std::vector<Values>& own, std::size_t, std::size_t element) {
        float sum = 0;
        for (const Values& values : own) sum += through_bf16(values[element] / static_cast<float>(own.size()));
        return sum;
      });
      EXPECT_TRUE(reducing.broken()) << ranks << " ranks, seed " << seed;
      reducing.reduce([&](const std::vector<Values>& own, std::size_t, std::size_t element) {
        float sum = 0;
        for (const Values& values : own) sum += values[element] / static_cast<float>(own.size());
        return through_bf16(sum);
      });
      EXPECT_TRUE(reducing.broken()) << ranks << " ranks, seed " << seed;
      EXPECT_EQ(reducing.causes(), Names{"fp.lowprec_accumulate"}) << ranks << ", " << seed;
      EXPECT_EQ(reducing.causes("bf16"), Names{}) << "the scenario asks for it";
    }
  }
}

/// As far from the mean as 16-bit numbers are, and no such numbers.
TEST(ReductionLaw, ASmallMistakeIsNoDetour) {
  for (const std::size_t ranks : {2, 3, 4}) {
    for (unsigned seed = 0; seed < 50; ++seed) {
      Reducing reducing(ranks, seed);
      reducing.reduce([&](const std::vector<Values>& own, std::size_t, std::size_t element) {
        float sum = 0;
        for (const Values& values : own) sum += values[element] / static_cast<float>(own.size());
        return element % 3 == 0 ? sum * (1 + 0x1p-9F) : sum;
      });
      EXPECT_TRUE(reducing.broken()) << ranks << " ranks, seed " << seed;
      EXPECT_EQ(reducing.causes(), Names{}) << ranks << ", " << seed;
      reducing.change(1, through_bf16);
      EXPECT_EQ(reducing.causes(), Names{}) << "one of three is chance";
    }
  }
}

TEST(ReductionCauses, AMeanHasNone) { EXPECT_EQ(Reducing(3).causes(), Names{}); }

TEST(ReductionCauses, ASumAndASecondDivision) {
  for (const std::size_t ranks : {2, 3, 4}) {
    Reducing reducing(ranks);
    reducing.weights(std::vector(ranks, 1.0));
    EXPECT_EQ(reducing.causes(), Names{"grad.reduce_sum"});
    reducing.weights(std::vector(ranks, 1 / static_cast<double>(ranks * ranks)));
    EXPECT_EQ(reducing.causes(), Names{"grad.double_average"});
  }
}

TEST(ReductionCauses, AFactorOfOneParameterOfSeveralIsNoMeanOfAnything) {
  for (const double factor : {3.0, 1 / 3.0}) {
    Reducing reducing(3);
    reducing.change(1, [&](float value) { return value * static_cast<float>(factor); });
    EXPECT_TRUE(reducing.broken());
    EXPECT_EQ(reducing.causes(), Names{}) << factor;
  }
}

/// Ranks 0 and 1 reduce among themselves, rank 2 alone.
TEST(ReductionCauses, AGroupOfOneIsAWrongGroup) {
  Reducing reducing(3);
  reducing.reduce([](const std::vector<Values>& own, std::size_t rank, std::size_t element) {
    return rank == 2 ? own[2][element] : (own[0][element] + own[1][element]) / 2;
  });
  EXPECT_EQ(reducing.causes(), Names{"comm.wrong_group"});
}

/// All ranks keep everything; one rank does; all keep one parameter, or two of three.
TEST(ReductionCauses, OwnGradients) {
  Reducing all(3);
  for (std::size_t rank = 0; rank < 3; ++rank) all.keep(rank, 3);
  EXPECT_EQ(all.causes(), Names{"grad.not_reduced"});
  Reducing one(3);
  one.keep(1, 3);
  EXPECT_EQ(one.causes()[0], "grad.not_reduced");
  Reducing of_one(3), of_two(3);
  for (std::size_t rank = 0; rank < 3; ++rank) {
    of_one.keep(rank, 1);
    of_two.keep(rank, 2);
  }
  EXPECT_EQ(of_one.causes(), (Names{"grad.param_unregistered", "grad.bucket_missing"}));
  EXPECT_EQ(of_two.causes(), (Names{"grad.bucket_missing", "grad.param_unregistered"}));
}

TEST(ReductionCauses, ClippingBeforeTheReduction) {
  Reducing reducing(3);
  scenario::Variant variant;
  variant.train.gradient.clip_norm = 0.2;
  std::vector<double> weights;
  for (std::size_t rank = 0; rank < 3; ++rank) weights.push_back(std::min(1.0, 0.2 / reducing.norm(rank)) / 3);
  reducing.weights(weights);
  EXPECT_EQ(reducing.causes("none", variant), Names{"clip.before_reduce"});
  EXPECT_EQ(reducing.causes(), Names{}) << "where nothing is clipped, it is another fault";
}

Json reducing(const Json& changes = Json::object()) {
  return {{"world_size", 3},
          {"train", changes},
          {"variants", {{"a", Json::object()}}},
          {"checks", {{{"that", "reduction"}}}}};
}

TEST(CheckReduction, AgreesOnMeans) { EXPECT_TRUE(test::agrees(test::Bench(reducing()).check())); }

TEST(CheckReduction, NamesTheFirstPlace) {
  test::Bench bench(reducing());
  test::put(bench.run("a"), 2, 1, test::floats(Channel::kGradient, "fc.bias", {1, 2, 3, 4}));
  EXPECT_TRUE(test::diverges_at(bench.check(), 1, Channel::kGradient, "fc.bias", 2));
}

TEST(CheckReduction, IsInconclusiveWithoutTheOwnGradients) {
  EXPECT_TRUE(test::is_inconclusive(test::Bench(reducing({{"record", {{"channels", {"gradient", "weight"}}}}})).check(),
                                    "does not record its gradients"));
  test::Bench bench(reducing());
  test::erase_channel(bench.run("a"), Channel::kGradientLocal);
  EXPECT_TRUE(test::is_inconclusive(bench.check()));
}

TEST(CheckReduction, OfAProgramSaysWhyItIsInconclusive) {
  const auto judged = [](std::int64_t ranks, const Json& ddp, bool records) {
    Json changes = reducing();
    changes["world_size"] = ranks;
    test::Bench bench(changes);
    bench.scenario.variants[0].program.emplace();
    bench.scenario.variants[0].known.emplace();
    for (trace::Trace& rank : bench.run("a").ranks) rank.header["seen"]["ddp"] = ddp;
    if (!records) test::erase_channel(bench.run("a"), Channel::kGradientLocal);
    return bench.check();
  };
  const Json wrapped = {{"wrap", true}, {"comm_hook", nullptr}};
  EXPECT_TRUE(test::agrees(judged(3, wrapped, true)));
  EXPECT_TRUE(test::is_inconclusive(judged(3, {{"wrap", true}, {"comm_hook", "fp16_compress_hook"}}, true),
                                    "fp16_compress_hook"));
  EXPECT_TRUE(test::is_inconclusive(judged(1, {{"wrap", false}}, false), "one process"));
  EXPECT_TRUE(test::is_inconclusive(judged(3, {{"wrap", false}}, false), "not wrapped in DDP"));
  EXPECT_TRUE(test::is_inconclusive(judged(3, wrapped, false), "goes through DDP"));
}

/// What fits nothing has no name: honest, and no less a fault.
TEST(ReductionCauses, AnUnknownFactorHasNoName) {
  Reducing reducing(3);
  reducing.weights({0.4, 0.4, 0.4});
  EXPECT_TRUE(reducing.broken());
  EXPECT_EQ(reducing.causes(), Names{});
}

}  // namespace
}  // namespace lockstep::checks
