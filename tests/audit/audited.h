#pragma once

#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "harness/app/chosen.h"
#include "harness/audit/examination.h"

#include "tests/support/tiny/pair.h"

namespace lockstep::test {

using audit::Answer;

/// A recipe of one variant, `main`, in batches of 12 that 1, 2 and 3 ranks divide. `train`: its changes.
inline Json recipe(Json train = Json::object()) {
  const Json batch = train.value("batch", Json{{"global", 12}});
  train.erase("batch");
  return {{"train",
           {{"model", {{"kind", "mlp"}, {"hidden", {6}}}}, {"data", {{"size", 96}}}, {"batch", batch}, {"steps", 4}}},
          {"variants", {{"main", {{"train", train}}}}},
          {"checks", {check_of("laws")}}};
}

/// An audit whose trainings run in memory, as `lockstep audit` makes it.
struct Audited : JudgedInMemory {
  scenario::Scenario scenario;
  std::unique_ptr<audit::Examination> examination;
  audit::Audit result;

  Audited() = default;
  Audited(const Json& recipe, std::vector<std::int64_t> ranks, std::vector<std::string> only = {},
          audit::Kind kind = audit::Kind::kScaling) {
    run(recipe, {.kind = kind, .variant = {}, .ranks = std::move(ranks), .steps = 4, .only = std::move(only)});
  }

  void run(const Json& recipe, audit::Request request) {
    scenario = tiny_scenario(recipe, scratch);
    request.samples = audit::samples_said(scenario, request);
    examination = audit::examination(scenario, request);
    judge(examination->scenario());
    investigate();
    result = examination->answer(plan, verdict, evidence, "lockstep audit");
  }

  const scenario::Variant& variant_of(const plan::Run& run) const { return plan.scenarios[0].variant(run.variant); }

  /// The line with this id; a failure where there is none.
  audit::Line line(const std::string& id) const {
    for (const audit::Line& line : result.lines) {
      if (line.id == id) return line;
    }
    ADD_FAILURE() << "no line " << id;
    return {};
  }

 private:
  void investigate() {
    std::vector<bool> open;
    for (std::size_t check = 0; check < plan.checks.size(); ++check)
      open.push_back(examination->is_open(check, plan, verdict, evidence));
    const auto is_open = [&](std::size_t check) { return open[check]; };
    app::Chosen chosen = app::choose(plan, verdict, is_open);
    experiment::investigate(chosen.verdict, chosen.plan, evidence, kToday, worker.execute());
    std::size_t next = 0;
    for (std::size_t check = 0; check < verdict.checks.size(); ++check) {
      if (is_open(check)) verdict.checks[check] = std::move(chosen.verdict.checks[next++]);
    }
  }
};

/// Whether a line has this answer.
inline testing::AssertionResult answers(const Audited& audited, const std::string& id, Answer answer) {
  const audit::Line line = audited.line(id);
  if (line.answer == answer) return testing::AssertionSuccess();
  return testing::AssertionFailure() << id << " is '" << name_of(line.answer) << "', not '" << name_of(answer) << "'\n"
                                     << line.at << "\n"
                                     << line.cause << "\n"
                                     << line.because;
}

inline bool holds(const std::string& text, const std::string& part) { return text.find(part) != std::string::npos; }

}  // namespace lockstep::test
