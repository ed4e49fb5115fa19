#include "harness/audit/answer.h"

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::audit {

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

bool is_finding(const Line& line) {
  const bool is_of_another_recipe = info(line.section).is_of_others && line.answer == Answer::kSlip;
  return info(line.answer).mood == Mood::kBad && !is_of_another_recipe;
}

}  // namespace lockstep::audit
