// Updates that are not linear: an optimizer in float32 breaks no law, and each mistake in its formula does, with a
// name.
#include "harness/recipe/optimizer_rule.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "harness/laws/law.h"

#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::laws {
namespace {

using recipe::Rounded;

using trace::Channel;
using Values = std::vector<float>;

/// Mistakes of an optimizer. The default: none.
struct Wrong {
  int ahead = 0;
  bool no_correction = false, eps_inside = false, decay_after = false, half_state = false, twice = false;
  double decay = 1, rate = 1, beta2 = 0;
  std::int64_t skips = -1;  ///< step in which nothing is updated
};

/// Recorded updates of one parameter of 100 elements, in float32 and in the order of torch's kernels.
class Training {
 public:
  Training(std::string kind, Json options, const Wrong& wrong) : kind_(std::move(kind)), wrong_(wrong) {
    promises_.train.optimizer = {.kind = recipe::named<recipe::OptimizerKind>(kind_), .options = std::move(options)};
    promises_.train.optimizer.options["lr"] = kRate;
    promises_.train.optimizer.options["groups"] = Json::array();
    std::normal_distribution<float> normal(0, 0.05F);
    for (Values* values : {&weight_, &first_, &second_}) values->assign(100, 0);
    for (float& value : weight_) value = normal(random_);
    run_ = {.run = "a/0", .ranks = std::vector<trace::Trace>(1)};
    note(-1, {});
    for (std::int64_t step = 0; step < 12; ++step) {
      Values gradient(weight_.size());
      const float size = std::pow(10.0F, -static_cast<float>(step % 4));
      for (float& value : gradient) value = size * normal(random_);
      if (step != wrong_.skips) {
        ++steps_;
        for (std::size_t i = 0; i < weight_.size(); ++i) update(i, gradient[i]);
      }
      note(step, gradient);
    }
  }

  Outcome judge(const char* law) const { return ask(law_named(law), run_, promises_); }

  /// The same as a program's: its optimizer is seen by the recorder and, perhaps, promised by a scenario.
  Outcome judge_as_program(const char* law, bool is_promised) {
    Json group = promises_.train.optimizer.options;
    group["parameters"] = {"w"};
    run_.ranks[0].header["seen"] = {{"optimizer", {{{"kind", kind_}, {"groups", {group}}}}}};
    promises_.known.emplace();
    if (is_promised) promises_.known->insert("optimizer");
    return judge(law);
  }

 private:
  static constexpr double kRate = 1e-3;

  double option(const char* name) const { return promises_.train.optimizer.options.value(name, 0.0); }
  double beta(std::size_t i) const { return promises_.train.optimizer.options["betas"][i].get<double>(); }

  void update(std::size_t i, float gradient) {
    float& weight = weight_[i];
    const double rate = kRate * wrong_.rate, decay = option("weight_decay") * wrong_.decay;
    const auto decays = [&] { weight *= static_cast<float>(1 - rate * decay); };
    if (kind_ == "adamw" && !wrong_.decay_after) decays();
    if (kind_ == "adam") gradient += static_cast<float>(decay) * weight;
    const auto eps = static_cast<float>(option("eps"));
    if (kind_ == "rmsprop") {
      const auto alpha = static_cast<float>(option("alpha"));
      second_[i] = second_[i] * alpha + static_cast<float>(1 - option("alpha")) * gradient * gradient;
      const float root = wrong_.eps_inside ? std::sqrt(second_[i] + eps) : std::sqrt(second_[i]) + eps;
      weight -= static_cast<float>(rate) * (gradient / root);
      return;
    }
    const double count = static_cast<double>(steps_ + wrong_.ahead), beta2 = wrong_.beta2 > 0 ? wrong_.beta2 : beta(1);
    first_[i] += static_cast<float>(1 - beta(0)) * (gradient - first_[i]);
    const double one = wrong_.no_correction ? 1 : 1 - std::pow(beta(0), count);
    const double two = wrong_.no_correction ? 1 : std::sqrt(1 - std::pow(beta(1), count));
    if (kind_ == "adamax") {
      second_[i] = std::max(second_[i] * static_cast<float>(beta2), std::fabs(gradient) + eps);
      weight -= static_cast<float>(rate / one) * (first_[i] / second_[i]);
      return;
    }
    second_[i] = second_[i] * static_cast<float>(beta2) + static_cast<float>(1 - beta2) * gradient * gradient;
    if (wrong_.half_state)
      second_[i] = trace::bfloat16_to_float(static_cast<std::uint16_t>(std::bit_cast<std::uint32_t>(second_[i]) >> 16));
    const auto correction = static_cast<float>(two);
    const float root = wrong_.eps_inside ? std::sqrt(second_[i] / (correction * correction) + eps)
                                         : std::sqrt(second_[i]) / correction + eps;
    const float step = static_cast<float>(rate / one) * (first_[i] / root);
    weight -= wrong_.twice ? 2 * step : step;
    if (kind_ == "adamw" && wrong_.decay_after) weight -= static_cast<float>(rate * decay) * weight;
  }

  void note(std::int64_t step, const Values& gradient) {
    trace::Step of{.step = step, .records = {}};
    const auto add = [&](const trace::Record& record) { of.records.push_back(record); };
    if (!gradient.empty()) {
      add(test::floats(Channel::kGradient, "w", gradient));
      const bool maximum = kind_ == "adamax";
      if (kind_ != "rmsprop") add(test::floats(Channel::kOptimizer, "w.exp_avg", first_));
      add(test::floats(Channel::kOptimizer,
                       kind_ == "rmsprop" ? "w.square_avg"
                       : maximum          ? "w.exp_inf"
                                          : "w.exp_avg_sq",
                       second_));
      add(test::scalar(Channel::kOptimizer, "w.step", static_cast<float>(steps_)));
    }
    add(test::floats(Channel::kWeight, "w", weight_));
    if (!gradient.empty()) add(test::number("learning_rate", kRate));
    run_.ranks[0].steps.push_back(of);
  }

  std::string kind_;
  Wrong wrong_;
  scenario::Promises promises_;
  std::mt19937 random_{1};
  Values weight_, first_, second_;
  std::int64_t steps_ = 0;
  trace::RunTrace run_;
};

Json options_of(const std::string& kind) {
  if (kind == "rmsprop") return {{"alpha", 0.99}, {"eps", 1e-6}, {"weight_decay", 0.0}};
  return {{"betas", {0.9, 0.999}}, {"eps", 1e-6}, {"weight_decay", kind == "adamax" ? 0.0 : 0.1}};
}

Outcome judged(const std::string& kind, const char* law, const Wrong& wrong) {
  return Training(kind, options_of(kind), wrong).judge(law);
}

constexpr const char* kKinds[] = {"adam", "adamw", "adamax", "rmsprop"};

TEST(OptimizerRule, FormulasInFloat32BreakNoLaw) {
  for (const char* kind : kKinds) {
    for (const char* law : {"update", "state"}) {
      const Outcome outcome = judged(kind, law, {});
      EXPECT_TRUE(outcome.holds()) << kind << ", " << law << ": " << outcome.because
                                   << (outcome.broken ? outcome.broken->at.text() + outcome.broken->actual : "");
      EXPECT_GT(outcome.judged, 80U) << kind;
    }
  }
}

void expect_cause(const std::string& kind, const Wrong& wrong, const std::string& cause) {
  const Outcome outcome = judged(kind, "update", wrong);
  ASSERT_TRUE(outcome.broken) << kind << ", " << cause;
  EXPECT_EQ(outcome.broken->cause, cause) << kind << ": " << outcome.broken->at.text();
}

TEST(OptimizerRule, NamesMistakesOfAFormula) {
  for (const char* kind : {"adam", "adamw"}) {
    expect_cause(kind, {.ahead = 1}, "opt.bias_correction");
    expect_cause(kind, {.no_correction = true}, "opt.bias_correction");
    expect_cause(kind, {.rate = 1.01}, "opt.other_rate");
  }
  expect_cause("adam", {.twice = true}, "opt.other_rate");
  expect_cause("adamax", {.ahead = 1}, "opt.bias_correction");
  for (const char* kind : {"adam", "adamw", "rmsprop"}) expect_cause(kind, {.eps_inside = true}, "opt.eps_inside_root");
  for (const double decay : {0.0, -1.0, 2.0}) expect_cause("adamw", {.decay = decay}, "opt.decay_scale");
  for (const char* kind : kKinds) expect_cause(kind, {.skips = 3}, "opt.no_effect");
}

TEST(OptimizerRule, FindsMistakesOfAState) {
  for (const Wrong& wrong : {Wrong{.half_state = true}, Wrong{.beta2 = 0.99}, Wrong{.skips = 5}, Wrong{.decay = -1}}) {
    const Outcome outcome = judged("adam", "state", wrong);
    EXPECT_TRUE(outcome.broken);
  }
}

/// A program may change its weights itself between updates, as a WGAN clamps them.
TEST(OptimizerRule, ABreachOfAProgramCountsIfItPromisesItsOptimizer) {
  const Wrong twice{.twice = true};
  EXPECT_TRUE(Training("adam", options_of("adam"), {}).judge_as_program("update", false).holds());
  const Outcome open = Training("adam", options_of("adam"), twice).judge_as_program("update", false);
  EXPECT_FALSE(open.broken || open.holds());
  EXPECT_NE(open.because.find("weight w"), std::string::npos) << open.because;
  EXPECT_NE(open.next.find("promise"), std::string::npos);
  EXPECT_TRUE(Training("adam", options_of("adam"), twice).judge_as_program("update", true).broken);
}

/// Squares of numbers near 10^24 overflow in float32, and those of numbers near 10^-30 vanish: then the trust ratio of
/// LAMB is no ratio, and a weight may stand still.
TEST(OptimizerRule, TheLengthOfLambsUpdateIsJudgedWhereItsNormsExist) {
  scenario::Promises promises;
  promises.train.optimizer = {.kind = recipe::OptimizerKind::kLamb, .options = options_of("adamax")};  // without decay
  promises.train.optimizer.options["groups"] = Json::array();
  const auto stands_still = [&](float weight, float average) {
    const Values weights(100, weight), averages(100, average), ones(100, 1);
    trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(1), .unplaced = {}};
    run.ranks[0].steps = {
        {.step = -1, .records = {test::floats(Channel::kWeight, "w", weights)}},
        {.step = 0,
         .records = {
             test::floats(Channel::kGradient, "w", averages), test::floats(Channel::kOptimizer, "w.exp_avg", averages),
             test::floats(Channel::kOptimizer, "w.exp_avg_sq", ones), test::scalar(Channel::kOptimizer, "w.step", 1),
             test::floats(Channel::kWeight, "w", weights), test::number("learning_rate", 0.1)}}};
    return ask(law_named("update"), run, promises).broken.has_value();
  };
  EXPECT_TRUE(stands_still(1, 1));
  EXPECT_FALSE(stands_still(1e24F, 1));
  EXPECT_FALSE(stands_still(1, 1e-30F));
}

/// Adam divides by the root of earlier gradients: after large ones, a small one may move no weight by a last place.
TEST(OptimizerRule, AWeightMayStandStillAfterLargerGradients) {
  scenario::Promises promises;
  promises.train.optimizer = {.kind = recipe::OptimizerKind::kAdam, .options = options_of("adamax")};  // without decay
  promises.train.optimizer.options["groups"] = Json::array();
  const auto stands_still = [&](bool has_state) {
    const Values weights(100, 1), gradients(100, 1e-10F), roots(100, 1);
    const auto of_state = [&](float updates) {
      return std::vector{test::floats(Channel::kOptimizer, "w.exp_avg", Values(100, 1e-10F)),
                         test::floats(Channel::kOptimizer, "w.exp_avg_sq", roots),
                         test::scalar(Channel::kOptimizer, "w.step", updates)};
    };
    const trace::Record weight = test::floats(Channel::kWeight, "w", weights);
    trace::RunTrace run{.run = "a/0", .ranks = std::vector<trace::Trace>(1), .unplaced = {}};
    run.ranks[0].steps = {
        {.step = 0, .records = {weight}},
        {.step = 1,
         .records = {test::floats(Channel::kGradient, "w", gradients), weight, test::number("learning_rate", 0.1)}}};
    if (has_state) {
      for (std::size_t i = 0; i < 2; ++i) {
        for (const trace::Record& record : of_state(static_cast<float>(i + 1)))
          run.ranks[0].steps[i].records.push_back(record);
      }
    }
    return ask(law_named("update"), run, promises).broken.has_value();
  };
  EXPECT_FALSE(stands_still(true));
  EXPECT_TRUE(stands_still(false)) << "no optimizer holds it";
}

/// A rate that is off by 10^-4 shows; what is off by less than the weight's last place cannot.
TEST(OptimizerRule, TheSmallestFactorOfARate) {
  EXPECT_TRUE(judged("adam", "update", {.rate = 1 + 1e-4}).broken);
  EXPECT_FALSE(judged("adam", "update", {.rate = 1 + 1e-8}).broken);
}

TEST(Rounded, AnErrorGrowsWithEachOperation) {
  constexpr double kUnit = 0x1p-24;
  const Rounded a(3, kUnit), b(0.1, kUnit, 1e-9);
  EXPECT_EQ((a + b).value(), 3.1);
  EXPECT_GE((a + b).error(), 1e-9 + kUnit * 3.1);
  EXPECT_GE((a * b).error(), 3e-9);
  EXPECT_TRUE(std::isinf((a / Rounded(1e-9, kUnit, 1e-9)).error()));
  EXPECT_TRUE(std::isinf((Rounded(1e38, kUnit) / Rounded(0.27, kUnit)).error())) << "it overflows in float32";
  EXPECT_TRUE(std::isfinite((Rounded(1e38, 0x1p-53) / Rounded(0.27, 0x1p-53)).error()));
  EXPECT_GE(sqrt(Rounded(0, kUnit, 1e-8)).error(), 1e-4) << "a root magnifies what is near zero";
}

}  // namespace
}  // namespace lockstep::laws
