#include "harness/report/mutation_text.h"

#include "harness/base/build_id.h"
#include "harness/base/text.h"

namespace lockstep::report {
namespace {

using judge::MutationRow;
using judge::MutationTable;
using judge::PracticeRow;
using Outcome = MutationRow::Outcome;

const char* outcome_name(Outcome outcome) {
  switch (outcome) {
    case Outcome::kRed:
      return "red";
    case Outcome::kGreen:
      return "green";
    case Outcome::kOpen:
      return "open";
  }
  return "open";
}

}  // namespace

std::string to_text(const MutationTable& table) {
  std::string out;
  for (const PracticeRow& practice : table.practices) {
    out += printable(practice.scenario + ": " + practice.name) + "\n";
    out += "  proven by   " + printable(join(practice.proven_by, "; ")) + "\n";
    for (const MutationRow& row : practice.mutations) {
      const char* const label = row.outcome == Outcome::kRed     ? "red         "
                                : row.outcome == Outcome::kGreen ? "GREEN       "
                                                                 : "OPEN        ";
      out += "  " + std::string(label) + printable(row.name) + "\n";
      if (!row.red.empty()) out += "    by        " + printable(join(row.red, "; ")) + "\n";
      if (!row.why.empty()) out += "    because   " + printable(row.why) + "\n";
    }
  }
  const std::size_t red = table.count(Outcome::kRed), green = table.count(Outcome::kGreen),
                    open = table.count(Outcome::kOpen);
  const std::string part = table.part.of == 1 ? ""
                                              : "part " + std::to_string(table.part.number) + "/" +
                                                    std::to_string(table.part.of) + " of the mutations: ";
  out += part + std::to_string(red) + " of " + std::to_string(red + green + open) + " mutations red, " +
         std::to_string(green) + " green, " + std::to_string(open) +
         " open; the scenarios as they are: " + std::string(name_of(table.unmutated)) + "\n";
  return out;
}

Json to_json(const MutationTable& table) {
  Json practices = Json::array();
  for (const PracticeRow& practice : table.practices) {
    Json mutations = Json::array();
    for (const MutationRow& row : practice.mutations)
      mutations.push_back({{"name", row.name},
                           {"outcome", outcome_name(row.outcome)},
                           {"red", row.red},
                           {"why", row.why.empty() ? Json() : Json(row.why)}});
    practices.push_back({{"scenario", practice.scenario},
                         {"file", practice.file},
                         {"practice", practice.name},
                         {"proven_by", practice.proven_by},
                         {"mutations", mutations}});
  }
  return {{"format", "lockstep.mutations/1"},      {"build", build_id()},
          {"status", name_of(table.status())},     {"exit_code", exit_code(table.status())},
          {"unmutated", name_of(table.unmutated)}, {"practices", practices}};
}

}  // namespace lockstep::report
