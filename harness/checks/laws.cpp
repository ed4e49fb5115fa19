#include "harness/checks/laws.h"

#include "harness/diagnosis/clipping.h"
#include "harness/diagnosis/reduction.h"

namespace lockstep::checks {
namespace {

std::vector<compare::Suspect> suspects_in(const laws::Breach& breach, const laws::Law& law, const trace::RunTrace& run,
                                          const scenario::Promises& promises) {
  if (!breach.cause.empty()) return {{breach.cause, {breach.evidence}}};
  if (law.name == "reduction") return diagnosis::suspects_in_reduction(run, promises, breach.at.step);
  if (law.name == "clipping") return diagnosis::suspects_in_clipping(run, promises, breach.at.step);
  return {};
}

}  // namespace

CheckResult judge_law(const laws::Law& law, const trace::RunTrace& run, const scenario::Promises& promises) {
  const laws::Outcome outcome = laws::ask(law, run, promises);
  CheckResult result{.compared = outcome.judged};
  if (outcome.broken) {
    const laws::Breach& breach = *outcome.broken;
    result.status = CheckResult::Status::kDivergence;
    result.divergence = compare::Divergence{.step = breach.at.step,
                                            .channel = breach.at.channel,
                                            .tensor = breach.at.tensor,
                                            .rank = breach.at.rank,
                                            .left = law.name == "reduction" ? "the ranks' own gradients" : "law",
                                            .right = run.run,
                                            .expected = breach.expected,
                                            .actual = breach.actual,
                                            .relation = breach.relation,
                                            .class_ = scenario::Class::kSemantic,
                                            .cause = std::string(law.when_broken),
                                            .suspects = suspects_in(breach, law, run, promises)};
  } else if (!outcome.because.empty()) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = outcome.because;
    result.next = outcome.next;
  } else if (outcome.hidden) {
    hide_from(result, *outcome.hidden, run.run);
  }
  return result;
}

}  // namespace lockstep::checks
