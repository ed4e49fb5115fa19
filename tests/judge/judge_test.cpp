#include <filesystem>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/judge/left_out.h"
#include "harness/judge/recorded.h"
#include "harness/report/renderer.h"

#include "tests/support/tiny/judged.h"

// From what runs left behind to a verdict: outcomes, lost evidence, expectations.

namespace lockstep::test {
namespace {

using Outcome = launch::RunOutcome::Status;
using VerdictStatus = judge::Status;
using trace::Channel;

TEST(Judge, AgreesOnWholeEvidence) {
  const Judged judged(equal_pair());
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kAgree);
  EXPECT_EQ(verdict.runs_finished, 2U);
  EXPECT_TRUE(verdict.runs.empty());
  EXPECT_GT(verdict.checks.at(0).result.compared, 0U);
}

TEST(Judge, SaysWhichChannelsAnAgreementIsNotAbout) {
  EXPECT_TRUE(Judged(equal_pair()).verdict().checks.at(0).not_compared.empty());
  Json narrow = equal_pair();
  narrow["variants"]["a"] = Json::object();
  narrow["variants"]["b"]["train"]["record"]["channels"] = {"samples", "input", "rng", "loss", "optimizer", "weight"};
  Judged judged(narrow);
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kAgree);
  EXPECT_EQ(verdict.checks.at(0).not_compared, (std::vector<std::string>{"gradient.local", "gradient", "buffer", "ema",
                                                                         "metric", "ledger", "collective"}));
  EXPECT_NE(report::make_text_renderer(false)
                ->render(verdict, judged.plan)
                .find("NOTE  tiny: equal did not compare gradient.local"),
            std::string::npos);
}

TEST(Judge, ADifferenceThatMustBeThereLeavesNothingOut) {
  Json narrow = equal_pair();
  narrow["checks"][0]["that"] = "differs";
  narrow["variants"] = {
      {"a", Json::object()},
      {"b", {{"train", {{"record", {{"channels", {"samples", "input", "rng", "loss", "weight"}}}}}}}}};
  Judged judged(narrow);
  for (const std::int64_t rank : {0, 1}) put(judged.traces[1], rank, 2, scalar(Channel::kLoss, "reduced", 77));
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.checks.at(0).status, VerdictStatus::kAgree) << verdict.checks.at(0).result.why;
  EXPECT_EQ(verdict.checks.at(0).not_compared, std::vector<std::string>());
}

TEST(Judge, PassesADivergenceOn) {
  Judged judged(equal_pair());
  spoil(judged.traces[1], 1, 2, Channel::kLoss, "local");
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kDivergence);
  EXPECT_TRUE(diverges_at(verdict.checks.at(0).result, 2, Channel::kLoss, "local", 1));
}

TEST(Judge, MapsEveryOutcomeOfARun) {
  const std::tuple<Outcome, VerdictStatus, VerdictStatus> rows[] = {
      {Outcome::kFailed, VerdictStatus::kDivergence, VerdictStatus::kInconclusive},
      {Outcome::kHung, VerdictStatus::kDivergence, VerdictStatus::kInconclusive},
      {Outcome::kRefused, VerdictStatus::kInvalid, VerdictStatus::kInconclusive},
      {Outcome::kResource, VerdictStatus::kInconclusive, VerdictStatus::kInconclusive},
      {Outcome::kSkipped, VerdictStatus::kInconclusive, VerdictStatus::kInconclusive},
      {Outcome::kUnsupported, VerdictStatus::kInconclusive, VerdictStatus::kInconclusive},
      {Outcome::kInterrupted, VerdictStatus::kInterrupted, VerdictStatus::kInconclusive},
  };
  for (const auto& [outcome, of_run, of_check] : rows) {
    Judged judged(equal_pair());
    judged.outcomes[1].status = outcome;
    judged.outcomes[1].culprit = 1;
    judged.outcomes[1].why = "because";
    const judge::Verdict verdict = judged.verdict();
    const std::string name(launch::name_of(outcome));
    ASSERT_EQ(verdict.runs.size(), 1U) << name;
    EXPECT_EQ(verdict.runs[0].status, of_run) << name;
    EXPECT_EQ(verdict.runs[0].outcome, name);
    EXPECT_EQ(verdict.runs[0].culprit, 1);
    EXPECT_EQ(verdict.checks.at(0).status, of_check) << name;
    EXPECT_EQ(verdict.status(), std::max(of_run, of_check)) << name;
    EXPECT_EQ(verdict.runs_finished, 1U) << name;
  }
}

TEST(Judge, CallsARunUnsupportedOnlyWhenTheScenarioAllowsIt) {
  Json allowing = equal_pair();
  allowing["may_be_unsupported"] = true;
  Judged judged(allowing);
  judged.outcomes[1].status = Outcome::kUnsupported;
  EXPECT_EQ(judged.verdict().runs.at(0).status, VerdictStatus::kUnsupported);
  EXPECT_EQ(judged.verdict().checks.at(0).status, VerdictStatus::kUnsupported);
  EXPECT_EQ(judged.verdict().status(), VerdictStatus::kUnsupported);
}

TEST(Judge, TakesTheWorseOfTwoRunsThatFailed) {
  Json allowing = equal_pair();
  allowing["may_be_unsupported"] = true;
  Judged judged(allowing);
  judged.outcomes[0].status = Outcome::kUnsupported;
  judged.outcomes[1].status = Outcome::kResource;
  EXPECT_EQ(judged.verdict().checks.at(0).status, VerdictStatus::kInconclusive);
}

TEST(Judge, NeverJudgesOnFewerRepeatsThanPlanned) {
  Json changes = {{"repeats", 3}, {"checks", {{{"that", "repeatable"}}}}};
  Judged judged(changes);
  judged.outcomes[2].status = Outcome::kHung;
  EXPECT_EQ(judged.verdict().checks.at(0).status, VerdictStatus::kInconclusive) << "two repeats of three are equal";
}

TEST(Judge, NeedsTheEvidenceOfItsOwnVariantsOnly) {
  Json changes = equal_pair();
  changes["variants"] = {{"a", Json::object()}, {"b", Json::object()}, {"c", Json::object()}};
  Judged judged(changes);
  judged.outcomes[2].status = Outcome::kFailed;
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.checks.at(0).status, VerdictStatus::kAgree);
  EXPECT_EQ(verdict.status(), VerdictStatus::kDivergence) << "the crash of the third stays a divergence of liveness";
}

TEST(Judge, ToldNothingOfAMissingTraceStillKnowsItIsMissing) {
  Judged judged(equal_pair());
  std::vector<judge::Evidence> evidence = judged.evidence();
  evidence[1].trace.reset();
  evidence[1].problem.clear();
  const judge::Verdict verdict = judge::judge(judged.plan, evidence, "", "2027-06-15");
  EXPECT_EQ(verdict.checks.at(0).status, VerdictStatus::kInconclusive);
  EXPECT_EQ(verdict.status(), VerdictStatus::kInconclusive);
}

/// Loses evidence of a run that finished; the verdict must be inconclusive and say why.
void expect_lost(const std::function<void(const std::filesystem::path&)>& lose, const std::string& why) {
  Judged judged(equal_pair());
  judged.evidence();
  lose(judged.folder(1));
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kInconclusive) << why;
  ASSERT_EQ(verdict.runs.size(), 1U) << why;
  EXPECT_EQ(verdict.runs[0].outcome, "evidence lost");
  EXPECT_NE(verdict.runs[0].why.find(why), std::string::npos) << verdict.runs[0].why;
  EXPECT_EQ(verdict.checks.at(0).result.why, verdict.runs[0].why);
}

TEST(JudgeOfLostEvidence, MissesAStepThatOneRankAloneRecorded) {
  for (const std::int64_t rank : {0, 1}) {
    Judged judged(equal_pair());
    erase_step(judged.traces[1], rank, 2);
    const judge::Verdict verdict = judged.verdict();
    EXPECT_EQ(verdict.status(), VerdictStatus::kInconclusive);
    ASSERT_EQ(verdict.runs.size(), 1U);
    EXPECT_EQ(verdict.runs[0].outcome, "evidence lost");
    EXPECT_NE(verdict.runs[0].why.find("step 2 is missing in "), std::string::npos) << verdict.runs[0].why;
  }
}

TEST(JudgeOfLostEvidence, MissesAPartOfARecord) {
  for (const bool is_largest : {true, false}) {
    Judged judged(equal_pair());
    trace::Record& record = at(judged.traces[1], 0, 1, Channel::kGradient, "fc.bias");
    (is_largest ? record.max_abs : record.norm).reset();
    const judge::Verdict verdict = judged.verdict();
    ASSERT_EQ(verdict.runs.size(), 1U);
    EXPECT_NE(verdict.runs[0].why.find("gradient fc.bias lacks its norm"), std::string::npos) << verdict.runs[0].why;
  }
}

TEST(JudgeOfLostEvidence, MissesTheLastCollectiveOfAStep) {
  Json changes = equal_pair();
  changes["train"]["steps"] = 6;
  Judged judged(changes);
  for (trace::Trace& rank : judged.traces[1].ranks) {
    for (trace::Step& step : rank.steps) {
      const auto count = std::count_if(step.records.begin(), step.records.end(), [](const trace::Record& record) {
        return record.channel == Channel::kCollective;
      });
      if (step.step >= 0 && step.step != 4)
        step.records.push_back(text(Channel::kCollective, std::to_string(count), "allreduce Float[4] SUM"));
    }
  }
  const judge::Verdict verdict = judged.verdict();
  ASSERT_EQ(verdict.runs.size(), 1U);
  EXPECT_NE(verdict.runs[0].why.find("collectives, and other steps"), std::string::npos) << verdict.runs[0].why;
}

TEST(JudgeOfLostEvidence, TheLastStepIsRecordedWhateverTheStride) {
  const auto why = [](std::int64_t left_out) {
    Json changes = equal_pair();
    changes["train"]["record"]["every"] = 2;
    Judged judged(changes);
    for (const std::int64_t rank : {0, 1}) {
      for (trace::RunTrace& run : judged.traces) {
        std::erase_if(run.ranks[static_cast<std::size_t>(rank)].steps,
                      [&](const trace::Step& step) { return step.step == 1 || step.step == left_out; });
      }
    }
    return judged.evidence()[0].problem;
  };
  EXPECT_EQ(why(1), "") << "steps -1, 0, 2 and 3";
  EXPECT_NE(why(2).find("lacks step 2"), std::string::npos) << why(2);
}

/// DDP's join lets a rank without batches end before others.
TEST(JudgeOfLostEvidence, UnderJoinARankMayEndFirst) {
  const auto outcome = [](bool joins, bool at_end) {
    Judged judged(equal_pair());
    trace::RunTrace& run = judged.traces[1];
    if (joins) {
      for (trace::Trace& rank : run.ranks) rank.header["seen"] = {{"ddp", {{"join", true}}}};
    }
    const std::int64_t last = run.ranks[1].steps.back().step;
    erase_step(run, 1, at_end ? last : last - 1);
    const judge::Verdict verdict = judged.verdict();
    return verdict.runs.empty() ? "" : verdict.runs[0].outcome;
  };
  EXPECT_EQ(outcome(true, true), "");
  EXPECT_EQ(outcome(true, false), "evidence lost");
  EXPECT_EQ(outcome(false, true), "evidence lost");
}

TEST(JudgeOfLostEvidence, IsInconclusive) {
  expect_lost(
      [](const auto& folder) {
        std::filesystem::remove_all(folder);
        std::filesystem::create_directories(folder);
      },
      "cannot read a file");
  expect_lost([](const auto& folder) { std::filesystem::remove(folder / "rank1.jsonl"); }, "rank1.jsonl");
  expect_lost([](const auto& folder) { std::filesystem::resize_file(folder / "rank0.jsonl", 0); }, "torn");
  expect_lost([](const auto& folder) { std::filesystem::resize_file(folder / "rank1.jsonl", 0); }, "torn");
  expect_lost(
      [](const auto& folder) {
        std::filesystem::resize_file(folder / "rank1.jsonl", std::filesystem::file_size(folder / "rank1.jsonl") - 1);
      },
      "torn");
  expect_lost(
      [](const auto& folder) {
        std::string content = read_file(folder / "rank1.jsonl");
        content[content.find("\"step\":2") + 7] = '3';
        replace_file(folder / "rank1.jsonl", content);
      },
      "damaged");
  expect_lost(
      [](const auto& folder) {
        std::filesystem::copy_file(folder / "rank0.jsonl", folder / "rank1.jsonl",
                                   std::filesystem::copy_options::overwrite_existing);
      },
      "do not belong to one run");
}

TEST(JudgeOfLostEvidence, IsInconclusiveOnTheTracesOfAnotherRun) {
  const std::pair<const char*, const char*> keys[] = {{"train_digest", "x"}, {"variant", "a"}, {"scenario", "other"}};
  for (const auto& [key, value] : keys) {
    for (const std::size_t rank : {0, 1}) {
      Judged judged(equal_pair());
      judged.traces[1].ranks[rank].header[key] = value;
      const judge::Verdict verdict = judged.verdict();
      EXPECT_EQ(verdict.status(), VerdictStatus::kInconclusive) << key << " of rank " << rank;
      ASSERT_EQ(verdict.runs.size(), 1U) << key << " of rank " << rank;
      EXPECT_NE(verdict.runs[0].why.find("belong to different runs: " + std::string(key)), std::string::npos)
          << verdict.runs[0].why;
    }
  }
}

TEST(JudgeOfLostEvidence, IsInconclusiveWhereAllRanksAreOfAnotherRun) {
  Judged judged(equal_pair());
  for (trace::Trace& rank : judged.traces[1].ranks) rank.header["train_digest"] = "x";
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kInconclusive);
  EXPECT_NE(verdict.runs.at(0).why.find("belong to another run"), std::string::npos) << verdict.runs[0].why;
}

TEST(JudgeOfLostEvidence, IsInconclusiveBesideARankTooMany) {
  Judged judged(equal_pair());
  judged.evidence();
  std::filesystem::copy_file(judged.folder(1) / "rank1.jsonl", judged.folder(1) / "rank2.jsonl");
  const judge::Verdict verdict = judged.verdict();
  EXPECT_EQ(verdict.status(), VerdictStatus::kInconclusive);
  EXPECT_NE(verdict.runs.at(0).why.find("more traces than ranks"), std::string::npos) << verdict.runs[0].why;
  EXPECT_THROW(judge::read_recording(judged.folder(1)), DamagedFile) << "diff reads it, too";
}

TEST(Judge, ARunWithoutAStepDidNotFinish) {
  Json changes = {{"variants", {{"a", Json::object()}}}, {"checks", {{{"that", "finishes"}}}}};
  Judged judged(changes);
  EXPECT_EQ(judged.verdict().status(), VerdictStatus::kAgree);
  Judged empty(changes);
  for (trace::Trace& rank : empty.traces[0].ranks) rank.steps.clear();
  const judge::Verdict verdict = empty.verdict();
  EXPECT_EQ(verdict.checks.at(0).status, VerdictStatus::kDivergence);
  EXPECT_EQ(verdict.runs.at(0).outcome, "ended early");
}

TEST(Recorded, PromisesAreThoseOfTheRunBesideThem) {
  Judged judged(equal_pair());
  judged.evidence();
  Json spec = std::get<plan::WorkerProgram>(judged.plan.runs[0].program).spec;
  judged.scratch.write(std::filesystem::relative(judged.folder(0), judged.scratch.path()) / "run.json", spec.dump());
  const judge::Recording own = judge::read_recording(judged.folder(0));
  EXPECT_TRUE(own.promises) << own.no_promises;
  spec["train_digest"] = "x";
  judged.scratch.write(std::filesystem::relative(judged.folder(0), judged.scratch.path()) / "run.json", spec.dump());
  const judge::Recording other = judge::read_recording(judged.folder(0));
  EXPECT_FALSE(other.promises);
  EXPECT_NE(other.no_promises.find("of another run"), std::string::npos) << other.no_promises;
}

// A program's recorder does not know which step is the last: a verdict says up to where it holds.
TEST(Recorded, TellsWhichStepsNobodyRecorded) {
  Judged judged(equal_pair());
  scenario::Promises promises = judged.plan.scenarios[0].variant("a");
  const trace::RunTrace& run = judged.traces[0];  // steps -1 to 3
  promises.train.record.every = 3;
  const std::string between = "of every 3 updates one is recorded: the steps between were not compared";
  EXPECT_EQ(judge::steps_left_out(run, promises), between) << "our own worker records its last step";
  promises.known.emplace();
  EXPECT_EQ(judge::steps_left_out(run, promises), between + ", nor those after step 3");
  promises.known->insert("steps");
  EXPECT_EQ(judge::steps_left_out(run, promises), between) << "of 4 steps, the last is there";
  promises.train.record.every = 1;
  EXPECT_EQ(judge::steps_left_out(run, promises), "");
}

TEST(Recorded, CountsTheUpdatesThatOneRankLeftOut) {
  Judged judged(equal_pair());
  const auto mute = [&](std::int64_t rank, std::int64_t step, std::int64_t updates) {
    step_at(judged.traces[0], rank, step).records.push_back(integer("seen.muted", updates));
  };
  mute(0, 1, 2);
  mute(0, 2, 1);
  mute(1, 2, 1);
  EXPECT_EQ(judge::muted_updates(judged.traces[0]), 3) << "the rank with the most of them";
  EXPECT_EQ(judge::muted_updates(judged.traces[1]), 0);
}

/// Two recordings, held against each other.
checks::CheckResult judged_pair(const Judged& judged) {
  const scenario::Scenario& scenario = judged.plan.scenarios[0];
  return judge::judge_pair({&judged.traces[0], &scenario.variant("a")}, {&judged.traces[1], &scenario.variant("b")},
                           {});
}

TEST(Recorded, OfUnequalStridesTheStepsOfBothAreCompared) {
  Judged judged(equal_pair({{"status", "divergence"}, {"reason", "steps"}}));
  for (const auto& [run, every] : {std::pair(0, 2), std::pair(1, 3)}) {
    for (trace::Trace& rank : judged.traces[static_cast<std::size_t>(run)].ranks) {
      rank.header["seen"] = {{"every", every}};
      std::erase_if(rank.steps, [&](const trace::Step& step) { return step.step > 0 && step.step % every != 0; });
    }
  }
  const checks::CheckResult result = judged_pair(judged);
  EXPECT_FALSE(result.divergence) << "steps 2 and 3 are of one alone";
  EXPECT_EQ(result.why, "one update in 6 is recorded by both");
}

TEST(Recorded, RunsOfOtherWorldSizesAreNoRepeats) {
  Json wider = equal_pair();
  wider["variants"] = {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}};
  Judged judged(wider);
  for (trace::Trace& rank : judged.traces[1].ranks) {
    for (const char* key : {"scenario", "variant", "train_digest"})
      rank.header[key] = judged.traces[0].ranks[0].header[key];
  }
  const checks::CheckResult result = judged_pair(judged);
  ASSERT_TRUE(result.divergence);
  EXPECT_EQ(result.divergence->class_, scenario::Class::kRounding) << result.divergence->place_and_rank();
}

TEST(JudgeOfLostEvidence, IsInconclusiveOnAnotherWorldSize) {
  Judged judged(equal_pair());
  judged.traces[1].ranks.pop_back();
  judged.traces[1].ranks[0].header["world_size"] = 1;
  EXPECT_EQ(judged.verdict().status(), VerdictStatus::kInconclusive);
}

Json expect_at(const Json& at = Json(), const Json& until = Json()) {
  Json expect = {{"status", "divergence"}, {"reason", "known"}};
  if (!at.is_null()) expect["at"] = at;
  if (!until.is_null()) expect["until"] = until;
  return expect;
}

judge::CheckReport judged_with(const Json& expect, bool diverges, const std::string& today = "2027-06-15") {
  Judged judged(equal_pair(expect));
  if (diverges) spoil(judged.traces[1], 1, 2, Channel::kWeight, "fc.bias");
  return judged.verdict(today).checks.at(0);
}

TEST(Expectation, MakesAKnownDivergenceAgree) {
  for (const Json& at :
       {Json(), Json{{"step", 2}}, Json{{"channel", "weight"}}, Json{{"tensor", "fc.bias"}}, Json{{"rank", 1}},
        Json{{"step", 2}, {"channel", "weight"}, {"tensor", "fc.bias"}, {"rank", 1}}}) {
    const auto report = judged_with(expect_at(at), true);
    EXPECT_EQ(report.status, VerdictStatus::kAgree) << at;
    EXPECT_EQ(report.expected_failure, "known");
    EXPECT_TRUE(report.result.divergence) << "the evidence stays";
  }
}

TEST(Expectation, FailsWhenTheCheckHolds) {
  const auto report = judged_with(expect_at(), false);
  EXPECT_EQ(report.status, VerdictStatus::kDivergence);
  EXPECT_NE(report.result.why.find("was expected to fail"), std::string::npos) << report.result.why;
}

TEST(Expectation, FailsInAnotherPlace) {
  for (const Json& at : {Json{{"step", 1}}, Json{{"channel", "gradient"}}, Json{{"tensor", "fc.weight"}},
                         Json{{"rank", 0}}, Json{{"step", 2}, {"rank", 0}}}) {
    const auto report = judged_with(expect_at(at), true);
    EXPECT_EQ(report.status, VerdictStatus::kDivergence) << at;
    EXPECT_NE(report.result.why.find("not as expected"), std::string::npos) << report.result.why;
  }
}

TEST(Expectation, ExpiresOnItsDay) {
  EXPECT_EQ(judged_with(expect_at(Json(), "2027-06-16"), true).status, VerdictStatus::kAgree);
  const auto report = judged_with(expect_at(Json(), "2027-06-15"), true);
  EXPECT_EQ(report.status, VerdictStatus::kDivergence);
  EXPECT_NE(report.result.why.find("until 2027-06-15"), std::string::npos) << report.result.why;
  EXPECT_EQ(judged_with(expect_at(Json(), "2027-06-15"), false).status, VerdictStatus::kDivergence)
      << "and holding is still not as expected";
}

TEST(Expectation, DoesNotExcuseWhatCouldNotBeDecided) {
  Judged lost(equal_pair(expect_at()));
  lost.outcomes[1].status = Outcome::kResource;
  EXPECT_EQ(lost.verdict().checks.at(0).status, VerdictStatus::kInconclusive);
  Judged nothing(equal_pair(expect_at()));
  for (trace::RunTrace& run : nothing.traces) {
    for (trace::Trace& rank : run.ranks) rank.steps.clear();
  }
  EXPECT_EQ(nothing.verdict().checks.at(0).status, VerdictStatus::kInconclusive);
}

/// Variants "a", "b" and "c", held equal.
Json equal_three(const Json& expect) {
  Json changes = equal_pair(expect);
  changes["variants"] = {{"a", Json::object()}, {"b", Json::object()}, {"c", Json::object()}};
  changes["checks"][0]["variants"] = {"a", "b", "c"};
  return changes;
}

TEST(Expectation, IsMetByEveryVariantThatDiffers) {
  Judged alike(equal_three(expect_at({{"step", 2}, {"channel", "weight"}})));
  for (const std::size_t run : {1, 2}) spoil(alike.traces[run], 1, 2, Channel::kWeight, "fc.bias");
  EXPECT_EQ(alike.verdict().checks.at(0).status, VerdictStatus::kAgree);
  Judged one(equal_three(expect_at({{"step", 2}, {"channel", "weight"}})));
  spoil(one.traces[1], 1, 2, Channel::kWeight, "fc.bias");
  EXPECT_EQ(one.verdict().checks.at(0).status, VerdictStatus::kAgree) << "a and c are equal";

  Judged another(equal_three(expect_at({{"step", 2}, {"channel", "weight"}})));
  spoil(another.traces[1], 1, 2, Channel::kWeight, "fc.bias");
  spoil(another.traces[2], 1, 3, Channel::kWeight, "fc.bias");
  const judge::CheckReport found = another.verdict().checks.at(0);
  EXPECT_EQ(found.status, VerdictStatus::kDivergence);
  EXPECT_TRUE(diverges_at(found.result, 3, Channel::kWeight, "fc.bias", 1)) << "the one that nobody expects is told";
  EXPECT_EQ(found.result.divergence->right.run, "c/0");
  EXPECT_NE(found.result.why.find("(a/0 and b/0, step 2, weight fc.bias, rank 1), and another one does not: known"),
            std::string::npos)
      << found.result.why;
}

TEST(Expectation, IsMetByEveryRepeatThatDiffers) {
  for (const char* that : {"equal", "repeatable"}) {
    Json changes = equal_pair(expect_at({{"step", 2}}));
    changes["repeats"] = 3;
    changes["checks"][0]["that"] = that;
    const std::size_t spoilt = that == std::string("equal") ? 3 : 0;  // b/0 and b/1, or a/1 and a/2
    Judged alike(changes);
    for (const std::size_t repeat : {1, 2}) spoil(alike.traces[spoilt + repeat], 1, 2, Channel::kWeight, "fc.bias");
    EXPECT_EQ(alike.verdict().checks.at(0).status, VerdictStatus::kAgree) << that;
    Judged another(changes);
    spoil(another.traces[spoilt + 1], 1, 2, Channel::kWeight, "fc.bias");
    spoil(another.traces[spoilt + 2], 0, 1, Channel::kLoss, "local");
    EXPECT_EQ(another.verdict().checks.at(0).status, VerdictStatus::kDivergence) << that;
  }
}

// As after control runs, which looked at the first pair alone.
TEST(Expectation, OfAClassIsMetByOtherRepeatsAndNotByOtherVariants) {
  Json expect = expect_at();
  expect["class"] = "environment";
  Judged judged(equal_three(expect));
  for (const std::size_t run : {1, 2}) spoil(judged.traces[run], 1, 2, Channel::kWeight, "fc.bias");
  judge::CheckReport check = judged.verdict().checks.at(0);
  ASSERT_EQ(check.status, VerdictStatus::kDivergence);
  check.result.divergence->class_ = scenario::Class::kEnvironment;
  judge::CheckReport repeated = check;
  judge::settle(check, judged.plan.checks.at(0).spec, "2027-06-15");
  EXPECT_EQ(check.status, VerdictStatus::kDivergence) << "nothing is known of a and c";
  repeated.result.others.at(0).divergence->right.run = "b/1";
  judge::settle(repeated, judged.plan.checks.at(0).spec, "2027-06-15");
  EXPECT_EQ(repeated.status, VerdictStatus::kAgree);
}

TEST(Expectation, DoesNotExcuseAPairThatCouldNotBeDecided) {
  Json changes = equal_three(expect_at());
  changes["train"] = {{"optimizer", {{"lr", 1e30}}}};  // NaN hides the rest
  Judged judged(changes);
  spoil(judged.traces[1], 1, 0, Channel::kInput, "x");
  const judge::CheckReport found = judged.verdict().checks.at(0);
  EXPECT_EQ(found.status, VerdictStatus::kInconclusive);
  EXPECT_NE(found.result.why.find("another one is open: a/0 and c/0: NaN"), std::string::npos) << found.result.why;
}

// A negative control that found nothing names the first place where something was to differ.
TEST(Expectation, WithAPlaceIsNotMetByAFailureElsewhere) {
  Json check = {{"that", "differs"}, {"variants", {"a", "b"}}, {"expect", expect_at({{"step", 1}})}};
  EXPECT_EQ(Judged(Json{{"checks", {check}}}).verdict().checks.at(0).status, VerdictStatus::kDivergence);
  check["expect"] = expect_at();
  EXPECT_EQ(Judged(Json{{"checks", {check}}}).verdict().checks.at(0).status, VerdictStatus::kAgree);
}

}  // namespace
}  // namespace lockstep::test
