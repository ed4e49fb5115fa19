// Answers against the findings that are written down, and how an audit is told.
#include "harness/audit/audit.h"

#include "harness/audit/audit_text.h"
#include "harness/audit/measured.h"

#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using audit::Line;
using audit::Section;
using enum audit::Answer;
using Findings = std::map<std::string, Answer>;

audit::Audit of(std::vector<Line> lines) { return {.scenario = "tiny", .ranks = {1, 2}, .lines = std::move(lines)}; }

const Line kGrows = {.id = "global-batch",
                     .section = Section::kQuantities,
                     .text = "samples in an update",
                     .values = {"12", "24"},
                     .answer = kChanges,
                     .because = "each rank | has its own"};
const Line kHeld = {.id = "one-batch@2", .section = Section::kIdentities, .answer = kRounding};

TEST(Audit, IsRedByAFinding) {
  EXPECT_EQ(of({}).status(), judge::Status::kInconclusive);
  EXPECT_EQ(of({kHeld}).status(), judge::Status::kAgree);
  EXPECT_EQ(of({kHeld, kGrows}).status(), judge::Status::kDivergence);
  EXPECT_EQ(of({kHeld, {.id = "sum@2", .answer = kCannotTell}}).status(), judge::Status::kInconclusive);
  // Cells of the matrix are other recipes than the one that is audited.
  EXPECT_EQ(of({{.id = "cell", .section = Section::kMatrix, .answer = kSlip}}).status(), judge::Status::kAgree);
  EXPECT_EQ(of({{.id = "cell", .section = Section::kMatrix, .answer = kBroken}}).status(), judge::Status::kDivergence);
}

TEST(Audit, IsHeldAgainstFindingsThatAreWrittenDown) {
  audit::Audit both = of({kGrows, kHeld});
  const auto unexpected = [&](const Findings& findings) {
    both.unexpected = unexpected_in(both, findings);
    return *both.unexpected;
  };
  EXPECT_TRUE(unexpected({{"global-batch", kChanges}}).empty());
  EXPECT_EQ(both.status(), judge::Status::kAgree);
  EXPECT_EQ(unexpected({}), (std::vector<std::string>{"global-batch: changes, which the findings lack"}));
  EXPECT_EQ(both.status(), judge::Status::kDivergence);
  EXPECT_EQ(unexpected({{"global-batch", kChanges}, {"one-batch@2", kBroken}}),
            (std::vector<std::string>{"one-batch@2: expected broken, not rounding"}));
  EXPECT_EQ(unexpected({{"global-batch", kChanges}, {"sum@2", kRounding}}),
            (std::vector<std::string>{"sum@2: expected rounding, and there is no such line"}));
  both.has_all_findings = false;  // the command line asks for some of them
  EXPECT_TRUE(unexpected({{"global-batch", kChanges}, {"sum@2", kRounding}}).empty());
}

TEST(Audit, RefusesAnAnswerThatThereIsNot) {
  EXPECT_EQ(audit::answer_named("rounding", "x"), kRounding);
  try {
    audit::answer_named("rounded", "findings.one-batch@2");
    ADD_FAILURE();
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().what, "unknown answer 'rounded'");
    EXPECT_EQ(error.problem().where, "findings.one-batch@2");
    EXPECT_TRUE(holds(error.problem().next, "did you mean 'rounding'?")) << error.problem().next;
  }
}

TEST(Audit, IsToldInWordsAndTables) {
  audit::Audit both = of({kGrows, kHeld});
  both.headline = "another computation";
  both.unexpected = {"sum@2: expected rounding, not broken"};
  both.lines[0].reproduce = "lockstep audit scaling x --only global-batch";
  const std::string text = to_text(both, false), markdown = to_markdown(both), colored = to_text(both, true);
  EXPECT_TRUE(text.starts_with("another computation.\n\nAUDIT  ")) << text;
  EXPECT_TRUE(holds(text, "UNEXPECTED  sum@2: expected rounding, not broken")) << text;
  EXPECT_TRUE(holds(text, "one-batch@2: ")) << text;
  EXPECT_FALSE(holds(text, "\033"));
  EXPECT_TRUE(holds(colored, "\033[31m"));
  EXPECT_TRUE(holds(markdown, "| samples in an update | 12 | 24 | changes | each rank \\| has its own |")) << markdown;
  EXPECT_TRUE(holds(markdown, "| `one-batch@2` |")) << markdown;
  EXPECT_TRUE(holds(markdown, "lockstep audit scaling x --only global-batch")) << markdown;
  const Json json = to_json(both);
  EXPECT_EQ(json.at("format"), "lockstep.audit/1");
  EXPECT_EQ(json.at("lines").at(0).at("answer"), "changes");
  EXPECT_EQ(json.at("exit_code"), 1);
}

// A pull request's program must not put its own HTML, links or images on the page that shows its audit.
TEST(Audit, EscapesWhatComesFromACommandInMarkdown) {
  audit::Audit audit = of({kGrows, kHeld});
  audit.recipe = "sh -c '<img src=x onerror=y> & ![a](http://b)'";
  audit.scenario = "a `b` <i>";
  audit.lines[0].because = "<script>";
  audit.lines[0].reproduce = "lockstep audit scaling 'x|y' --set 'a=`b``c`<i>'";
  const std::string markdown = to_markdown(audit);
  EXPECT_TRUE(holds(markdown, "\nsh -c '&lt;img src=x onerror=y&gt; &amp; !\\[a](http://b)'\n")) << markdown;
  EXPECT_TRUE(holds(markdown, "| &lt;script&gt; |")) << markdown;
  EXPECT_TRUE(holds(markdown, "scaling: `` a `b` <i> ``, variant ")) << markdown;
  EXPECT_TRUE(holds(markdown, "again: ``` lockstep audit scaling 'x|y' --set 'a=`b``c`<i>' ```, or")) << markdown;
}

TEST(Audit, IsDrawn) {
  audit::Audit grows = of({kGrows});
  grows.batch = {12, 24};
  grows.rate = {0.1, std::nan("")};
  grows.update = {1, 2};
  const std::string svg = to_svg(grows);
  for (const char* part : {"<svg xmlns", "samples in an update", "learning rate", "norm of the first update", "</svg>"})
    EXPECT_TRUE(holds(svg, part)) << part;
  EXPECT_FALSE(holds(svg, "nan"));
  for (const char* part : {"learning rate (not measured)", "norm of the first update (as samples in an update)"})
    EXPECT_TRUE(holds(svg, part)) << part;
  grows.batch[1] = grows.update[1] = std::nan("");
  EXPECT_TRUE(holds(to_svg(grows), ">2 (not measured)<"));
  grows.lines.push_back({.id = "world-size@2"});
  EXPECT_TRUE(holds(to_svg(grows), ">2 (refused)<"));
}

TEST(Measured, TellsTheOrderOfADifference) {
  EXPECT_DOUBLE_EQ(*audit::order_of(4, 1), 2);
  EXPECT_DOUBLE_EQ(*audit::order_of(2, 1), 1);
  EXPECT_FALSE(audit::order_of(0, 1));
  EXPECT_FALSE(audit::order_of(1, 0));
}

/// Lines of text have unequally many targets, which excuse a first-order error; equally many do not.
TEST(Measured, TellsWhetherRanksCountEquallyManyTargets) {
  Bench bench(pair("equal", kNone, kNone));
  const auto with = [&](std::int64_t first, std::int64_t second) {
    trace::RunTrace run = bench.run("one");
    for (std::size_t rank = 0; rank < 2; ++rank) {
      for (trace::Step& step : run.ranks[rank].steps) {
        if (step.step >= 0) step.records.push_back(integer("targets", rank == 0 ? first : second));
      }
    }
    return run;
  };
  EXPECT_FALSE(audit::has_equal_targets(bench.run("one")));
  EXPECT_TRUE(audit::has_equal_targets(with(6, 6)));
  EXPECT_FALSE(audit::has_equal_targets(with(6, 7)));
}

TEST(Measured, CountsSamplesRatesAndTheFirstUpdate) {
  Bench bench(pair("equal", kNone, kNone));
  EXPECT_EQ(audit::samples_in_update(bench.run("one")), 12);
  EXPECT_EQ(audit::largest_rate(bench.run("one")), 0.1);
  EXPECT_GT(*audit::first_update(bench.run("one")), 0);
  EXPECT_GT(*audit::noise_scale(bench.run("one")), 0);
  EXPECT_EQ(audit::distance_at_end(bench.run("one"), bench.run("other")), 0);
}

}  // namespace
}  // namespace lockstep::test
