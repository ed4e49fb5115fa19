#include "harness/report/faults.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"
#include "harness/report/alone.h"
#include "harness/report/recorded.h"

namespace lockstep::report {
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

bool is_between_runs(const FaultRow& row) { return !row.found_by_diff.empty(); }
bool is_same_by_diff(const FaultRow& row) { return row.found_by_diff == row.found; }
bool names_a_cause(const FaultRow& row) { return !row.planted.empty(); }
bool names_a_row(const FaultRow& row) { return names_a_cause(row) && row.planted != "unknown"; }
bool is_found_alone(const FaultRow& row) { return !row.law.empty(); }
bool is_named_alone(const FaultRow& row) { return is_found_alone(row) && names_a_cause(row); }
bool is_any(const FaultRow&) { return true; }

/// How many of those that count hold, of how many.
template <typename Holds>
std::string share(const std::vector<FaultRow>& rows, Holds holds, bool (*counts)(const FaultRow&) = is_any) {
  std::size_t of = 0, count = 0;
  for (const FaultRow& row : rows) {
    if (row.inert || !counts(row)) continue;
    ++of;
    count += holds(row) ? 1 : 0;
  }
  return std::to_string(count) + " of " + std::to_string(of);
}

bool is_alarm(const CleanRow& row) { return row.status == Status::kDivergence; }

/// Figures by name.
std::vector<std::pair<std::string, std::string>> figures(const FaultTable& table) {
  const auto inert =
      std::count_if(table.faults.begin(), table.faults.end(), [](const FaultRow& row) { return row.inert; });
  std::size_t pairs = 0, alarms = 0, open = 0;
  for (const CleanRow& row : table.clean) {
    pairs += row.pairs;
    alarms += is_alarm(row) ? 1 : 0;
    open += row.status != Status::kAgree && !is_alarm(row) ? 1 : 0;
  }
  return {{"detected", share(table.faults, [](const FaultRow& row) { return row.detected; })},
          {"cause right", share(
                              table.faults, [](const FaultRow& row) { return row.rank_of_cause == 1; }, names_a_cause)},
          {"cause right, where one is known",
           share(
               table.faults, [](const FaultRow& row) { return row.rank_of_cause == 1; }, names_a_row)},
          {"cause among the first three",
           share(
               table.faults, [](const FaultRow& row) { return row.rank_of_cause >= 1 && row.rank_of_cause <= 3; },
               names_a_cause)},
          {"class right", share(table.faults, [](const FaultRow& row) { return row.detected && row.class_right; })},
          {"located right", share(table.faults, [](const FaultRow& row) { return row.located; })},
          {"same cause by diff alone", share(table.faults, is_same_by_diff, is_between_runs)},
          {"found without a twin", share(table.faults, is_found_alone)},
          {"cause right without a twin",
           share(
               table.faults, [](const FaultRow& row) { return row.found_alone == row.planted; }, is_named_alone)},
          {"inert, and left out of these", std::to_string(inert) + " of " + std::to_string(table.faults.size())},
          {"false alarms", std::to_string(alarms) + " in " + std::to_string(pairs) + " clean pairs"},
          {"laws broken by clean runs",
           std::to_string(table.broken_clean.size()) + " in " + std::to_string(table.clean_runs) + " runs"},
          {"clean checks left open", std::to_string(open) + " of " + std::to_string(table.clean.size())}};
}

bool is_right(const FaultRow& row) {
  const bool named = row.rank_of_cause == 1 || !names_a_cause(row);
  return row.inert || (row.detected && named && row.class_right && row.located);
}

/// Says that there is more; "" of all checks.
std::string part_line(const plan::Part& part) {
  if (part.of == 1) return "";
  return "part " + std::to_string(part.number) + "/" + std::to_string(part.of) + " of the checks\n";
}

std::string yes(bool holds) { return holds ? "yes" : "**no**"; }

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

std::string to_text(const FaultTable& table) {
  std::string out = part_line(table.part);
  for (const FaultRow& row : table.faults) {
    if (is_right(row)) continue;
    const std::string found = row.found.empty() ? "nothing" : row.found;
    out += (row.detected ? "WRONG   " : "MISSED  ") + printable(row.scenario + ": " + row.check) + "\n";
    out += "  planted   " + printable(row.planted + ": " + row.reason) + "\n";
    out += "  found     " + printable(found + (row.at.empty() ? "" : ", " + row.at)) + "\n";
  }
  for (const FaultRow& row : table.faults) {
    if (!is_between_runs(row) || is_same_by_diff(row)) continue;
    out += "BY DIFF " + printable(row.scenario + ": " + row.check) + "\n";
    out += "  named     " + row.found + ", by diff alone " + row.found_by_diff + "\n";
  }
  for (const CleanRow& row : table.clean) {
    if (row.status == Status::kAgree) continue;
    out += (is_alarm(row) ? "ALARM   " : "OPEN    ") + printable(row.scenario + ": " + row.check) + "\n";
  }
  for (const std::string& broken : table.broken_clean) out += "ALARM   " + printable(broken) + "\n";
  for (const auto& [name, value] : figures(table)) out += padded(name, 32) + value + "\n";
  return out;
}

std::string to_markdown(const FaultTable& table) {
  std::string out =
      "# Planted faults and how lockstep judges them\n\n"
      "Written by `lockstep faults --markdown` from the scenarios in `scenarios/faults` and `scenarios/traps`; change "
      "it "
      "there.\n\n";
  if (const std::string line = part_line(table.part); !line.empty()) out += "Only " + line + "\n";
  out += "| figure | value |\n|---|---|\n";
  for (const auto& [name, value] : figures(table)) out += "| " + name + " | " + value + " |\n";
  out +=
      "\n| planted | cause | scenario and check | detected | named first | right at | located | without a twin |\n"
      "|---|---|---|---|---|---|---|---|\n";
  for (const FaultRow& row : table.faults) {
    out += "| " +
           printable(row.reason + " | " + (row.planted.empty() ? "any" : "`" + row.planted + "`") + " | " +
                     row.scenario + ": " + row.check + " | " + (row.inert ? "inert" : yes(row.detected)) + " | `" +
                     row.found + "` | " + (row.rank_of_cause > 0 ? std::to_string(row.rank_of_cause) : "**-**") +
                     " | " + (row.located ? row.at : "**no**: " + row.at) + " | " +
                     (row.law.empty() ? "-" : row.law + ", `" + row.found_alone + "`") + " |") +
           "\n";
  }
  out += "\n## Clean variations\n\n| scenario and check | pairs | verdict |\n|---|---|---|\n";
  for (const CleanRow& row : table.clean) {
    out += "| " + printable(row.scenario + ": " + row.check) + " | " + std::to_string(row.pairs) + " | " +
           std::string(name_of(row.status)) + " |\n";
  }
  return out;
}

}  // namespace lockstep::report
