// Runs that another scheduler started: what their folders must hold.
#include "harness/judge/unwatched.h"

#include "tests/support/tiny/judged.h"

namespace lockstep::test {
namespace {

std::vector<judge::Evidence> read(const Judged& judged) {
  return judge::read_unwatched(judged.plan, judged.scratch.path() / "runs");
}

TEST(Unwatched, ARunOfOtherDataIsNotTheScenarios) {
  Judged judged(equal_pair());
  judged.evidence();
  Json spec = std::get<plan::WorkerProgram>(judged.plan.runs[0].program).spec;
  const std::filesystem::path file = std::filesystem::relative(judged.folder(0), judged.scratch.path()) / "run.json";
  judged.scratch.write(file, spec.dump());
  EXPECT_TRUE(read(judged)[0].trace) << read(judged)[0].problem;
  spec["train_digest"] = "x";
  judged.scratch.write(file, spec.dump());
  const judge::Evidence other = read(judged)[0];
  EXPECT_FALSE(other.trace);
  EXPECT_NE(other.problem.find("the data are others (train_digest)"), std::string::npos) << other.problem;
}

/// A tiny training draws no samples as the worker does: it breaks the law "order".
TEST(Unwatched, ARunThatMayBeAnotherOneIsStartedAgain) {
  const auto ended = [](const Json& changes) {
    const Judged judged(changes);
    judged.evidence();
    return judge::ended_before(judged.plan, judged.scratch.path() / "runs")[0].has_value();
  };
  EXPECT_FALSE(ended(equal_pair()));
  EXPECT_TRUE(ended(equal_pair({{"status", "divergence"}, {"reason", "a mistake"}}))) << "which may break laws";
}

}  // namespace
}  // namespace lockstep::test
