#include "tests/support/tiny/bench.h"

#include "harness/base/text.h"
#include "harness/judge/run_check.h"

namespace lockstep::test {
namespace {

using checks::CheckResult;

using Traces = std::map<std::string, std::vector<const trace::RunTrace*>>;

Traces traces_of(const std::map<std::string, std::vector<trace::RunTrace>>& runs) {
  Traces traces;
  for (const auto& [variant, repeats] : runs) {
    for (const trace::RunTrace& run : repeats) traces[variant].push_back(&run);
  }
  return traces;
}

std::string shown(const CheckResult& result) {
  std::string shown = "status " + std::to_string(static_cast<int>(result.status)) + ", " +
                      std::to_string(result.compared) + " compared, why: " + result.why;
  if (result.divergence) {
    const compare::Divergence& at = *result.divergence;
    shown += "\n  at step " + std::to_string(at.step) + ", " + std::string(trace::name_of(at.channel)) + " '" +
             at.tensor + "', rank " + std::to_string(at.rank) + "\n  expected " + at.expected + "\n  actual " +
             at.actual + "\n  relation " + at.relation + "\n  cause " + at.cause;
  }
  return shown;
}

}  // namespace

scenario::Scenario tiny_scenario(const Json& changes, const Scratch& scratch) {
  Json document = Json::parse(R"({
    "name": "tiny",
    "description": "Tiny trainings.",
    "world_size": 2,
    "train": {
      "model": {"kind": "mlp", "hidden": [4]},
      "data": {"kind": "synthetic", "size": 24},
      "batch": {"global": 12},
      "optimizer": {"kind": "sgd", "lr": 0.1, "momentum": 0.9},
      "steps": 4
    },
    "checks": []
  })");
  const Json batch = changes.value(Json::json_pointer("/train/batch"), Json::object());
  if (batch.contains("per_rank") || batch.contains("per_node"))
    document["train"]["batch"] = Json::object();  // which has one size
  merge_json(document, changes);
  if (!document.contains("variants")) document["variants"] = {{"a", Json::object()}, {"b", Json::object()}};
  return scenario::load_scenario(scratch.write("tiny.json", document.dump()));
}

diagnosis::Question Bench::question(std::size_t check) const {
  const scenario::CheckSpec none;
  const scenario::CheckSpec& spec = scenario.checks.empty() ? none : scenario.checks.at(check);
  return checks::question_of({.scenario = scenario,
                              .spec = spec,
                              .traces = traces_of(runs),
                              .train_digests = train_digests,
                              .golden_root = scratch.path() / "golden"});
}

Bench::Bench(const Json& changes) : scenario(tiny_scenario(changes, scratch)) {
  for (const scenario::Variant& variant : scenario.variants) {
    for (std::int64_t repeat = 0; repeat < scenario.repeats; ++repeat)
      runs[variant.name].push_back(tiny_run(variant, variant.name + "/" + std::to_string(repeat)));
    train_digests[variant.name] = "digest of " + variant.name;
  }
}

void Bench::rerun(const std::string& variant, const Faults& faults) {
  for (trace::RunTrace& run : runs.at(variant)) run = tiny_run(scenario.variant(variant), run.run, faults);
}

CheckResult Bench::check(std::size_t index) const {
  const scenario::CheckSpec& spec = scenario.checks.at(index);
  return judge::run_check({.scenario = scenario,
                           .spec = spec,
                           .traces = traces_of(runs),
                           .train_digests = train_digests,
                           .golden_root = scratch.path() / "golden"});
}

testing::AssertionResult diverges_at(const CheckResult& result, std::int64_t step, trace::Channel channel,
                                     const std::string& tensor, std::int64_t rank) {
  if (result.status == Status::kDivergence && result.divergence && result.divergence->step == step &&
      result.divergence->channel == channel && result.divergence->tensor == tensor && result.divergence->rank == rank)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << shown(result);
}

testing::AssertionResult agrees(const CheckResult& result) {
  if (result.status == Status::kAgree && result.compared > 0 && !result.divergence) return testing::AssertionSuccess();
  return testing::AssertionFailure() << shown(result);
}

testing::AssertionResult is_inconclusive(const CheckResult& result, const std::string& why) {
  if (result.status == Status::kInconclusive && !result.why.empty() && result.why.find(why) != std::string::npos)
    return testing::AssertionSuccess();
  return testing::AssertionFailure() << shown(result);
}

}  // namespace lockstep::test
