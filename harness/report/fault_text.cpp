#include "harness/report/fault_text.h"

#include <algorithm>

#include "harness/base/text.h"

namespace lockstep::report {
namespace {

using judge::CleanRow;
using judge::FaultRow;
using judge::FaultTable;
using judge::Status;

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

/// Says that there is more; "" of all checks.
std::string part_line(const plan::Part& part) {
  if (part.of == 1) return "";
  return "part " + std::to_string(part.number) + "/" + std::to_string(part.of) + " of the checks\n";
}

std::string yes(bool holds) { return holds ? "yes" : "**no**"; }

}  // namespace

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
