#include "harness/judge/fault_table.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"
#include "harness/judge/alone.h"
#include "harness/judge/recorded.h"

namespace lockstep::judge {
namespace {

using checks::CheckResult;

bool is_located(const scenario::Expectation& expect, const CheckResult& result) {
  return result.divergence && is_at(expect, *result.divergence);
}

/// "equal (a, b)"; of many variants the first and the last.
std::string check_name(const CheckReport& check) {
  constexpr std::size_t kMost = 12;
  const std::vector<std::string>& all = check.variants;
  const std::string that(scenario::name_of(check.that));
  if (all.size() <= kMost) return that + " (" + join(all, ", ") + ")";
  return that + " (" + std::to_string(all.size()) + " variants, " + all.front() + " to " + all.back() + ")";
}

/// Runs of the check's variants in the plan.
std::vector<const trace::RunTrace*> traces_of(const plan::Plan& plan, const std::vector<Evidence>& evidence,
                                              const CheckReport& check) {
  std::vector<const trace::RunTrace*> traces;
  for (const std::string& variant : check.variants) {
    for (const std::size_t index : plan.runs_of(check.scenario, variant))
      traces.push_back(evidence[index].trace ? &*evidence[index].trace : nullptr);
  }
  return traces;
}

/// Whether all runs of a check are one, bit for bit: then nothing was planted.
bool is_inert(const std::vector<const trace::RunTrace*>& traces) {
  if (traces.size() < 2 || std::find(traces.begin(), traces.end(), nullptr) != traces.end()) return false;
  return std::all_of(traces.begin() + 1, traces.end(), [&](const trace::RunTrace* other) {
    return !compare::compare_runs(*traces[0], *other, trace::all_channels(), compare::bitwise).first;
  });
}

/// A run of a scenario as its folder would hold it; nothing where the name is of no run, or it left no trace.
std::optional<Recorded> recorded(const plan::Plan& plan, const std::vector<Evidence>& evidence,
                                 const std::string& scenario, const std::string& name) {
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    const plan::Run& run = plan.runs[i];
    if (run.name == scenario + "/" + name && evidence[i].trace)
      return Recorded{&*evidence[i].trace, &plan.scenario(scenario).variant(run.variant)};
  }
  return std::nullopt;
}

/// The cause that the two runs of a divergence tell by themselves, without scenario and control runs.
std::string cause_by_diff(const plan::Plan& plan, const std::vector<Evidence>& evidence, const CheckReport& report,
                          const scenario::CheckSpec& spec) {
  const auto& at = report.result.divergence;
  const bool for_diff = spec.traits().between_runs() && spec.traits().wanted != scenario::Wanted::kDifferent;
  if (!for_diff || !at || at->left.run == at->right.run) return "";
  const auto left = recorded(plan, evidence, report.scenario, at->left.run);
  const auto right = recorded(plan, evidence, report.scenario, at->right.run);
  if (!left || !right) return "";
  std::optional<Recorded> source;
  for (const Recorded* side : {&*left, &*right}) {
    const auto& load = side->promises->train.checkpoint.load;
    if (!load || load->from.empty()) continue;
    const std::string repeat = side->trace->run.substr(side->trace->run.rfind('/'));
    source = recorded(plan, evidence, report.scenario, load->from + repeat);
  }
  const CheckResult result = judge_pair(*left, *right, spec.channels, source);
  return result.divergence ? result.divergence->cause_id() : "";
}

FaultRow fault_row(const CheckReport& report, const scenario::Expectation& expect,
                   const std::vector<const trace::RunTrace*>& traces) {
  const CheckResult& result = report.result;
  FaultRow row{.scenario = report.scenario,
               .check = check_name(report),
               .reason = expect.reason,
               .planted = expect.cause.value_or(""),
               .class_ = expect.class_,
               .detected = result.status == CheckResult::Status::kDivergence,
               .at = result.divergence ? result.divergence->place_and_rank() : ""};
  row.inert = !row.detected && is_inert(traces);
  if (!result.divergence) return row;
  const auto& suspects = result.divergence->suspects;
  for (std::size_t i = suspects.size(); i-- > 0;) {
    if (suspects[i].cause == row.planted) row.rank_of_cause = i + 1;
  }
  row.found = result.divergence->cause_id();
  if (row.planted == "unknown" && row.found == "unknown") row.rank_of_cause = 1;
  row.class_right = !row.class_ || row.class_ == result.divergence->class_;
  row.located = is_located(expect, result);
  return row;
}

}  // namespace

FaultTable fault_table(const Verdict& verdict, const plan::Plan& plan, const std::vector<Evidence>& evidence) {
  FaultTable table;
  Alone alone(plan, evidence);
  std::set<std::size_t> clean_runs;
  for (std::size_t i = 0; i < verdict.checks.size(); ++i) {
    const CheckReport& report = verdict.checks[i];
    const std::vector<const trace::RunTrace*> traces = traces_of(plan, evidence, report);
    if (const auto& expect = plan.checks[i].spec.expect) {
      table.faults.push_back(fault_row(report, *expect, traces));
      FaultRow& row = table.faults.back();
      row.found_by_diff = cause_by_diff(plan, evidence, report, plan.checks[i].spec);
      for (const std::size_t run : alone.faulty(report, plan.checks[i].spec)) {
        const auto& broken = alone.broken_by(run);
        if (!broken || !row.law.empty()) continue;
        row.law = broken->law->name;
        row.found_alone = broken->result.divergence->cause_id();
      }
    } else {
      for (const std::string& variant : report.variants) {
        for (const std::size_t run : plan.runs_of(report.scenario, variant)) {
          if (evidence[run].trace && !alone.holds_fault(run)) clean_runs.insert(run);
        }
      }
      const bool compares = scenario::traits_of(report.that).looks_at == scenario::LooksAt::kRecords;
      const std::size_t pairs =
          traces.size() > report.variants.size() || traces.size() < 2 ? traces.size() : traces.size() - 1;
      table.clean.push_back({.scenario = report.scenario,
                             .check = check_name(report),
                             .pairs = compares ? pairs : 0,
                             .status = report.status});
    }
  }
  table.clean_runs = clean_runs.size();
  for (const std::size_t run : clean_runs) {
    if (const auto& broken = alone.broken_by(run))
      table.broken_clean.push_back(plan.runs[run].name + ": " + std::string(broken->law->name));
  }
  return table;
}

bool is_right(const FaultRow& row) {
  const bool named = row.rank_of_cause == 1 || row.planted.empty();
  return row.inert || (row.detected && named && row.class_right && row.located);
}

std::vector<std::string> rightly_judged(const FaultTable& table) {
  std::vector<std::string> right;
  for (const FaultRow& row : table.faults) {
    if (!row.inert && is_right(row)) right.push_back(row.check + " (" + row.reason + ")");
  }
  return right;
}

bool perfect(const FaultTable& table) {
  const bool all_inert = !table.faults.empty() && std::all_of(table.faults.begin(), table.faults.end(),
                                                              [](const FaultRow& row) { return row.inert; });
  return !all_inert && table.broken_clean.empty() && std::all_of(table.faults.begin(), table.faults.end(), is_right) &&
         std::all_of(table.clean.begin(), table.clean.end(),
                     [](const CleanRow& row) { return row.status == Status::kAgree; });
}

}  // namespace lockstep::judge
