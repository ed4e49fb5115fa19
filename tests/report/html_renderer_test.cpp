#include <gtest/gtest.h>

#include "harness/judge/illustrate.h"
#include "harness/report/html_text.h"
#include "harness/report/renderer.h"

#include "tests/support/tiny/judged.h"

namespace lockstep::test {
namespace {

using trace::Channel;

std::size_t times(const std::string& text, const std::string& part) {
  std::size_t found = 0;
  for (std::size_t at = text.find(part); at != std::string::npos; at = text.find(part, at + 1)) ++found;
  return found;
}

std::string html_report(const judge::Verdict& verdict, const plan::Plan& plan) {
  return report::make_html_renderer()->render(verdict, plan);
}

/// A pair of runs that part in one loss, with the pictures of them.
struct Parted {
  explicit Parted(const Json& changes) : judged(changes) {
    put(judged.traces[1], 1, 2, scalar(Channel::kLoss, "local", 7));
    const auto evidence = judged.evidence();
    verdict = judge::judge(judged.plan, evidence, judged.scratch.path() / "golden", "2027-06-15");
    judge::draw_curves(verdict, judged.plan, evidence);
    judge::draw_maps(verdict, judged.plan, evidence, judged.scratch.path() / "golden");
  }
  explicit Parted() : Parted(equal_pair()) {}

  std::string page() const { return html_report(verdict, judged.plan); }

  Judged judged;
  judge::Verdict verdict;
};

TEST(HtmlRenderer, HoldsVerdictCauseRemedyAndCommand) {
  Parted parted;
  parted.verdict.checks[0].result.divergence->suspects = {{"grad.reduce_sum", {"the evidence"}}};
  parted.verdict.checks[0].experiments = {{"replay", "reproduces"}};
  const std::string page = parted.page();
  for (const char* part :
       {"<title>lockstep: divergence</title>", "badge bad\">divergence</span>",
        "step 2, channel loss, tensor local, rank 1", "the evidence", "Divide by the world size",
        "lockstep explain grad.reduce_sum", "replay: reproduces", "<code class=\"command\">lockstep run ",
        "<svg class=\"chart\"", "href=\"#s0-c0-first\"", "id=\"s0-c0-first\"", "<b>first difference</b>"})
    EXPECT_NE(page.find(part), std::string::npos) << part;
}

TEST(HtmlRenderer, NothingOfAFileActsAsATagOrStartsALine) {
  const std::string hostile = "</script><script>alert(1)</script>]]>\"' onload=x\n::error::\x1b[2J<!--";
  Parted parted;
  judge::Verdict& verdict = parted.verdict;
  parted.judged.plan.scenarios[0].description = hostile;
  parted.judged.plan.scenarios[0].file = hostile;
  verdict.runs = {{.run = "tiny/" + hostile, .outcome = hostile, .why = hostile, .log_tail = hostile, .next = hostile}};
  verdict.warnings = {hostile};
  judge::CheckReport& check = verdict.checks[0];
  check.variants = {hostile};
  check.experiments = {{hostile, hostile}};
  check.not_compared = {hostile};
  check.reproduce = check.result.why = check.result.next = hostile;
  compare::Divergence& at = *check.result.divergence;
  for (std::string* text : {&at.tensor, &at.left.run, &at.expected, &at.actual, &at.relation, &at.cause})
    *text = hostile;
  judge::Map& map = verdict.pictures[0].maps.at(0);
  map.left = hostile;
  for (judge::Row& row : map.rows) row.tensor = hostile;
  verdict.pictures[0].curves[0].runs = {hostile};
  const std::string page = parted.page();
  EXPECT_EQ(times(page, "<script>"), 1U) << "its own";
  EXPECT_EQ(times(page, "</script>"), 1U);
  for (const char* part : {"\"' onload", "\n::error", "<!--", "\x1b", "]]>"})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
  EXPECT_NE(page.find("&#60;script&#62;alert(1)"), std::string::npos);
}

TEST(HtmlRenderer, LoadsNothingAndSaysSo) {
  const std::string page = Parted().page();
  EXPECT_NE(page.find("content=\"default-src 'none'; style-src 'unsafe-inline'; script-src 'sha256-"),
            std::string::npos);
  for (const char* part : {" src=", "http:", "https:", "url(", "@import", " style=", " onclick="})
    EXPECT_EQ(page.find(part), std::string::npos) << part;
}

TEST(HtmlRenderer, ShowsAnExpectedFailureAsSuch) {
  const Parted parted(equal_pair({{"status", "divergence"}, {"reason", "planted"}}));
  ASSERT_EQ(parted.verdict.status(), judge::Status::kAgree);
  const std::string page = parted.page();
  EXPECT_EQ(times(page, "badge kept\">fails as expected</span>"), 2U) << "in its block and in the table of checks";
  EXPECT_EQ(times(page, "badge kept\">1 fails as expected</span>"), 3U) << "beside each of the other verdicts";
  EXPECT_EQ(times(page, "badge good"), 3U) << "a tolerated failure has no badge of an agreement";
  EXPECT_NE(page.find("checks.0 equal (a, b): planted"), std::string::npos);
}

TEST(HtmlRenderer, TellsTheSameVerdictOnce) {
  Parted parted(Json{{"checks",
                      {{{"that", "equal"}, {"variants", {"a", "b"}}},
                       {{"that", "equal"}, {"variants", {"a", "b"}}, {"on", {"loss"}}}}}});
  parted.verdict.checks[1].experiments = {{"float64", "it stays"}};
  const std::string page = parted.page();
  EXPECT_EQ(times(page, "<article"), 1U);
  EXPECT_NE(page.find("<dt>also</dt><dd>checks.1 equal (a, b)</dd>"), std::string::npos);
  EXPECT_NE(page.find("float64: it stays"), std::string::npos) << "tried for the other one";
  parted.verdict.checks[1].result.divergence->rank = 0;
  EXPECT_EQ(times(parted.page(), "<article"), 2U) << "another place";
}

TEST(HtmlRenderer, OfNothingJudgedIsRed) {
  const Judged judged(equal_pair());
  for (const plan::Plan& plan : {judged.plan, plan::Plan{}}) {
    const std::string page = html_report({}, plan);
    EXPECT_NE(
        page.find("<h1>lockstep<span class=\"unstyled\">:</span> <span class=\"badge bad\">inconclusive</span></h1>"),
        std::string::npos);
    EXPECT_NE(page.find("Nothing was judged."), std::string::npos);
    EXPECT_EQ(page.find("badge good"), std::string::npos);
  }
}

TEST(HtmlRenderer, FitsInto2MiBAndSaysWhatIsLeftOut) {
  Parted parted;
  judge::Map& map = parted.verdict.pictures[0].maps.at(0);
  const judge::Row row = map.rows[0];
  for (int i = 0; i < 400; ++i) {
    map.rows.push_back(row);
    map.rows.back().tensor = "layer" + std::to_string(i) + ".weight";
  }
  const judge::CheckReport check = parted.verdict.checks[0];
  for (std::size_t i = 1; i < 300; ++i) {
    parted.verdict.checks.push_back(check);
    parted.verdict.checks[i].index = i;
    parted.verdict.checks[i].result.why = std::string(10'000, 'a') + std::to_string(i);
    parted.verdict.pictures[0].maps.emplace(i, map);
  }
  const std::string page = parted.page();
  EXPECT_LT(page.size(), 2U << 20U);
  EXPECT_NE(page.find("A picture is left out"), std::string::npos);
  EXPECT_NE(page.find("more findings left out: the page is full"), std::string::npos);
}

TEST(HtmlRenderer, NamesNoTemporaryFolder) {
  Parted parted;
  parted.verdict.temporary_folder = "/tmp/lockstep-AbCdEf";
  parted.verdict.checks[0].result.why = "a trace is torn (/tmp/lockstep-AbCdEf/tiny/a/0/rank0.jsonl)";
  const std::string page = parted.page();
  EXPECT_EQ(page.find("lockstep-AbCdEf"), std::string::npos);
  EXPECT_NE(page.find("a trace is torn (tiny/a/0/rank0.jsonl)"), std::string::npos);
}

}  // namespace
}  // namespace lockstep::test
