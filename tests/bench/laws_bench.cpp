// The time to judge all laws of a whole run from its traces, without reading their files (goal: 1 s for 1,000 steps,
// 200 records in each, 8 ranks).
#include <cmath>
#include <cstdlib>
#include <random>

#include <benchmark/benchmark.h>

#include "harness/checks/laws_check.h"

#include "tests/support/support.h"
#include "tests/support/tiny/bench.h"

namespace lockstep {
namespace {

using trace::Channel;
using Values = std::vector<float>;

constexpr std::size_t kRanks = 8, kParameters = 24, kElements = 64;
constexpr double kRate = 1e-3, kDecay = 0.9, kScale = 1024;

const std::int64_t kSteps = std::getenv("LOCKSTEP_BENCH_SMOKE") != nullptr ? 3 : 1000;

struct Parameter {
  std::string name;
  Values weight, gradient, first, second, average;
};

/// Adam as its kernel computes it, in float32.
void update(Parameter& parameter, double updates) {
  const auto step = static_cast<float>(kRate / (1 - std::pow(0.9, updates)));
  const auto correction = static_cast<float>(std::sqrt(1 - std::pow(0.999, updates)));
  for (std::size_t i = 0; i < kElements; ++i) {
    const float gradient = parameter.gradient[i];
    float &first = parameter.first[i], &second = parameter.second[i], &weight = parameter.weight[i];
    first += static_cast<float>(1 - 0.9) * (gradient - first);
    second = second * 0.999F + static_cast<float>(1 - 0.999) * gradient * gradient;
    weight -= step * (first / (std::sqrt(second) / correction + 1e-8F));
    float& average = parameter.average[i];
    average = updates == 1 ? weight : average * static_cast<float>(kDecay) + static_cast<float>(1 - kDecay) * weight;
  }
}

Values scaled(Values values, double factor) {
  for (float& value : values) value *= static_cast<float>(factor);
  return values;
}

void add_state(trace::Step& step, const std::vector<Parameter>& parameters) {
  step.records.push_back(test::integers(Channel::kRng, "cpu", {0, step.step + 1}));
  for (const Parameter& of : parameters) {
    if (step.step < 0) break;
    step.records.push_back(test::floats(Channel::kOptimizer, of.name + ".exp_avg", of.first));
    step.records.push_back(test::floats(Channel::kOptimizer, of.name + ".exp_avg_sq", of.second));
    step.records.push_back(test::scalar(Channel::kOptimizer, of.name + ".step", static_cast<float>(step.step + 1)));
  }
  for (const Parameter& of : parameters) step.records.push_back(test::floats(Channel::kWeight, of.name, of.weight));
  for (const Parameter& of : parameters) {
    if (step.step >= 0) step.records.push_back(test::floats(Channel::kEma, of.name, of.average));
  }
}

/// What each rank records, but for its samples: all compute the same gradients.
trace::Step step_of(std::int64_t number, std::vector<Parameter>& parameters, std::mt19937& random) {
  std::normal_distribution<float> normal(0, 0.01F);
  trace::Step step{.step = number, .records = {}};
  for (Parameter& of : parameters) {
    for (float& value : of.gradient) value = normal(random);
    update(of, static_cast<double>(number + 1));
  }
  for (const char* loss : {"local", "reduced"}) step.records.push_back(test::scalar(Channel::kLoss, loss, 1));
  for (const Channel channel : {Channel::kGradientLocal, Channel::kGradient}) {
    for (const Parameter& of : parameters)
      step.records.push_back(test::floats(channel, of.name, scaled(of.gradient, kScale)));
  }
  for (const Parameter& of : parameters)
    step.records.push_back(test::floats(Channel::kGradient, "unscaled " + of.name, of.gradient));
  add_state(step, parameters);
  for (const trace::Record& entry :
       {test::number("learning_rate", kRate), test::number("loss_scale", kScale), test::integer("loss_denominator", 2),
        test::integer("samples_taken", 2 * (number + 1)), test::integer("updates", number + 1),
        test::integer("epoch", number / 100)})
    step.records.push_back(entry);
  return step;
}

trace::RunTrace synthetic_run() {
  std::mt19937 random(1);
  std::normal_distribution<float> normal(0, 0.05F);
  std::vector<Parameter> parameters(kParameters);
  for (std::size_t i = 0; i < kParameters; ++i) {
    Parameter& of = parameters[i];
    of.name = "layer" + std::to_string(i) + ".weight";
    for (Values* values : {&of.weight, &of.gradient, &of.first, &of.second, &of.average}) values->resize(kElements);
    for (float& value : of.weight) value = normal(random);
  }
  trace::RunTrace run{.run = "synthetic/0", .ranks = {}, .unplaced = {}};
  for (std::size_t rank = 0; rank < kRanks; ++rank)
    run.ranks.push_back(
        {.header = {{"rank", rank}, {"world_size", kRanks}, {"samples", 1600}, {"targets_per_sample", 1}},
         .rank = static_cast<std::int64_t>(rank),
         .world_size = kRanks,
         .complete = true});
  for (std::int64_t number = -1; number < kSteps; ++number) {
    trace::Step step{.step = number, .records = {}};
    if (number < 0) add_state(step, parameters);
    if (number >= 0) step = step_of(number, parameters, random);
    for (std::int64_t rank = 0; rank < static_cast<std::int64_t>(kRanks); ++rank) {
      trace::Step& own = run.ranks[static_cast<std::size_t>(rank)].steps.emplace_back();
      own.step = number;
      const std::int64_t first = number % 100 * 16 + rank;
      if (number >= 0) own.records.push_back(test::integers(Channel::kSamples, "ids", {first, first + 8}));
      own.records.insert(own.records.end(), step.records.begin(), step.records.end());
    }
  }
  return run;
}

struct Judged {
  test::Scratch scratch;
  scenario::Scenario scenario;
  trace::RunTrace run = synthetic_run();

  Judged() {
    const Json train = {{"sampler", {{"kind", "distributed"}, {"shuffle", false}}},
                        {"data", {{"size", 1600}}},
                        {"batch", {{"global", 16}}},
                        {"optimizer", {{"kind", "adam"}, {"lr", kRate}}},
                        {"gradient", {{"loss_scale", kScale}}},
                        {"ema", {{"decay", kDecay}}},
                        {"steps", kSteps}};
    scenario = test::tiny_scenario(
        {{"world_size", kRanks}, {"variants", {{"a", {{"train", train}}}}}, {"checks", {{{"that", "laws"}}}}}, scratch);
  }
};

/// Judges the laws of these names, or all.
void judges(benchmark::State& state, const std::vector<std::string>& names) {
  static const Judged judged;
  std::size_t records = 0;
  for (auto _ : state) {
    records = 0;
    for (const checks::AskedLaw& asked : checks::judge_laws(judged.run, judged.scenario.variant("a"), names)) {
      records += asked.result.compared;
      if (asked.result.divergence) state.SkipWithError(asked.result.divergence->actual.c_str());
    }
  }
  state.counters["judged"] = static_cast<double>(records);
  state.counters["a_step"] = static_cast<double>(judged.run.ranks[0].steps.back().records.size());
}

const bool kRegistered = [] {
  const auto add = [](const std::string& name, const std::vector<std::string>& names) {
    benchmark::RegisterBenchmark(name.c_str(), judges, names)->Unit(benchmark::kMillisecond);
  };
  add("judge/all", {});
  for (const laws::Law& law : laws::all_laws()) add("judge/" + std::string(law.name), {std::string(law.name)});
  return true;
}();

}  // namespace
}  // namespace lockstep
