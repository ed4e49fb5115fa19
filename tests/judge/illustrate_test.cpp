#include "harness/judge/illustrate.h"

#include <functional>

#include "harness/golden/processors.h"
#include "harness/golden/store.h"
#include "harness/report/renderer.h"

#include "tests/support/tiny/judged.h"

namespace lockstep::test {
namespace {

using judge::Relates;
using trace::Channel;

struct Drawn {
  /// `change`: of the second run's trace, after it was read.
  explicit Drawn(const Judged& judged, const std::function<void(trace::RunTrace&)>& change = {}) {
    auto evidence = judged.evidence();
    if (change) change(*evidence[1].trace);
    verdict = judge::judge(judged.plan, evidence, judged.scratch.path() / "golden", "2027-06-15");
    const Json before = report::to_json(verdict, judged.plan);
    judge::draw_curves(verdict, judged.plan, evidence);
    judge::draw_maps(verdict, judged.plan, evidence, judged.scratch.path() / "golden");
    EXPECT_EQ(report::to_json(verdict, judged.plan), before) << "pictures are no part of the result";
    pictures = verdict.pictures.at(0);
  }

  const judge::Map& map() const { return pictures.maps.at(0); }

  /// Relations of a row along the columns; empty if the map lacks it.
  std::vector<Relates> row(Channel channel, const std::string& tensor) const {
    std::vector<Relates> relations;
    for (const judge::Row& row : map().rows) {
      if (row.channel != channel || row.tensor != tensor) continue;
      for (const judge::Cell& cell : row.cells) relations.push_back(cell.relates);
    }
    return relations;
  }

  judge::Verdict verdict;
  judge::Pictures pictures;
};

constexpr Relates kNone = Relates::kNotCompared, kEqual = Relates::kEqual, kBeyond = Relates::kBeyond,
                  kMissing = Relates::kMissing;
using Row = std::vector<Relates>;

TEST(Illustrate, ShowsWhatWasComparedBehindTheFirstDifference) {
  Judged judged(equal_pair());
  put(judged.traces[1], 1, 2, scalar(Channel::kLoss, "local", 7));
  const Drawn drawn(judged);
  ASSERT_EQ(drawn.map().columns.size(), 5U) << "the state before the first update, and four steps";
  EXPECT_EQ(drawn.row(Channel::kLoss, "local"), (Row{kNone, kEqual, kEqual, kBeyond, kEqual}));
  EXPECT_EQ(drawn.row(Channel::kWeight, "fc.weight"), (Row{kEqual, kEqual, kEqual, kEqual, kEqual}));
  ASSERT_TRUE(drawn.map().first);
  EXPECT_EQ(drawn.map().rows[drawn.map().first->row].tensor, "local");
  EXPECT_EQ(drawn.map().first->column, 3U);
  EXPECT_EQ(drawn.map().ranks.at(0)[3].relates, kEqual);
  EXPECT_EQ(drawn.map().ranks.at(1)[3].relates, kBeyond);
}

TEST(Illustrate, NeverCallsEqualWhatOneSideLacks) {
  const Judged judged(equal_pair());
  const Drawn drawn(judged, [](trace::RunTrace& run) {
    erase(run, 0, 1, Channel::kGradient, "fc.bias");
    erase_step(run, 0, 3);
  });
  EXPECT_EQ(drawn.row(Channel::kGradient, "fc.bias"), (Row{kNone, kEqual, kMissing, kEqual, kMissing}));
}

TEST(Illustrate, LeavesOutChannelsThatACheckDoesNotName) {
  Judged judged(Json{{"checks", {{{"that", "equal"}, {"variants", {"a", "b"}}, {"on", {"loss"}}}}}});
  put(judged.traces[1], 1, 2, scalar(Channel::kLoss, "local", 7));
  const Drawn drawn(judged);
  EXPECT_EQ(drawn.row(Channel::kWeight, "fc.weight"), Row{});
  EXPECT_EQ(drawn.row(Channel::kLoss, "local").size(), 5U);
}

TEST(Illustrate, MeasuresDistancesBetweenWorldSizes) {
  Judged judged({{"variants", {{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}}},
                 {"checks", {{{"that", "rounding"}, {"variants", {"a", "b"}}}}}});
  const Drawn drawn(judged);
  ASSERT_EQ(drawn.verdict.status(), judge::Status::kAgree);
  EXPECT_EQ(drawn.row(Channel::kSamples, "ids"), (Row{kNone, kEqual, kEqual, kEqual, kEqual}))
      << "of all ranks together";
  bool rounds = false;
  for (const judge::Row& row : drawn.map().rows) {
    for (const judge::Cell& cell : row.cells) {
      EXPECT_LE(cell.relates, Relates::kRounding) << row.tensor;
      rounds = rounds || (cell.relates == Relates::kRounding && cell.distance && *cell.distance <= *cell.bound);
    }
  }
  EXPECT_TRUE(rounds);
  EXPECT_FALSE(drawn.map().first);
}

TEST(Illustrate, ShowsADifferenceFromAGoldenWithoutADistance) {
  Judged judged(Json{{"checks", {{{"that", "golden"}, {"variants", {"a"}}}}}});
  trace::RunTrace& run = judged.traces[0];
  const std::vector<trace::Channel> all = trace::all_channels();
  golden::accept(golden::golden_file(judged.scratch.path() / "golden", "tiny", "a"),
                 {.name = {"tiny", "a"},
                  .key = golden::class_of(run),
                  .recipe = Json::object(),
                  .channels = {all.begin(), all.end()},
                  .repeats = {run, run},
                  .acceptance = {.date = "2027-01-01", .reason = "first"}});
  for (std::int64_t rank = 0; rank < 2; ++rank) spoil(run, rank, 2, Channel::kWeight, "fc.weight");
  const Drawn drawn(judged);
  EXPECT_EQ(drawn.row(Channel::kWeight, "fc.weight"), (Row{kEqual, kEqual, kEqual, Relates::kUnmeasured, kEqual}))
      << "a golden holds no sketches";
  EXPECT_TRUE(drawn.map().first);
}

TEST(Illustrate, RunsOfTheSamePointsShareACurveAndChecksThatAgreeNeedNoMap) {
  Judged judged(equal_pair());
  const Drawn drawn(judged);
  ASSERT_EQ(drawn.pictures.curves.size(), 1U);
  EXPECT_EQ(drawn.pictures.curves[0].runs, (std::vector<std::string>{"a/0", "b/0"}));
  ASSERT_EQ(drawn.pictures.curves[0].points.size(), 4U);
  EXPECT_TRUE(drawn.pictures.curves[0].points[0].loss);
  EXPECT_GT(drawn.pictures.curves[0].points[0].gradient.value_or(0), 0);
  EXPECT_TRUE(drawn.pictures.maps.empty());
}

TEST(Illustrate, DrawsNothingOfARunThatLeftNoTrace) {
  Judged judged(equal_pair());
  judged.outcomes[1] = {.run = judged.plan.runs[1].name, .status = launch::RunOutcome::Status::kFailed, .why = "died"};
  const Drawn drawn(judged);
  EXPECT_EQ(drawn.pictures.curves.size(), 1U);
  EXPECT_TRUE(drawn.pictures.maps.empty());
}

}  // namespace
}  // namespace lockstep::test
