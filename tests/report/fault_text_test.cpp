#include "harness/report/fault_text.h"

#include <gtest/gtest.h>

namespace lockstep::report {
namespace {

using judge::FaultRow;
using judge::FaultTable;

FaultRow found(const std::string& cause, const std::string& by_diff) {
  return {.scenario = "s",
          .check = "equal (a, b)",
          .planted = cause,
          .detected = true,
          .class_right = true,
          .rank_of_cause = 1,
          .located = true,
          .found = cause,
          .found_by_diff = by_diff};
}

TEST(FaultTable, ListsWhatDiffAloneNamesOtherwise) {
  FaultTable table{.faults = {found("lr.value", "lr.value"), found("data.seed", "")}, .clean = {}, .part = {}};
  EXPECT_EQ(to_text(table).find("BY DIFF"), std::string::npos) << to_text(table);
  table.faults.push_back(found("mem.uninitialised", "unknown"));
  const std::string text = to_text(table);
  EXPECT_NE(text.find("BY DIFF s: equal (a, b)\n  named     mem.uninitialised, by diff alone unknown\n"),
            std::string::npos)
      << text;
  EXPECT_NE(text.find("1 of 2"), std::string::npos) << text;
  EXPECT_TRUE(perfect(table)) << "what only control runs show is no fault of diff";
}

TEST(FaultTable, ALawThatACleanRunBreaksIsAnAlarm) {
  FaultTable table{.faults = {found("lr.value", "lr.value")}, .clean = {}, .clean_runs = 3, .part = {}};
  EXPECT_TRUE(perfect(table));
  table.broken_clean = {"s/clean/0: update"};
  EXPECT_FALSE(perfect(table));
  const std::string text = to_text(table);
  EXPECT_NE(text.find("ALARM   s/clean/0: update\n"), std::string::npos) << text;
  EXPECT_NE(text.find("1 in 3 runs"), std::string::npos) << text;
}

TEST(FaultTable, CountsTheCausesThatALawNamesRightly) {
  FaultTable table{.faults = {found("lr.value", ""), found("data.seed", ""), found("lr.value", "")}, .part = {}};
  table.faults[0].law = table.faults[1].law = "update";
  table.faults[0].found_alone = table.faults[1].found_alone = "lr.value";
  const std::string page = to_markdown(table);
  EXPECT_NE(page.find("| found without a twin | 2 of 3 |"), std::string::npos) << page;
  EXPECT_NE(page.find("| cause right without a twin | 1 of 2 |"), std::string::npos) << page;
  EXPECT_NE(page.find("| update, `lr.value` |"), std::string::npos) << page;
}

/// "unknown" is right where no cause describes the fault; it is not among those whose cause is known.
TEST(FaultTable, CountsTheCausesThatAreKnown) {
  FaultTable table{.faults = {found("lr.value", ""), found("unknown", ""), found("data.seed", "")}, .part = {}};
  table.faults[2].rank_of_cause = 2;
  const std::string page = to_markdown(table);
  EXPECT_NE(page.find("| cause right | 2 of 3 |"), std::string::npos) << page;
  EXPECT_NE(page.find("| cause right, where one is known | 1 of 2 |"), std::string::npos) << page;
}

/// Of faults that are not found yet, one that is found by now is told.
TEST(FaultTable, TellsWhatIsJudgedRightlyByNow) {
  FaultTable table{.faults = {found("lr.value", ""), found("data.seed", ""), found("lr.value", "")}, .part = {}};
  table.faults[0].detected = false;
  table.faults[1].rank_of_cause = 0;
  EXPECT_EQ(rightly_judged(table).size(), 1U);
  table.faults[2].inert = true;
  EXPECT_TRUE(rightly_judged(table).empty());
}

}  // namespace
}  // namespace lockstep::report
