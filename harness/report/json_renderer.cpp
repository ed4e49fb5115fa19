#include "harness/base/build_id.h"
#include "harness/base/console.h"
#include "harness/diagnosis/causes.h"
#include "harness/report/renderer.h"

namespace lockstep::report {
namespace {

using judge::CheckReport;
using judge::Experiment;
using judge::RunReport;
using judge::Status;
using judge::Verdict;

Json text_or_null(const std::string& text) { return text.empty() ? Json() : Json(text); }

Json causes_of(const std::vector<compare::Suspect>& suspects) {
  Json causes = Json::array();
  for (const compare::Suspect& suspect : suspects) {
    const diagnosis::Cause& row = *diagnosis::find_cause(suspect.cause);
    causes.push_back(
        {{"id", row.id}, {"sentence", row.sentence}, {"remedy", row.remedy}, {"evidence", suspect.evidence}});
  }
  return causes;
}

Json json_of(const RunReport& run) {
  return {{"run", run.run},
          {"status", name_of(run.status)},
          {"class", run.status == Status::kDivergence ? Json(name_of(run.class_)) : Json()},
          {"cause", run.suspects.empty() ? Json("unknown") : Json(run.suspects[0].cause)},
          {"causes", causes_of(run.suspects)},
          {"expected_failure", text_or_null(run.expected_failure)},
          {"outcome", run.outcome},
          {"culprit_rank", run.culprit ? Json(*run.culprit) : Json()},
          {"why", run.why},
          {"log_tail", run.log_tail},
          {"next", text_or_null(run.next)},
          {"reproduce", run.reproduce}};
}

Json json_of(const std::vector<Experiment>& experiments) {
  Json all = Json::array();
  for (const Experiment& one : experiments) all.push_back({{"control", one.control}, {"shows", one.shows}});
  return all;
}

Json json_of(const CheckReport& check) {
  const checks::CheckResult& result = check.result;
  return {{"name", check.scenario + ": checks." + std::to_string(check.index) + " " + std::string(name_of(check.that))},
          {"scenario", check.scenario},
          {"check", check.index},
          {"relation", name_of(check.that)},
          {"variants", check.variants},
          {"status", name_of(check.status)},
          {"class", result.divergence ? text_or_null(std::string(result.divergence->class_name())) : Json()},
          {"cause", result.divergence ? Json(result.divergence->cause_id()) : Json()},
          {"causes", result.divergence ? causes_of(result.divergence->suspects) : Json::array()},
          {"explanation", result.divergence ? text_or_null(result.divergence->cause) : Json()},
          {"records_compared", result.compared},
          {"not_compared", check.not_compared},
          {"evidence", result.divergence ? text_or_null(result.divergence->relation) : Json()},
          {"first_divergence", result.divergence ? to_json(*result.divergence) : Json()},
          {"experiments", json_of(check.experiments)},
          {"decided_by", text_or_null(check.decided_by)},
          {"expected_failure", text_or_null(check.expected_failure)},
          {"why", text_or_null(result.why)},
          {"next", text_or_null(result.next)},
          {"reproduce", check.reproduce}};
}

Json json_of(const std::vector<compare::Pattern>& patterns) {
  Json all = Json::array();
  for (const compare::Pattern& pattern : patterns) all.push_back({{"pattern", pattern.id}, {"text", pattern.text}});
  return all;
}

Json names_of(const std::vector<scenario::Practice>& practices) {
  Json names = Json::array();
  for (const scenario::Practice& practice : practices) names.push_back(practice.name);
  return names;
}

Json number_or_null(const std::optional<double>& number) { return number ? Json(*number) : Json(); }

Json json_of(const compare::Element& element) {
  return {{"index", element.index},
          {"left", element.left},
          {"right", element.right},
          {"left_bits", element.left_bits},
          {"right_bits", element.right_bits},
          {"ulps", element.ulps ? Json(*element.ulps) : Json()},
          {"ratio", number_or_null(element.ratio())},
          {"unequal", element.unequal},
          {"of", element.of},
          {"largest", element.largest},
          {"factor", number_or_null(element.factor)}};
}

Json json_of(const compare::OperatorFinding& finding) {
  return {{"says", name_of(finding.says)}, {"index", finding.index},    {"name", finding.call.name},
          {"phase", finding.call.phase},   {"node", finding.call.node}, {"parameters", finding.call.parameters},
          {"text", finding.text}};
}

class JsonRenderer : public Renderer {
 public:
  std::string render(const Verdict& verdict, const plan::Plan& plan) const override {
    return page_of(to_json(verdict, plan));
  }
};

}  // namespace

Json to_json(const compare::Divergence& divergence) {
  return {{"step", divergence.step},
          {"phase", text_or_null(divergence.phase)},
          {"channel", text_or_null(std::string(divergence.channel_name()))},
          {"tensor", divergence.tensor},
          {"rank", divergence.rank},
          {"patterns", json_of(divergence.patterns)},
          {"element", divergence.element ? json_of(*divergence.element) : Json()},
          {"operator", divergence.operator_ ? json_of(*divergence.operator_) : Json()},
          {"values", {{"left", divergence.expected}, {"right", divergence.actual}}},
          {"left", divergence.left.name()},
          {"right", divergence.right.name()},
          {"expected", divergence.expected},
          {"actual", divergence.actual},
          {"relation", divergence.relation}};
}

Json to_json(const Verdict& verdict, const plan::Plan& plan) {
  Json scenarios = Json::array(), runs = Json::array(), checks = Json::array();
  for (const scenario::Scenario& scenario : plan.scenarios) {
    scenarios.push_back({{"name", scenario.name},
                         {"description", scenario.description},
                         {"practices", names_of(scenario.practices)},
                         {"file", scenario.file.string()},
                         {"overrides", scenario.overrides},
                         {"status", name_of(verdict.status_of(scenario.name))}});
  }
  for (const RunReport& run : verdict.runs) runs.push_back(json_of(run));
  for (const CheckReport& check : verdict.checks) checks.push_back(json_of(check));
  return {{"format", "lockstep.result/1"},
          {"build", build_id()},
          {"status", name_of(verdict.status())},
          {"exit_code", exit_code(verdict.status())},
          {"runs_total", verdict.runs_total},
          {"runs_finished", verdict.runs_finished},
          {"wall_s", verdict.wall_s},
          {"scenarios", scenarios},
          {"failed_runs", runs},
          {"warnings", verdict.warnings},
          {"checks", checks}};
}

std::unique_ptr<Renderer> make_json_renderer() { return std::make_unique<JsonRenderer>(); }

}  // namespace lockstep::report
