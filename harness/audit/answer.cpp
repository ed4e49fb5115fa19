#include "harness/audit/answer.h"

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::audit {

std::string in_words(Answer equality) {
  return equality == Answer::kIdentical ? "equal in every bit" : "equal up to rounding";
}

Answer answer_named(const std::string& name, const std::string& where) {
  std::vector<std::string> names;
  for (const AnswerInfo& row : kAnswers) {
    if (row.name == name) return row.answer;
    names.emplace_back(row.name);
  }
  throw InputError({.what = "unknown answer '" + name + "'",
                    .where = where,
                    .expected = "one of: " + join(names, ", "),
                    .next = suggest(name, names)});
}

std::string id_of_cause(const Line& line) {
  const std::string id = line.cause.substr(0, line.cause.find(':'));
  return id.find('.') == std::string::npos || id.find(' ') != std::string::npos ? "" : id;
}

bool is_finding(const Line& line) {
  const bool is_of_another_recipe = info(line.section).is_of_others && line.answer == Answer::kSlip;
  return info(line.answer).mood == Mood::kBad && !is_of_another_recipe;
}

}  // namespace lockstep::audit
