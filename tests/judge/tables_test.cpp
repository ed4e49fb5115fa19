// From verdicts to the tables of `lockstep faults` and `lockstep run --mutations`.
#include "harness/judge/alone.h"
#include "harness/judge/fault_table.h"
#include "harness/judge/mutation_table.h"

#include "tests/support/tiny/judged.h"

namespace lockstep::test {
namespace {

using trace::Channel;
using VerdictStatus = judge::Status;

judge::FaultRow right_row() {
  return {.planted = "data.order", .detected = true, .class_right = true, .rank_of_cause = 1, .located = true};
}

TEST(FaultTable, AFaultIsRightIfItsCauseComesFirstAtItsPlace) {
  EXPECT_TRUE(judge::is_right(right_row()));
  judge::FaultRow second = right_row(), unnamed = right_row(), elsewhere = right_row(), missed = right_row();
  second.rank_of_cause = 2;
  unnamed.rank_of_cause = 0;
  elsewhere.located = false;
  missed.detected = false;
  for (const judge::FaultRow& wrong : {second, unnamed, elsewhere, missed}) EXPECT_FALSE(judge::is_right(wrong));
  unnamed.planted.clear();
  EXPECT_TRUE(judge::is_right(unnamed)) << "any cause will do";
}

/// Variants "a", "b" and "c", held equal; a fault is planted in those of these names.
Json with_faults_in(const std::vector<std::string>& names) {
  Json changes = equal_pair({{"status", "divergence"}, {"reason", "planted"}});
  for (const char* name : {"a", "b", "c"}) changes["variants"][name] = Json::object();
  for (const std::string& name : names)
    changes["variants"][name]["train"]["faults"] = {
        {{"kind", "kill"}, {"step", 2}, {"rank", 1}, {"phase", "backward"}}};
  changes["checks"][0]["variants"] = {"a", "b", "c"};
  return changes;
}

TEST(FaultTable, ALawIsAskedOfTheRunsThatHoldTheFault) {
  const auto faulty = [](const std::vector<std::string>& names) {
    const Judged judged(with_faults_in(names));
    const std::vector<judge::Evidence> evidence = judged.evidence();
    const judge::CheckReport report{.scenario = "tiny", .variants = {"a", "b", "c"}};
    return judge::Alone(judged.plan, evidence).faulty(report, judged.plan.checks[0].spec);
  };
  EXPECT_EQ(faulty({"b"}), (std::vector<std::size_t>{1}));
  EXPECT_EQ(faulty({"a"}), (std::vector<std::size_t>{0}));
  EXPECT_EQ(faulty({}), (std::vector<std::size_t>{1, 2})) << "all that the first is held against";
}

TEST(FaultTable, ARunBreaksTheLawThatIsBrokenFirst) {
  Judged judged(equal_pair());
  for (const std::int64_t rank : {0, 1}) put(judged.traces[0], rank, 3, number("learning_rate", 9));
  spoil(judged.traces[0], 1, trace::kInitialStep, Channel::kWeight, "fc.bias");
  const std::vector<judge::Evidence> evidence = judged.evidence();
  judge::Alone alone(judged.plan, evidence);
  ASSERT_TRUE(alone.broken_by(0));
  EXPECT_EQ(alone.broken_by(0)->result.divergence->step, trace::kInitialStep) << alone.broken_by(0)->law->name;
}

TEST(MutationTable, IsGreenOnlyIfEveryMutationIsRed) {
  using Outcome = judge::MutationRow::Outcome;
  const auto status = [](Outcome outcome) {
    judge::MutationTable table;
    table.practices = {{.mutations = {{.outcome = Outcome::kRed}, {.outcome = outcome}}}};
    return table.status();
  };
  EXPECT_EQ(status(Outcome::kRed), VerdictStatus::kAgree);
  EXPECT_EQ(status(Outcome::kGreen), VerdictStatus::kDivergence);
  EXPECT_EQ(status(Outcome::kOpen), VerdictStatus::kDivergence);
}

}  // namespace
}  // namespace lockstep::test
