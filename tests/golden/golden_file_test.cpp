#include "harness/golden/golden_file.h"

#include <cmath>
#include <cstring>
#include <limits>

#include <gtest/gtest.h>

#include "harness/base/hash.h"
#include "harness/golden/cells.h"
#include "harness/golden/curve.h"
#include "harness/golden/words.h"
#include "harness/trace/line.h"

#include "tests/support/tiny/bench.h"

// The text of a golden: lossless for every trace, in one form, and for people to read.

namespace lockstep::test {
namespace {

using golden::Entry;
using golden::Golden;
using trace::Channel;
using trace::Record;

Golden golden_of(trace::RunTrace run) {
  for (trace::Trace& rank : run.ranks) {
    rank.header = {{"train_digest", "digest"}, {"samples", 24}};
    for (trace::Step& step : rank.steps) {
      for (Record& record : step.records) record = golden::as_kept(record);
    }
  }
  const std::vector<Channel> all = trace::all_channels();
  return {
      .scenario = "a scenario",
      .variant = "a",
      .entries = {{.key = "portable",
                   .history = {{.date = "2027-01-31", .repeats = 2, .reason = "a \"reason\"\nof two lines"}},
                   .environment = {{"libraries", {{"libtorch.so", "1"}, {"odd name", 2}}}, {"threads", 1}},
                   .recipe = {{"optimizer", {{"lr", 0.1}, {"groups", Json::array()}}}, {"checkpoint", Json::object()}},
                   .channels = {all.begin(), all.end()},
                   .run = std::move(run)}}};
}

trace::RunTrace run_of(std::vector<std::vector<std::vector<Record>>> ranks) {
  trace::RunTrace run{.run = "golden", .ranks = {}, .files = {}};
  for (std::vector<std::vector<Record>>& steps : ranks) {
    trace::Trace rank{.origin = "",
                      .header = {},
                      .rank = static_cast<std::int64_t>(run.ranks.size()),
                      .world_size = static_cast<std::int64_t>(ranks.size()),
                      .steps = {},
                      .complete = true,
                      .torn = {},
                      .damage = {}};
    for (std::vector<Record>& records : steps)
      rank.steps.push_back({.step = static_cast<std::int64_t>(rank.steps.size()) - 1, .records = std::move(records)});
    run.ranks.push_back(std::move(rank));
  }
  return run;
}

/// A rank's steps as text, in which NaN equals itself.
std::string lines_of(const Golden& golden, std::size_t rank) {
  std::string lines;
  for (const trace::Step& step : golden.entries.at(0).run.ranks.at(rank).steps) lines += trace::line_of(step);
  return lines;
}

/// What was read back, if nothing is lost: else the test fails.
Golden read_back(const trace::RunTrace& run) {
  const Golden golden = golden_of(run);
  Golden read = golden::golden_from(golden::to_text(golden), "a golden");
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank)
    EXPECT_EQ(lines_of(read, rank), lines_of(golden, rank)) << "rank " << rank;
  EXPECT_EQ(read.entries.at(0).history, golden.entries[0].history);
  EXPECT_EQ(read.entries.at(0).environment, golden.entries[0].environment);
  EXPECT_EQ(read.entries.at(0).recipe, golden.entries[0].recipe);
  EXPECT_EQ(read.scenario, golden.scenario);
  return read;
}

TEST(GoldenFile, LosesNothingOfATraining) {
  const Bench bench(Json{{"checks", Json::array({Json{{"that", "ledger"}}})}});
  read_back(bench.runs.at("a").at(0));
}

TEST(GoldenFile, LosesNothingOfOddRecords) {
  const float nan = std::numeric_limits<float>::quiet_NaN(), inf = std::numeric_limits<float>::infinity();
  Record text = integers(Channel::kCollective, "0", {});
  text.dtype = trace::DType::kUInt8;
  text.text = "allreduce \"Float\"[650] | = -\n";
  text.shape = {static_cast<std::int64_t>(text.text.size())};
  Record unknown = text;  // whose digest does not follow from its value
  unknown.digest.high ^= 1;
  Record in_parts = floats(Channel::kWeight, "parts", {1, 2}), with_sum = floats(Channel::kWeight, "sum", {1, 2});
  in_parts.is_joined = true;
  in_parts.layout = "dp=2: S(0)";
  with_sum.sum = trace::Digest{.high = 3, .low = 4};
  Record value_with_sum = scalar(Channel::kWeight, "scale", 0.1F);
  value_with_sum.sum = with_sum.sum;
  Record other_type = floats(Channel::kWeight, "w", {1, 2}, {1, 2});
  const std::vector<Record> records = {integers(Channel::kSamples, "ids", {-1, 0, 5}),
                                       integers(Channel::kSamples, "none", {}),
                                       scalar(Channel::kLoss, "local", 0.1F),
                                       scalar(Channel::kLoss, "-", nan),
                                       scalar(Channel::kLoss, "|", -inf),
                                       scalar(Channel::kLoss, "=", -0.0F),
                                       floats(Channel::kGradientLocal, "w", {nan, inf}),
                                       floats(Channel::kGradientLocal, "w", {1, 2}),
                                       floats(Channel::kGradient, "w", {1, 2}),
                                       floats(Channel::kGradient, "clipped w", {0.1F, 2}),
                                       other_type,
                                       floats(Channel::kWeight, "a \"b\\ \n\x7f\xc3\xa4", {1, 2}),
                                       in_parts,
                                       with_sum,
                                       value_with_sum,
                                       unknown,
                                       text};
  std::vector<Record> fewer(records.begin() + 1, records.end() - 3), turned(records.rbegin(), records.rend());
  fewer.push_back(floats(Channel::kWeight, "w", {1, 2, 3}));
  read_back(run_of({{records, fewer, {}}}));
  read_back(run_of({{records, records}, {fewer, turned}}));
  read_back(run_of({{fewer, {}}, {records, turned}, {}}));
  read_back(run_of({{{}, turned}, {records}, {turned, fewer, records}}));
}

TEST(GoldenFile, SaysOnceWhatRanksShare) {
  const std::vector<Record> same = {floats(Channel::kWeight, "w", {1, 2})},
                            other = {floats(Channel::kWeight, "w", {1, 3})};
  const auto row = [](const trace::RunTrace& run) {
    const std::string text = golden::to_text(golden_of(run));
    const std::size_t begin = text.find("\n-1 weight w ") + 1;
    return text.substr(begin, text.find('\n', begin) - begin);
  };
  EXPECT_EQ(row(run_of({{same}, {same}, {same}})).find('|'), std::string::npos);
  const std::string apart = row(run_of({{same}, {other}, {same}}));
  EXPECT_EQ(std::count(apart.begin(), apart.end(), '|'), 2) << apart;
}

TEST(GoldenFile, ShowsTheCurveToPeople) {
  const std::vector<Record> step = {scalar(Channel::kLoss, "local", 2.5F), floats(Channel::kGradient, "w", {3, 4}),
                                    scalar(Channel::kLedger, "learning_rate", 0.1F)};
  const std::string text = golden::to_text(golden_of(run_of({{{}, step}})));
  EXPECT_NE(text.find("\ncurve 0 loss 2.5 gradient 5 rate 0.1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nrecipe optimizer.lr 0.1\n"), std::string::npos) << text;
  EXPECT_NE(text.find("\nenvironment libraries.\"odd name\" 2\n"), std::string::npos) << text;
}

/// The text without its last line, sealed: what a person who edits it by a program would write.
std::string sealed(const std::string& text, const std::string& before, const std::string& after) {
  std::string edited = text;
  const std::size_t at = edited.find(before);
  EXPECT_NE(at, std::string::npos) << before;
  edited.replace(at, before.size(), after);
  const std::size_t key = edited.find("\nkey ") + 1, end = edited.rfind("end ");
  const std::size_t names = edited.find("scenario ");
  return edited.substr(0, end) + "end " +
         sha256(edited.substr(names, key - 1 - names) + edited.substr(key, end - key)) + "\n";
}

TEST(GoldenFile, ItsLossIsTheMeanOfTheRanksOwn) {
  const auto losses = [](float own) {
    return std::vector<Record>{scalar(Channel::kLoss, "local", own), scalar(Channel::kLoss, "reduced", 100)};
  };
  EXPECT_EQ(golden::losses_of(run_of({{{}, losses(1)}, {{}, losses(3)}})), std::vector<double>{2});
}

TEST(GoldenFile, ALongCurveHasFortyBars) {
  const auto bars = [](std::size_t count) {
    std::vector<double> numbers(count);
    for (std::size_t i = 0; i < count; ++i) numbers[i] = static_cast<double>(i);
    return golden::bars_of(numbers).find(' ') / std::string("\u2581").size();
  };
  EXPECT_EQ(bars(3), 3U);
  EXPECT_EQ(bars(100), 40U);
}

/// Of a record whose digest does not follow from its value.
TEST(GoldenFile, ANormIsTheOneThatIsWritten) {
  Record record = scalar(Channel::kLoss, "local", 0.5F);
  record.digest.high ^= 1;
  record.norm = 7;
  const std::string cell = golden::cell_of(record);
  const Record read = golden::record_from(Channel::kLoss, "local", golden::type_of(record), golden::words_in(cell));
  EXPECT_EQ(read.norm, 7) << cell;
  EXPECT_EQ(read.number, 0.5);
}

TEST(GoldenFile, ListsStepsWithTheirGaps) {
  const std::vector<Record> step = {floats(Channel::kWeight, "w", {3, 4})};
  trace::RunTrace run = run_of({{step, step, step}});
  run.ranks[0].steps[2].step = 5;
  read_back(run);
  const std::string text = golden::to_text(golden_of(run));
  EXPECT_NE(text.find("\nsteps -1..0,5\n"), std::string::npos) << text;
  try {
    golden::golden_from(sealed(text, "steps -1..0,5", "steps -1..0,0,5"), "a golden");
    ADD_FAILURE() << "read";
  } catch (const DamagedFile& error) {
    EXPECT_NE(error.problem().what.find("its steps do not rise"), std::string::npos) << error.problem().what;
  }
}

TEST(GoldenFile, HasOneForm) {
  const std::vector<Record> step = {scalar(Channel::kLoss, "local", 2.5F), floats(Channel::kWeight, "w", {3, 4})};
  const std::string text = golden::to_text(golden_of(run_of({{step, step}})));
  EXPECT_NO_THROW(golden::golden_from(sealed(text, "reason", "reason"), "a golden").entries.at(0))
      << "the seal is right";
  const std::pair<const char*, const char*> others[] = {{"curve 0 loss 2.5", "curve 0 loss 2.6"},
                                                        {"curve 0 loss 2.5\n", ""},
                                                        {"tensor weight w", "tensor weight  w"},
                                                        {"0 loss local =2.5", "0 loss local =2.50"},
                                                        {"steps -1..0", "steps -1,0"},
                                                        {"samples 24", "samples 024"},
                                                        {"0 weight w", "00 weight w"}};
  for (const auto& [before, after] : others)
    EXPECT_THROW(golden::golden_from(sealed(text, before, after), "a golden"), DamagedFile) << after;
}

TEST(GoldenFile, NamesTheLineOfWhatItCannotRead) {
  const std::string text = golden::to_text(golden_of(run_of({{{floats(Channel::kWeight, "w", {3, 4})}}})));
  const std::size_t line =
      static_cast<std::size_t>(
          std::count(text.begin(), text.begin() + static_cast<std::ptrdiff_t>(text.find("\n-1 weight") + 1), '\n')) +
      1;
  try {
    golden::golden_from(sealed(text, "\n-1 weight w", "\n-1 weights w"), "a golden");
    ADD_FAILURE() << "read";
  } catch (const DamagedFile& error) {
    EXPECT_EQ(error.problem().where, "a golden, line " + std::to_string(line));
    EXPECT_NE(error.problem().what.find("'weights' is no channel"), std::string::npos) << error.problem().what;
  }
}

}  // namespace
}  // namespace lockstep::test
