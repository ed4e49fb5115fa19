// Real gradients of every model, added up in 100,000 random orders: no order raises an alarm, every mistake does.
#include <algorithm>
#include <bit>
#include <cstring>
#include <functional>
#include <numeric>
#include <random>
#include <span>

#include "harness/compare/rounding.h"
#include "harness/laws/reduced_sum.h"
#include "harness/trace/capture.h"
#include "harness/trace/digest.h"
#include "harness/trace/reader.h"
#include "harness/trace/sketch.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

using trace::Channel;
using trace::Record;
using Values = std::vector<float>;

constexpr std::int64_t kStep = 1;
constexpr std::size_t kRanks = 8;

/// What the ranks of one step hold of a parameter ahead of the reduction, what it left, and what is put in its place.
struct Parameter {
  Record* reduced;
  Record original;
  std::vector<Values> own;  ///< by rank
};

/// One step of a real training, whose reduction is done anew.
class Step {
 public:
  Step(const std::filesystem::path& folder, scenario::Variant variant)
      : original_(trace::read_run(folder, "main/0")),
        run_(original_),
        variant_(std::move(variant)),
        rounding_(original_, original_),
        law_(run_, variant_) {
    trace::Trace& rank = run_.ranks.at(0);
    for (trace::Step& step : rank.steps) {
      if (step.step != kStep) continue;
      for (Record& record : step.records) {
        if (record.channel == Channel::kGradient) parameters_.push_back({&record, record, own(folder, record)});
      }
    }
  }

  std::size_t parameters() const { return parameters_.size(); }

  /// Every element becomes `value` of the sum of the addends in a random order, an own one for each parameter.
  template <typename Addend, typename Value>
  void reduce(std::mt19937& random, Addend addend, Value value) {
    std::vector<std::size_t> order(kRanks);
    std::iota(order.begin(), order.end(), 0);
    for (Parameter& parameter : parameters_) {
      std::shuffle(order.begin(), order.end(), random);
      Values sum(parameter.own[0].size());
      for (const std::size_t rank : order) {
        const Values& own = parameter.own[rank];
        for (std::size_t i = 0; i < sum.size(); ++i) sum[i] += addend(rank, own[i] * (1.0F / kRanks));
      }
      for (float& element : sum) element = value(element);
      const auto bytes = std::as_bytes(std::span(sum));
      Record& record = *parameter.reduced;
      record.digest = trace::digest_of(record.dtype, record.shape, bytes);
      record.sketch = trace::sketch_of(record.dtype, bytes);
      record.norm = record.sketch->norm;
      record.max_abs = record.sketch->max_abs;
    }
  }

  /// Whether any bit is another than in the real training.
  bool differs() const {
    return std::any_of(parameters_.begin(), parameters_.end(), [](const Parameter& parameter) {
      return parameter.original.digest != parameter.reduced->digest;
    });
  }

  bool breaks_the_law() const { return !law_.judge(kStep, 0).broken.empty(); }

  bool exceeds_rounding() const {
    return std::any_of(parameters_.begin(), parameters_.end(), [&](const Parameter& parameter) {
      const auto rounding = rounding_.judge(parameter.original, *parameter.reduced, kStep, 0);
      return !rounding || !rounding->explained();
    });
  }

 private:
  static std::vector<Values> own(const std::filesystem::path& folder, const Record& record) {
    std::vector<Values> of_ranks;
    for (std::size_t rank = 0; rank < kRanks; ++rank) {
      const auto stored =
          trace::read_captured(folder, kStep, static_cast<std::int64_t>(rank), Channel::kGradientLocal, record.name);
      EXPECT_TRUE(stored) << record.name;
      Values values(stored->bytes.size() / sizeof(float));
      std::memcpy(values.data(), stored->bytes.data(), stored->bytes.size());
      of_ranks.push_back(std::move(values));
    }
    return of_ranks;
  }

  trace::RunTrace original_, run_;
  scenario::Variant variant_;
  std::vector<Parameter> parameters_;
  compare::RoundingBound rounding_;
  laws::ReductionLaw law_;
};

float through_bf16(float value) { return std::bit_cast<float>(std::bit_cast<std::uint32_t>(value) & 0xffff0000U); }

/// What makes the mlp of the fixture this model.
Json recipe(const std::string& model) {
  if (model == "mlp") return Json::object();
  Json train = {{"model", {{"kind", model}}}};
  if (model == "resnet") train["model"]["widths"] = {8};
  if (model == "transformer") {
    train["model"].update({{"width", 16}, {"heads", 2}, {"layers", 1}});
    train["data"] = {
        {"kind", "text"}, {"path", (source_root() / "scenarios/data/sonnets.txt").string()}, {"length", 32}};
  }
  return {{"train", train}};
}

class ReductionOrders : public EndToEnd, public ::testing::WithParamInterface<const char*> {
 protected:
  void SetUp() override {
    const Json changes = {{"world_size", kRanks},
                          {"variants", {{"main", recipe(GetParam())}}},
                          {"train",
                           {{"batch", {{"global", 24}}},
                            {"steps", 2},
                            {"record", {{"capture", {{{"step", kStep}, {"channel", "gradient.local"}}}}}}}}};
    const Result result = run(scenario(changes));
    expect_green(result);
    scenario::Variant variant;
    variant.name = "main";
    variant.world_size = kRanks;
    variant.train.ddp.average = true;
    step_.emplace(result.out / "tiny" / "main" / "0", variant);
    ASSERT_GT(step_->parameters(), 0U);
  }

  std::optional<Step> step_;
  std::mt19937 random_{7};
};

float same(float value) { return value; }
float addend(std::size_t, float value) { return value; }

TEST_P(ReductionOrders, NoneRaisesAnAlarm) {
  constexpr int kOrders = 20'000;
  int others = 0, broken = 0, exceeding = 0;
  for (int i = 0; i < kOrders; ++i) {
    step_->reduce(random_, addend, same);
    others += step_->differs() ? 1 : 0;
    broken += step_->breaks_the_law() ? 1 : 0;
    exceeding += step_->exceeds_rounding() ? 1 : 0;
  }
  EXPECT_GT(others, kOrders / 2);
  EXPECT_EQ(broken, 0) << "of " << kOrders;
  EXPECT_EQ(exceeding, 0) << "of " << kOrders;
}

TEST_P(ReductionOrders, MistakesAreToldInEachOfThem) {
  for (int i = 0; i < 200; ++i) {
    const auto expect_told = [&](const char* mistake) {
      EXPECT_TRUE(step_->breaks_the_law()) << mistake << ", order " << i;
      EXPECT_TRUE(step_->exceeds_rounding()) << mistake << ", order " << i;
    };
    step_->reduce(random_, addend, [](float value) { return value * (1 + 0x1p-10F); });
    expect_told("a factor of 1 + 2^-10");
    const std::size_t lost = static_cast<std::size_t>(i) % kRanks;
    step_->reduce(
        random_, [&](std::size_t rank, float value) { return rank == lost ? 0 : value; }, same);
    expect_told("a lost rank");
    step_->reduce(random_, addend, through_bf16);
    expect_told("a sum through bf16");
    step_->reduce(
        random_, [](std::size_t, float value) { return through_bf16(value); }, same);
    expect_told("addends through bf16");
  }
}

INSTANTIATE_TEST_SUITE_P(Models, ReductionOrders, ::testing::Values("linear", "mlp", "lenet", "resnet", "transformer"),
                         [](const auto& model) { return std::string(model.param); });

}  // namespace
}  // namespace lockstep::test
