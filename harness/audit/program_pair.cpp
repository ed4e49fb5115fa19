#include "harness/audit/program_pair.h"

#include <algorithm>
#include <map>
#include <string>
#include <utility>

#include "harness/diagnosis/causes.h"
#include "harness/laws/contents.h"

namespace lockstep::audit {
namespace {

/// The content of each sample of a program where it is taken first, up to a step: by input and sample.
std::map<std::pair<std::string, std::int64_t>, std::uint64_t> first_contents(const trace::RunTrace& run,
                                                                             std::int64_t until) {
  std::map<std::pair<std::string, std::int64_t>, std::uint64_t> contents;
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      if (step.step > until) break;
      for (const auto& [input, samples] : laws::contents_of(step, laws::kMicroBatchOfProgram)) {
        for (const laws::Content& content : samples) contents.try_emplace({input, content.id}, content.digest);
      }
    }
  }
  return contents;
}

}  // namespace

void weigh_program(Line& line, const Statement& statement, const Answers& answers, const Excuser& excuse_of) {
  if (line.answer != Answer::kBroken || statement.claim != Claim::kEqual) return;
  const trace::RunTrace* const one = answers.run_of(statement.variants.front());
  const trace::RunTrace* const other = answers.run_of(statement.variants.back());
  if (one == nullptr || other == nullptr) {
    line.answer = Answer::kCannotTell;  // with options that its author did not choose
    return;
  }
  const compare::Divergence* const found = answers.divergence_of(statement);
  if (found == nullptr) return;
  const std::optional<Excuse> excuse = excuse_of(*one, *other, *found);
  if (!excuse) return;
  line.answer = excuse->answer;
  line.because = excuse->because;
  line.instead = excuse->instead;
  line.cause.clear();
}

bool names_a_mistake(const compare::Divergence& found) {
  if (found.suspects.empty() || found.channel == trace::Channel::kInput) return false;
  return diagnosis::find_cause(found.suspects.front().cause)->class_ != scenario::Class::kExpected;
}

bool gives_other_tensors(const trace::RunTrace& one, const trace::RunTrace& other, std::int64_t until) {
  const auto ours = first_contents(one, until), theirs = first_contents(other, until);
  return std::any_of(theirs.begin(), theirs.end(), [&](const auto& sample) {
    const auto found = ours.find(sample.first);
    return found != ours.end() && found->second != sample.second;
  });
}

}  // namespace lockstep::audit
