#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/report/renderer.h"

#include "tests/support/support.h"
#include "tests/support/tiny/judged.h"

// What people and programs get to see of a verdict.

namespace lockstep::test {
namespace {

using trace::Channel;

/// One check that agrees, one that does not, one run that failed.
struct Mixed {
  Mixed()
      : judged({{"variants", {{"a", Json::object()}, {"b", Json::object()}, {"c", Json::object()}}},
                {"checks",
                 {{{"that", "equal"}, {"variants", {"a", "b"}}},
                  {{"that", "ranks_agree"}, {"variants", {"a"}}},
                  {{"that", "ledger"}, {"variants", {"c"}}}}}}) {
    spoil(judged.traces[1], 1, 2, Channel::kGradient, "fc.weight");
    judged.outcomes[2] = {.run = judged.plan.runs[2].name,
                          .status = launch::RunOutcome::Status::kFailed,
                          .culprit = 1,
                          .why = "rank 1 died by signal 9",
                          .log_tail = "last\nwords"};
    verdict = judged.verdict();
  }

  Judged judged;
  judge::Verdict verdict;
};

TEST(ReportJson, HasTheDocumentedKeys) {
  const Mixed mixed;
  const Json json = report::to_json(mixed.verdict, mixed.judged.plan);
  EXPECT_EQ(json.at("format"), "lockstep.result/1");
  EXPECT_EQ(json.at("status"), "divergence");
  EXPECT_EQ(json.at("exit_code"), 1);
  EXPECT_EQ(json.at("runs_total"), 3);
  EXPECT_EQ(json.at("runs_finished"), 2);
  EXPECT_EQ(json.at("scenarios").at(0).at("name"), "tiny");
  EXPECT_EQ(json.at("scenarios").at(0).at("status"), "divergence");
  ASSERT_EQ(json.at("checks").size(), 3U);
  for (const Json& check : json.at("checks")) {
    for (const char* key :
         {"name", "relation", "status", "class", "cause", "first_divergence", "evidence", "reproduce"})
      EXPECT_TRUE(check.contains(key)) << key;
  }
  for (const char* key : {"step", "channel", "tensor", "rank", "element", "values"})
    EXPECT_TRUE(json["checks"][0]["first_divergence"].contains(key)) << key;
}

TEST(ReportJson, LocatesADivergence) {
  const Mixed mixed;
  const Json check = report::to_json(mixed.verdict, mixed.judged.plan).at("checks").at(0);
  EXPECT_EQ(check.at("name"), "tiny: checks.0 equal");
  EXPECT_EQ(check.at("relation"), "equal");
  EXPECT_EQ(check.at("variants"), (Json{"a", "b"}));
  EXPECT_EQ(check.at("class"), "rounding") << "only the digest was spoilt: the distance is zero";
  const Json at = check.at("first_divergence");
  EXPECT_EQ(at.at("step"), 2);
  EXPECT_EQ(at.at("channel"), "gradient");
  EXPECT_EQ(at.at("tensor"), "fc.weight");
  EXPECT_EQ(at.at("rank"), 1);
  EXPECT_EQ(at.at("left"), "a/0");
  EXPECT_EQ(at.at("right"), "b/0");
  EXPECT_NE(at.at("values").at("left"), at.at("values").at("right"));
  EXPECT_NE(check.at("reproduce").get<std::string>().find("lockstep run "), std::string::npos);
}

TEST(ReportJson, HasNullsWhereThereIsNothingToSay) {
  const Mixed mixed;
  const Json check = report::to_json(mixed.verdict, mixed.judged.plan).at("checks").at(1);
  EXPECT_EQ(check.at("status"), "agree");
  for (const char* key : {"class", "cause", "first_divergence", "expected_failure", "why", "next", "evidence"})
    EXPECT_TRUE(check.at(key).is_null()) << key;
  EXPECT_GT(check.at("records_compared"), 0);
}

TEST(ReportJson, TellsOfFailedRuns) {
  const Mixed mixed;
  const Json run = report::to_json(mixed.verdict, mixed.judged.plan).at("failed_runs").at(0);
  EXPECT_EQ(run.at("run"), "tiny/c/0");
  EXPECT_EQ(run.at("status"), "divergence");
  EXPECT_EQ(run.at("class"), "liveness");
  EXPECT_EQ(run.at("outcome"), "failed");
  EXPECT_EQ(run.at("culprit_rank"), 1);
  EXPECT_EQ(run.at("why"), "rank 1 died by signal 9");
  EXPECT_EQ(run.at("log_tail"), "last\nwords");
}

TEST(ReportJson, NamesOverridesInTheCommandThatReproduces) {
  Judged judged(equal_pair());
  judged.plan.scenarios[0].overrides = {"train.optimizer.lr=0.2"};
  const Json json = report::to_json(judged.verdict(), judged.plan);
  EXPECT_NE(json.at("checks").at(0).at("reproduce").get<std::string>().find("--set train.optimizer.lr=0.2"),
            std::string::npos);
}

TEST(ReportJson, OfNothingIsInconclusive) {
  const Json json = report::to_json(judge::Verdict{}, plan::Plan{});
  EXPECT_EQ(json.at("status"), "inconclusive");
  EXPECT_EQ(json.at("exit_code"), 4);
}

TEST(ReportText, SaysWhereWhatAndWhy) {
  const Mixed mixed;
  const std::string text = report::make_text_renderer(false)->render(mixed.verdict, mixed.judged.plan);
  for (const char* part :
       {"DIVERGENCE  tiny: checks.0 equal (a, b)", "step 2, channel gradient, tensor fc.weight, rank 1", "a/0 and b/0",
        "DIVERGENCE  run tiny/c/0: failed", "rank 1 died by signal 9", "liveness",
        "INCONCLUSIVE  tiny: checks.2 ledger", "2 of 3 runs finished"}) {
    EXPECT_NE(text.find(part), std::string::npos) << part << "\n" << text;
  }
  EXPECT_EQ(text.find("checks.1"), std::string::npos) << "what agrees is not told at length";
  EXPECT_EQ(text.find('\033'), std::string::npos);
  EXPECT_NE(report::make_text_renderer(true)->render(mixed.verdict, mixed.judged.plan).find("\033[31m"),
            std::string::npos);
}

/// After an upgrade every golden of a gate differs: that is one finding.
TEST(ReportText, TellsGoldensThatDifferForOneReasonOnce) {
  Mixed mixed;
  judge::Verdict& verdict = mixed.verdict;
  verdict.checks.resize(1);
  verdict.checks[0].that = scenario::CheckKind::kGolden;
  verdict.checks.resize(3, verdict.checks[0]);
  for (std::size_t i = 0; i < 3; ++i) {
    verdict.checks[i].index = i;
    compare::Divergence& at = *verdict.checks[i].result.divergence;
    at.right = compare::Party("v" + std::to_string(i) + "/0");
    at.suspects = {
        {"env.version_mismatch", {"torch is 1 for golden, " + std::to_string(i / 2 + 2) + " for " + at.right.name()}}};
  }
  const std::string text = report::make_text_renderer(false)->render(verdict, mixed.judged.plan);
  EXPECT_NE(text.find("DIVERGENCE  tiny: checks.0 golden"), std::string::npos) << text;
  EXPECT_NE(text.find("  also        tiny: checks.1 golden (a, b)\n"), std::string::npos) << text;
  EXPECT_EQ(text.find("DIVERGENCE  tiny: checks.1 golden"), std::string::npos) << text;
  EXPECT_NE(text.find("DIVERGENCE  tiny: checks.2 golden"), std::string::npos) << "another version\n" << text;
}

TEST(ReportText, TellsOnceWhySeveralChecksOfAScenarioLackARun) {
  Mixed mixed;
  judge::Verdict& verdict = mixed.verdict;
  verdict.checks.resize(1);
  verdict.checks[0].status = judge::Status::kInconclusive;
  verdict.checks[0].result.divergence.reset();
  verdict.checks[0].result.why = "a trace is torn";
  verdict.checks.resize(4, verdict.checks[0]);
  for (std::size_t i = 0; i < 4; ++i) verdict.checks[i].index = i;
  verdict.checks[2].result.why = "a trace is lost";
  verdict.checks[3].scenario = "other";
  const std::string text = report::make_text_renderer(false)->render(verdict, mixed.judged.plan);
  const auto is_told = [&](const std::string& check) {
    return text.find("INCONCLUSIVE  " + check) != std::string::npos;
  };
  EXPECT_TRUE(is_told("tiny: checks.0")) << text;
  EXPECT_FALSE(is_told("tiny: checks.1")) << text;
  EXPECT_NE(text.find("  also        tiny: checks.1 "), std::string::npos) << text;
  EXPECT_TRUE(is_told("tiny: checks.2")) << "another reason";
  EXPECT_TRUE(is_told("other: checks.3")) << "another scenario";
}

TEST(ReportText, EndsWithTheRowThatDecided) {
  Mixed mixed;
  const auto said = [&] { return report::make_text_renderer(false)->render(mixed.verdict, mixed.judged.plan); };
  EXPECT_EQ(said().find("decided"), std::string::npos) << "no row, no line";
  judge::CheckReport& check = mixed.verdict.checks[0];
  check.decided_by = "stays_in_float64";
  check.result.next = "look";
  const std::string text = said();
  EXPECT_NE(text.find("  reproduce   " + check.reproduce +
                      "\n  decided     stays_in_float64  docs/rounding.md#stays_in_float64\n\n"),
            std::string::npos)
      << text;
}

/// Whatever the files of others hold, each line begins with a word or a sign of ours: runners skip spaces, and take
/// what comes next for a command.
// A tensor may have any name; a command that is to be run stays whole.
TEST(ReportText, LongNamesAreShortened) {
  Mixed mixed;
  const std::string text(10'000'000, 'a');
  compare::Divergence& at = *mixed.verdict.checks[0].result.divergence;
  at.tensor = at.expected = at.actual = at.cause = text;
  mixed.verdict.checks[0].result.why = mixed.verdict.runs[0].why = text;
  mixed.verdict.warnings = {text};
  mixed.verdict.checks[0].reproduce = "lockstep run x --set a=" + text.substr(0, 10'000);
  const std::string said = report::make_text_renderer(false)->render(mixed.verdict, mixed.judged.plan);
  EXPECT_LT(said.size(), 100'000U);
  EXPECT_NE(said.find("bytes left out"), std::string::npos);
  EXPECT_NE(said.find(mixed.verdict.checks[0].reproduce), std::string::npos);
}

TEST(ReportText, NoLineBeginsWithTextOfAFile) {
  const std::string command = "\n::error::\x1b[2J\u202e##vso[task.complete]\n";
  Mixed mixed;
  mixed.judged.outcomes[2].why = "why" + command;
  mixed.judged.outcomes[2].log_tail = command + "  ::warning::\r::error::" + command;
  mixed.verdict = mixed.judged.verdict();
  mixed.verdict.warnings = {"warning" + command};
  for (judge::CheckReport& check : mixed.verdict.checks) {
    check.scenario += command;
    check.variants.push_back(command);
    check.result.next = "next" + command;
    check.reproduce = command;
    check.experiments.push_back({.control = command, .shows = command});
    if (!check.result.divergence) continue;
    auto& at = *check.result.divergence;
    for (std::string* text :
         {&at.tensor, &at.left.run, &at.right.run, &at.expected, &at.actual, &at.relation, &at.cause})
      *text += command;
  }
  for (judge::RunReport& run : mixed.verdict.runs) run.run += command;
  const std::string text = report::make_text_renderer(false)->render(mixed.verdict, mixed.judged.plan);
  ASSERT_NE(text.find("::warning::"), std::string::npos) << "the log is told";
  for (std::size_t begin = 0; begin < text.size();) {
    const std::size_t end = text.find('\n', begin);
    const std::string line = text.substr(begin, end - begin);
    const std::size_t first = line.find_first_not_of(' ');
    EXPECT_TRUE(first == std::string::npos || line.compare(first, 2, "::") != 0) << line;
    begin = end + 1;
  }
  for (const char* part : {"##vso[", "\x1b", "\u202e", "\r"}) EXPECT_EQ(text.find(part), std::string::npos) << text;
  EXPECT_NE(text.find("  log         | \n"), std::string::npos) << text;
  EXPECT_NE(text.find("              | ::error::\\x1b[2J\\u202e#\\x23vso[task.complete]\n"), std::string::npos) << text;
}

std::size_t count(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string rendered(const std::string& kind, const judge::Verdict& verdict, const plan::Plan& plan) {
  for (const report::Format& format : report::formats()) {
    if (format.kind == kind) return format.make()->render(verdict, plan);
  }
  return "";
}

TEST(ReportJunit, HasACaseForEachCheckAndEachRunThatFailed) {
  const Mixed mixed;
  const std::string page = rendered("junit", mixed.verdict, mixed.judged.plan);
  EXPECT_EQ(count(page, "<testcase "), 4U) << page;
  EXPECT_NE(page.find("<testsuites name=\"lockstep\" tests=\"4\" failures=\"2\" errors=\"1\""), std::string::npos)
      << page;
  EXPECT_NE(page.find("name=\"checks.0 equal (a, b)\"><failure type=\"divergence\" message=\"rounding, cause "),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("name=\"checks.1 ranks_agree (a)\"/>"), std::string::npos) << page;
  EXPECT_NE(page.find("step 2, channel gradient, tensor fc.weight"), std::string::npos) << page;
}

/// Complaints of xmllint about a page, by the schema beside this file; "" where there are none.
std::string complaints_about(const std::string& page) {
  const Scratch scratch;
  const Outcome outcome = run_program(
      {"xmllint", "--noout", "--schema", source_root() / "tests/report/junit.xsd", scratch.write("page.xml", page)});
  return outcome.exit_code == 0 ? "" : outcome.err;
}

TEST(ReportJunit, IsValidByTheSchema) {
  if (run_program({"/bin/sh", "-c", "command -v xmllint"}).exit_code != 0)
    GTEST_SKIP() << "xmllint is missing (Debian: libxml2-utils)";
  Mixed mixed;
  mixed.verdict.checks[1].status = judge::Status::kUnsupported;
  const std::string page = rendered("junit", mixed.verdict, mixed.judged.plan);
  EXPECT_EQ(complaints_about(page), "") << page;
  EXPECT_EQ(complaints_about(rendered("junit", judge::Verdict{}, mixed.judged.plan)), "");
  const judge::CheckReport twice = mixed.verdict.checks[0];
  mixed.verdict.checks.push_back(twice);
  EXPECT_NE(complaints_about(rendered("junit", mixed.verdict, mixed.judged.plan)).find("Duplicate key-sequence"),
            std::string::npos);
  std::string without_type = page;
  without_type.erase(page.find(" type="), std::string(" type=\"divergence\"").size());
  EXPECT_NE(complaints_about(without_type).find("'type' is required"), std::string::npos);
}

TEST(ReportJunit, HoldsTextsOfAnyKind) {
  Mixed mixed;
  mixed.verdict.runs[0].why = "a < b & \"c\"\x01\xff]]>\xef\xbf\xbf";
  const std::string page = rendered("junit", mixed.verdict, mixed.judged.plan);
  EXPECT_NE(page.find("message=\"a &lt; b &amp; &quot;c&quot;\\x01\xef\xbf\xbd]]&gt;\\uffff\""), std::string::npos)
      << page;
}

Json statement_on(const judge::Verdict& verdict, const plan::Plan& plan) {
  return Json::parse(rendered("in-toto", verdict, plan));
}

TEST(ReportInToto, StatesTheResultOnScenariosAndGoldens) {
  const Judged judged(equal_pair());
  judge::Verdict verdict = judged.verdict();
  const std::string golden = sha256("a golden"), file = judged.plan.scenarios[0].file.string();
  verdict.checks[0].goldens = {{"golden/tiny/a.golden", golden}};
  const auto described = [](const std::string& name, const std::string& digest) -> Json {
    return {{"name", name}, {"digest", {{"sha256", digest}}}};
  };
  const Json expected = {
      {"_type", "https://in-toto.io/Statement/v1"},
      {"predicateType", "https://in-toto.io/attestation/test-result/v0.1"},
      {"subject", {described(file, sha256(read_file(file))), described("golden/tiny/a.golden", golden)}},
      {"predicate",
       {{"result", "PASSED"},
        {"configuration",
         {described("tiny/a", judged.plan.runs[0].train_digest),
          described("tiny/b", judged.plan.runs[1].train_digest)}},
        {"passedTests", {"tiny: checks.0 equal (a, b)"}},
        {"warnedTests", Json::array()},
        {"failedTests", Json::array()}}}};
  EXPECT_EQ(statement_on(verdict, judged.plan), expected);
  verdict.warnings = {"tiny/a/0: an update was not recorded"};
  EXPECT_EQ(statement_on(verdict, judged.plan).at("/predicate/result"_json_pointer), "WARNED");
}

TEST(ReportInToto, PassesNothingThatDoesNotAgree) {
  const Mixed mixed;
  const Json predicate = statement_on(mixed.verdict, mixed.judged.plan).at("predicate");
  EXPECT_EQ(predicate.at("result"), "FAILED");
  EXPECT_EQ(predicate.at("passedTests"), (Json{"tiny: checks.1 ranks_agree (a)"}));
  EXPECT_EQ(predicate.at("failedTests").size(), 3U) << "a difference, a run, and a check that is open for its sake";
  const Judged judged(equal_pair());
  for (const judge::Status status : {judge::Status::kUnsupported, judge::Status::kBaseline,
                                     judge::Status::kInconclusive, judge::Status::kInterrupted}) {
    judge::Verdict verdict = judged.verdict();
    verdict.checks[0].status = status;
    EXPECT_EQ(statement_on(verdict, judged.plan).at("/predicate/result"_json_pointer), "FAILED") << name_of(status);
  }
  const Json of_nothing = statement_on(judge::Verdict{}, judged.plan).at("predicate");
  EXPECT_EQ(of_nothing.at("result"), "FAILED");
  EXPECT_EQ(of_nothing.at("failedTests"), (Json{"tiny: verdict"}));
}

TEST(Reports, ShowAnExpectedFailureAsSuch) {
  const Json expect = {{"status", "divergence"}, {"reason", "planted"}};
  Judged judged(equal_pair(expect));
  spoil(judged.traces[1], 1, 2, Channel::kLoss, "local");
  const judge::Verdict verdict = judged.verdict();
  ASSERT_EQ(verdict.status(), judge::Status::kAgree);
  const std::string page = rendered("junit", verdict, judged.plan);
  EXPECT_NE(page.find("failures=\"0\" errors=\"0\" skipped=\"1\""), std::string::npos) << page;
  EXPECT_NE(page.find("<skipped type=\"expected failure\" message=\"fails as expected: "), std::string::npos) << page;
  EXPECT_NE(rendered("markdown", verdict, judged.plan).find("| tiny | agree | 0 of 1 | 1 |"), std::string::npos);
  const Json predicate = statement_on(verdict, judged.plan).at("predicate");
  EXPECT_EQ(predicate.at("result"), "WARNED");
  EXPECT_EQ(predicate.at("warnedTests"), (Json{"tiny: checks.0 equal (a, b)"}));
}

TEST(Reports, OfNothingJudgedAreNotGreen) {
  const Judged judged(equal_pair());
  const judge::Verdict verdict;
  ASSERT_EQ(verdict.status(), judge::Status::kInconclusive);
  EXPECT_NE(rendered("junit", verdict, judged.plan).find("errors=\"1\""), std::string::npos);
  EXPECT_NE(rendered("github", verdict, judged.plan).find("::warning "), std::string::npos);
  EXPECT_NE(rendered("markdown", verdict, judged.plan).find("nothing was judged"), std::string::npos);
}

TEST(ReportMarkdown, IsAPageThatFitsIntoAComment) {
  Mixed mixed;
  const std::string page = rendered("markdown", mixed.verdict, mixed.judged.plan);
  EXPECT_TRUE(page.starts_with("### lockstep: divergence\n")) << page;
  EXPECT_NE(page.find("\n```\nDIVERGENCE  tiny: checks.0 equal (a, b)\n"), std::string::npos) << page;
  const judge::CheckReport check = mixed.verdict.checks[0];
  for (int i = 0; i < 300; ++i) mixed.verdict.checks.push_back(check);
  const std::string full = rendered("markdown", mixed.verdict, mixed.judged.plan);
  EXPECT_LT(full.size(), 65'536U);
  EXPECT_NE(full.find("more failures are left out"), std::string::npos);
}

TEST(ReportGithub, AnnotatesTheScenariosFile) {
  Mixed mixed;
  mixed.judged.plan.scenarios[0].file = "scenarios/a,b:c.json";
  mixed.verdict.checks[2].result.why = "50% of\n::error::it";
  const std::string page = rendered("github", mixed.verdict, mixed.judged.plan);
  EXPECT_NE(page.find("::error file=scenarios/a%2Cb%3Ac.json,title=tiny%3A checks.0 equal (a%2C b)%3A divergence::"),
            std::string::npos)
      << page;
  EXPECT_NE(page.find("50%25 of\\n::error::it\n"), std::string::npos) << page;
  const judge::CheckReport check = mixed.verdict.checks[0];
  for (int i = 0; i < 30; ++i) mixed.verdict.checks.push_back(check);
  EXPECT_EQ(count(rendered("github", mixed.verdict, mixed.judged.plan), "\n::error "), 9U) << "GitHub shows ten";
}

}  // namespace
}  // namespace lockstep::test
