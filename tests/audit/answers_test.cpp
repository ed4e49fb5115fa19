// The answer to one statement, from runs that were judged.
#include "harness/audit/answers.h"

#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using audit::Claim;
using enum audit::Answer;

/// Sums where a mean is meant: an error of first order.
struct FirstOrder {
  Audited audited{recipe({{"ddp", {{"average", false}}}}), {1, 2}, {"order"}};
  audit::Statement statement{.id = "order@2", .claim = Claim::kSecondOrder};

  FirstOrder() {
    for (const plan::Run& run : audited.plan.runs) {
      if (audited.variant_of(run).train.precision == recipe::Precision::kFloat64)
        statement.variants.push_back(run.variant);
    }
  }

  /// Ranks count so many targets in one update, and so many in the next.
  void count(std::int64_t even, std::int64_t odd) {
    for (judge::Evidence& evidence : audited.evidence) {
      for (trace::Trace& rank : evidence.trace->ranks) {
        for (trace::Step& step : rank.steps) {
          if (step.step >= 0) step.records.push_back(integer("targets", step.step % 2 == 0 ? even : odd));
        }
      }
    }
  }

  audit::Line answer() const { return audit::Answers(audited.plan, audited.verdict, audited.evidence).of(statement); }
};

TEST(Answers, CallAFirstOrderErrorBroken) {
  const FirstOrder error;
  EXPECT_EQ(error.statement.variants.size(), 8U);
  EXPECT_EQ(error.answer().answer, kBroken) << error.answer().because;
  EXPECT_TRUE(holds(error.answer().instead, "look for a factor"));
}

TEST(Answers, ExcuseAFirstOrderErrorThatTheoryKnows) {
  FirstOrder error;
  error.statement.because = "batch normalization";
  EXPECT_EQ(error.answer().answer, kNoIdentity);
}

TEST(Answers, ExcuseAFirstOrderErrorByTargetsThatAreUnequal) {
  FirstOrder error;
  error.statement.because = "batches hold unequally many targets";
  error.statement.by_targets = true;
  FirstOrder equal;
  equal.statement = error.statement;
  error.count(6, 7);
  equal.count(6, 6);
  EXPECT_EQ(error.answer().answer, kNoIdentity) << error.answer().because;
  EXPECT_EQ(equal.answer().answer, kBroken) << equal.answer().because;
}

TEST(Answers, TellNoOrderWithoutTheRuns) {
  FirstOrder lost;
  lost.audited.evidence.back().trace.reset();
  EXPECT_EQ(lost.answer().answer, kCannotTell);
  EXPECT_EQ(lost.answer().because, "a run did not end well, or its weights are not finite");
  FirstOrder alike;
  for (std::size_t i = 0; i < alike.statement.variants.size(); i += 2)
    alike.statement.variants[i + 1] = alike.statement.variants[i];
  EXPECT_EQ(alike.answer().answer, kCannotTell);
  EXPECT_TRUE(holds(alike.answer().because, "the rate is too small to decide"));
}

TEST(Answers, RefuseWhatIsNoTraining) {
  const FirstOrder any;
  const audit::Line line = audit::Answers(any.audited.plan, any.audited.verdict, any.audited.evidence)
                               .of({.id = "x", .claim = Claim::kImpossible, .because = "3 ranks do not divide 4"});
  EXPECT_EQ(line.answer, kCannotTell);
  EXPECT_EQ(line.because, "the recipe refuses it: 3 ranks do not divide 4");
}

}  // namespace
}  // namespace lockstep::test
