// harness/golden/selftest: every change of what a golden holds turns it red.
#include "harness/golden/selftest.h"

#include <algorithm>

#include "harness/golden/store.h"

#include "tests/support/tiny/bench.h"

namespace lockstep::test {
namespace {

using trace::Channel;

class GoldenSelftest : public testing::Test {
 protected:
  std::vector<golden::Trial> trials() {
    const std::vector<Channel> all = trace::all_channels();
    const golden::Entry entry = golden::entry_of({.name = {"tiny", "a"},
                                                  .key = "portable",
                                                  .recipe = bench_.scenario.variant("a").train_json,
                                                  .channels = {all.begin(), all.end()},
                                                  .repeats = {bench_.run("a"), bench_.run("a")},
                                                  .acceptance = {.date = "2027-01-31", .reason = "test"}});
    const golden::Golden golden{.scenario = "tiny", .variant = "a", .entries = {entry}};
    return golden::selftest(bench_.scenario, bench_.scenario.checks[0], "a", golden, golden.entries[0]);
  }

  static bool tries(const std::vector<golden::Trial>& trials, const std::string& change) {
    return std::any_of(trials.begin(), trials.end(), [&](const golden::Trial& one) { return one.change == change; });
  }

  Bench bench_{Json{{"train", {{"determinism", {{"cpu", "portable"}}}}},
                    {"variants", {{"a", Json::object()}}},
                    {"checks", {{{"that", "golden"}}}}}};
};

TEST_F(GoldenSelftest, EveryChangeTurnsTheGoldenRed) {
  const std::vector<golden::Trial> all = trials();
  EXPECT_GT(all.size(), 20U);
  for (const golden::Trial& one : all) EXPECT_TRUE(one.is_seen) << one.golden << ": " << one.change;
  EXPECT_TRUE(tries(all, "a step less"));
  EXPECT_TRUE(tries(all, "a rank less"));
}

TEST_F(GoldenSelftest, RecordsAreSwappedOnlyWhereTwoDiffer) {
  EXPECT_TRUE(tries(trials(), "weight: two records swapped"));
  EXPECT_FALSE(tries(trials(), "samples: two records swapped")) << "there is one";
  EXPECT_TRUE(tries(trials(), "samples: one bit of a digest"));
}

}  // namespace
}  // namespace lockstep::test
