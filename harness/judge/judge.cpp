#include "harness/judge/judge.h"

#include <algorithm>
#include <map>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/diagnosis/diagnose.h"
#include "harness/judge/endings.h"
#include "harness/judge/holdings.h"
#include "harness/judge/left_out.h"
#include "harness/judge/run_check.h"

namespace lockstep::judge {
namespace {

using checks::CheckResult;

Status status_of(CheckResult::Status status) {
  switch (status) {
    case CheckResult::Status::kAgree:
      return Status::kAgree;
    case CheckResult::Status::kDivergence:
      return Status::kDivergence;
    case CheckResult::Status::kBaseline:
      return Status::kBaseline;
    case CheckResult::Status::kInconclusive:
      return Status::kInconclusive;
  }
  return Status::kInconclusive;
}

Status status_of(launch::RunOutcome::Status status, const scenario::Scenario& scenario) {
  using Outcome = launch::RunOutcome::Status;
  switch (status) {
    case Outcome::kFinished:
      return Status::kAgree;
    case Outcome::kFailed:
    case Outcome::kHung:
      return Status::kDivergence;
    case Outcome::kRefused:
      return Status::kInvalid;
    case Outcome::kResource:
    case Outcome::kSkipped:
    case Outcome::kUnknown:
      return Status::kInconclusive;
    case Outcome::kUnsupported:
      return scenario.may_be_unsupported ? Status::kUnsupported : Status::kInconclusive;
    case Outcome::kInterrupted:
      return Status::kInterrupted;
  }
  return Status::kInconclusive;
}

std::string reproduce(const scenario::Scenario& scenario, const std::filesystem::path& golden_root) {
  return "lockstep run " + arguments_of(scenario, golden_root);
}

/// Whether a divergence is the one that the author expected.
bool fits(const scenario::Expectation& expect, const CheckResult& result) {
  const bool anything =
      !expect.step && !expect.channel && !expect.tensor && !expect.rank && !expect.cause && !expect.class_;
  if (!result.divergence) return anything;
  const compare::Divergence& at = *result.divergence;
  return (!expect.cause || *expect.cause == at.cause_id()) && (!expect.class_ || expect.class_ == at.class_) &&
         is_at(expect, at);
}

/// Whether two divergences are one, found in other repeats of the same variants: control runs of one tell of both.
bool is_repetition(const compare::Divergence& one, const compare::Divergence& other) {
  const auto variant = [](const compare::Party& side) { return side.run.substr(0, side.run.rfind('/')); };
  return variant(one.left) == variant(other.left) && variant(one.right) == variant(other.right) &&
         one.place_and_rank() == other.place_and_rank();
}

/// "a/0 and c/0, step 2, weight fc.bias, rank 1", or why it has no place.
std::string told(const CheckResult& result) {
  if (!result.divergence) return result.why;
  const compare::Divergence& at = *result.divergence;
  return at.left.name() + " and " + at.right.name() + ", " + at.place_and_rank();
}

/// Makes another comparison the finding of a check.
void put_first(CheckResult& result, std::size_t other) {
  CheckResult first = std::move(result.others[other]);
  first.compared = result.compared;
  first.others = std::exchange(result.others, {});
  first.others[other] = std::exchange(result, {});
  result = std::move(first);
}

/// An expectation that the finding meets must be met by every other comparison that does not hold.
void hold_others_to(const scenario::Expectation& expect, CheckReport& report) {
  CheckResult& first = report.result;
  for (std::size_t i = 0; i < first.others.size(); ++i) {
    const CheckResult& other = first.others[i];
    if (other.status != CheckResult::Status::kDivergence) {
      if (report.status != Status::kAgree) continue;
      report.status = status_of(other.status);
      first.why = "one comparison fails as expected, and another one is open: " + other.why;
      first.next = other.next;
      continue;
    }
    if (fits(expect, other)) continue;
    if (first.divergence && other.divergence && is_repetition(*other.divergence, *first.divergence)) continue;
    report.status = Status::kDivergence;
    const std::string why =
        "one comparison fails as expected (" + told(first) + "), and another one does not: " + expect.reason;
    if (report.experiments.empty()) {
      put_first(first, i);  // and is looked into next
      first.why = why;
    } else {
      first.why = why + " (" + told(other) + ")";
    }
    return;
  }
}

void apply_expectation(CheckReport& report, const scenario::Expectation& expect, const std::string& today) {
  report.expected_failure = expect.reason;
  if (report.status == Status::kAgree) {
    report.status = Status::kDivergence;
    report.result.why = "the check holds but was expected to fail: " + expect.reason;
    report.result.next = "if this is intended, remove \"expect\" from the check";
  } else if (report.status == Status::kDivergence && expect.until && today >= *expect.until) {
    report.result.why = "this failure was tolerated until " + *expect.until + ": " + expect.reason;
  } else if (report.status == Status::kDivergence && fits(expect, report.result)) {
    report.status = Status::kAgree;
    hold_others_to(expect, report);
  } else if (report.status == Status::kDivergence) {
    report.result.why = "the check fails, but not as expected: " + expect.reason;
  }
}

/// Whether a check is about what the runs recorded, and not about how they ended.
bool asks_for_traces(const scenario::CheckSpec& spec) { return spec.traits().looks_at != scenario::LooksAt::kEndings; }

/// Channels that a check would look at if all its sides recorded them.
std::vector<trace::Channel> usual_channels(const checks::CheckInput& input,
                                           const std::vector<const trace::RunTrace*>& runs) {
  const bool same_shape = std::all_of(runs.begin(), runs.end(),
                                      [&](const trace::RunTrace* run) { return compare::same_shape(*runs[0], *run); });
  std::vector<trace::Channel> channels = checks::channels_of(input.spec.channels, {}, same_shape);
  if (input.spec.traits().wanted == scenario::Wanted::kUpToRounding)
    channels = checks::rounding_channels(input.spec, channels);
  if (input.spec.traits().sides == scenario::Sides::kRanks)
    std::erase_if(channels, [](trace::Channel one) { return trace::info(one).sharing != trace::Sharing::kReplicated; });
  return channels;
}

/// Says what an agreement is not about, and takes it back where the sides left unequal parts out.
void limit(CheckReport& report, const checks::CheckInput& input) {
  CheckResult& result = report.result;
  const scenario::CheckTraits& traits = input.spec.traits();
  if (result.status != CheckResult::Status::kAgree || traits.looks_at != scenario::LooksAt::kRecords) return;
  if (traits.sides == scenario::Sides::kLaw || traits.wanted == scenario::Wanted::kDifferent) return;
  std::vector<const trace::RunTrace*> runs;
  std::vector<const scenario::Promises*> sides;
  for (const std::string& variant : input.spec.variants) {
    runs.insert(runs.end(), input.of(variant).begin(), input.of(variant).end());
    sides.push_back(&input.scenario.variant(variant));
  }
  report.not_compared = channels_left_out(usual_channels(input, runs), sides, runs);
  if (const std::string why = traits.sides == scenario::Sides::kRanks ? "" : muted_otherwise(runs); !why.empty()) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = why;
  }
}

/// An expectation of how runs end is met by all of them, and not by the first alone.
void require_all_as_expected(CheckReport& report, const scenario::Expectation& expect,
                             const checks::CheckInput& input) {
  for (const auto& [variant, endings] : input.endings) {
    for (const checks::Ending& ending : endings) {
      CheckResult of_run{.divergence = ending.failure};
      if (report.status != Status::kAgree || (ending.failure && fits(expect, of_run))) continue;
      report.status = Status::kDivergence;
      report.result.why = ending.run + " does not end as expected: " + expect.reason;
    }
  }
}

/// Judges one check on what its runs left behind.
class Judge {
 public:
  Judge(const plan::Plan& plan, const std::vector<Evidence>& evidence, const std::filesystem::path& golden_root,
        const std::string& today)
      : plan_(plan), evidence_(evidence), golden_root_(golden_root), today_(today) {}

  CheckReport judge(const plan::Check& check) const {
    const scenario::Scenario& scenario = plan_.scenario(check.scenario);
    CheckReport report{.scenario = check.scenario,
                       .index = check.index,
                       .that = check.spec.that,
                       .variants = check.spec.variants,
                       .reproduce = reproduce(scenario, golden_root_)};
    const Holdings holdings = holdings_of(plan_, evidence_, check);
    bool whole = true;
    for (const std::size_t index : asks_for_traces(check.spec) ? holdings.missing : std::vector<std::size_t>()) {
      const Evidence& evidence = evidence_[index];
      if (whole) {
        report.result.why =
            evidence.problem.empty() ? "there is no trace of " + plan_.runs[index].name : evidence.problem;
        report.result.next = evidence.next;
      }
      whole = false;
      const Status of_run = status_of(evidence.outcome.status, scenario);
      report.status =
          std::max(report.status, of_run == Status::kUnsupported ? Status::kUnsupported : Status::kInconclusive);
      report.result.status = CheckResult::Status::kInconclusive;
    }
    if (!whole) return report;
    if (const std::string why = unplaced(holdings); check.spec.traits().between_runs() && !why.empty()) {
      report.status = Status::kInconclusive;
      report.result = {.status = CheckResult::Status::kInconclusive, .why = why};
      return report;
    }
    const checks::CheckInput input = holdings.input(scenario, check.spec, golden_root_);
    report.result = run_check(input);
    report.goldens = report.result.goldens;
    if (report.result.divergence)
      diagnosis::diagnose(question_of(input), *report.result.divergence,
                          {.is_no_rounding = report.result.is_no_rounding});
    for (CheckResult& other : report.result.others) {
      if (other.divergence && check.spec.expect)
        diagnosis::diagnose(question_of(input), *other.divergence, {.is_no_rounding = other.is_no_rounding});
    }
    limit(report, input);
    settle(report, check.spec, today_);
    if (!asks_for_traces(check.spec) && check.spec.expect) require_all_as_expected(report, *check.spec.expect, input);
    return report;
  }

 private:
  const plan::Plan& plan_;
  const std::vector<Evidence>& evidence_;
  const std::filesystem::path& golden_root_;
  const std::string& today_;
};

RunReport report_of(const plan::Plan& plan, const plan::Run& run, const Evidence& evidence,
                    const std::filesystem::path& golden_root) {
  RunReport report{.run = run.name,
                   .status = status_of(evidence.outcome.status, plan.scenario(run.scenario)),
                   .class_ = scenario::Class::kLiveness,
                   .suspects = suspects_in_ending(evidence.outcome),
                   .outcome = std::string(launch::name_of(evidence.outcome.status)),
                   .why = evidence.outcome.why,
                   .log_tail = evidence.outcome.log_tail,
                   .reproduce = reproduce(plan.scenario(run.scenario), golden_root)};
  report.culprit = rank_to_blame(evidence.outcome, report.suspects);
  if (evidence.outcome.status == launch::RunOutcome::Status::kFinished) {
    report.status = Status::kInconclusive;
    report.outcome = "evidence lost";
    report.why = evidence.problem;
    report.next = evidence.next;
  }
  return report;
}

/// A run that ends badly is as it should be where a check expects just that.
void excuse(Verdict& verdict, const plan::Plan& plan) {
  for (std::size_t i = 0; i < verdict.checks.size(); ++i) {
    const CheckReport& check = verdict.checks[i];
    if (asks_for_traces(plan.checks[i].spec) || check.expected_failure.empty() || check.status != Status::kAgree)
      continue;
    for (const std::string& variant : check.variants) {
      for (const std::size_t index : plan.runs_of(check.scenario, variant)) {
        for (RunReport& run : verdict.runs) {
          if (run.run != plan.runs[index].name) continue;
          run.status = Status::kAgree;
          run.expected_failure = check.expected_failure;
        }
      }
    }
  }
}

}  // namespace

bool is_at(const scenario::Expectation& expect, const compare::Divergence& at) {
  return (!expect.step || *expect.step == at.step) &&
         (!expect.channel || (at.phase.empty() && *expect.channel == at.channel)) &&
         (!expect.tensor || *expect.tensor == at.tensor) && (!expect.rank || *expect.rank == at.rank);
}

void diagnose_again(CheckReport& report, const plan::Plan& plan, const std::vector<Evidence>& evidence,
                    const plan::Check& check, diagnosis::Again again) {
  const Holdings holdings = holdings_of(plan, evidence, check);
  if (!report.result.divergence) return;
  const checks::CheckInput input = holdings.input(plan.scenario(check.scenario), check.spec, "");
  diagnosis::diagnose(question_of(input), *report.result.divergence,
                      {.is_no_rounding = report.result.is_no_rounding, .again = again});
}

void settle(CheckReport& report, const scenario::CheckSpec& spec, const std::string& today) {
  report.status = status_of(report.result.status);
  if (spec.expect) apply_expectation(report, *spec.expect, today);
}

Verdict judge(const plan::Plan& plan, const std::vector<Evidence>& evidence, const std::filesystem::path& golden_root,
              const std::string& today) {
  Verdict verdict{.runs_total = plan.runs.size()};
  for (std::size_t i = 0; i < plan.runs.size(); ++i) {
    if (evidence[i].trace) {
      ++verdict.runs_finished;
      if (!evidence[i].doubt.empty())
        verdict.runs.push_back({.run = plan.runs[i].name,
                                .status = Status::kInconclusive,
                                .outcome = "unlike its recipe",
                                .why = evidence[i].doubt,
                                .reproduce = reproduce(plan.scenario(plan.runs[i].scenario), golden_root)});
      if (const auto early = early_end(plan, plan.runs[i], *evidence[i].trace))
        verdict.runs.push_back({.run = plan.runs[i].name,
                                .class_ = *early->class_,
                                .outcome = "ended early",
                                .why = early->cause + "; expected " + early->expected,
                                .reproduce = reproduce(plan.scenario(plan.runs[i].scenario), golden_root)});
      const scenario::Variant& variant = plan.scenario(plan.runs[i].scenario).variant(plan.runs[i].variant);
      for (const std::string& left_out :
           {steps_left_out(*evidence[i].trace, variant), muted_text(*evidence[i].trace)}) {
        if (!left_out.empty()) verdict.warnings.push_back(plan.runs[i].name + ": " + left_out);
      }
      for (const std::string& why : evidence[i].outcome.restarts)
        verdict.warnings.push_back(plan.runs[i].name + ": its launcher started all ranks again, because " + why);
      for (const Json& warning : evidence[i].trace->ranks[0].header.value("warnings", Json::array()))
        verdict.warnings.push_back(plan.runs[i].name + ": " + warning.get<std::string>());
    } else {
      verdict.runs.push_back(report_of(plan, plan.runs[i], evidence[i], golden_root));
    }
  }
  const Judge of_check(plan, evidence, golden_root, today);
  for (const plan::Check& check : plan.checks) verdict.checks.push_back(of_check.judge(check));
  excuse(verdict, plan);
  return verdict;
}

}  // namespace lockstep::judge
