// A trace that was cut off or changed, by one bit even, is never taken for a whole one.
#include <algorithm>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class DamagedTrace : public EndToEnd {
 protected:
  void SetUp() override {
    const Result whole = run(scenario({{"train", {{"steps", 3}}}}));
    expect_green(whole);
    folder_ = whole.out / "tiny/main/0";
    file_ = folder_ / "rank0.jsonl";
    content_ = read_text(file_);
    fs::create_directories(scratch_.path() / "damaged");
    fs::copy_file(folder_ / "rank1.jsonl", scratch_.path() / "damaged/rank1.jsonl");
  }

  fs::path damaged(const std::string& content) const { return scratch_.write("damaged/rank0.jsonl", content); }

  /// What shows and compares this trace, alone and as part of its run.
  std::vector<Outcome> looks(const fs::path& trace) const {
    return {run_lockstep({"show", trace}), run_lockstep({"diff", file_, trace}),
            run_lockstep({"diff", trace.parent_path(), folder_})};
  }

  fs::path folder_, file_;
  std::string content_;
};

TEST_F(DamagedTrace, WholeOneIsFine) {
  for (const Outcome& outcome : looks(damaged(content_))) EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
}

TEST_F(DamagedTrace, CutOffAtEveryLineAndInEveryLine) {
  std::vector<std::size_t> places;
  for (std::size_t begin = 0; begin < content_.size();) {
    const std::size_t end = content_.find('\n', begin);
    places.insert(places.end(), {begin, (begin + end) / 2, end});
    begin = end + 1;
  }
  ASSERT_GE(places.size(), 18U);
  for (const std::size_t place : places) {
    SCOPED_TRACE("cut off after " + std::to_string(place) + " bytes");
    for (const Outcome& outcome : looks(damaged(content_.substr(0, place)))) {
      EXPECT_EQ(outcome.exit_code, 4) << outcome.out << outcome.err;
      expect_says(outcome.out + outcome.err, {"torn"});
    }
  }
}

TEST_F(DamagedTrace, OneBitFlippedInEveryLine) {
  std::size_t begin = 0;
  for (int line = 1; begin < content_.size(); ++line) {
    const std::size_t end = content_.find('\n', begin);
    // At the start, in the middle, in the check and in the last brace; bit 5 turns letters into capitals.
    for (const auto& [place, bit] :
         {std::pair{begin, 2}, std::pair{(begin + end) / 2, 0}, std::pair{end - 5, 5}, std::pair{end - 1, 1}}) {
      SCOPED_TRACE("line " + std::to_string(line) + ", byte " + std::to_string(place - begin) + ", bit " +
                   std::to_string(bit));
      std::string changed = content_;
      changed[place] = static_cast<char>(changed[place] ^ (1 << bit));
      for (const Outcome& outcome : looks(damaged(changed))) {
        EXPECT_EQ(outcome.exit_code, 4) << outcome.out << outcome.err;
        expect_says(outcome.err, {"damaged trace", "rank0.jsonl, line " + std::to_string(line)});
      }
    }
    begin = end + 1;
  }
}

TEST_F(DamagedTrace, LinesMissingDoubledOrSwapped) {
  const std::vector<std::string> whole = lines_of(file_);
  ASSERT_GE(whole.size(), 6U);
  std::vector<std::string> missing = whole, doubled = whole, swapped = whole, twice = whole;
  missing.erase(missing.begin() + 2);
  doubled.insert(doubled.begin() + 2, doubled[2]);
  std::swap(swapped[2], swapped[3]);
  twice.insert(twice.end(), whole.begin(), whole.end());
  for (const auto& lines : {missing, doubled, swapped, twice}) {
    write_lines(damaged(""), lines);
    for (const Outcome& outcome : looks(scratch_.path() / "damaged/rank0.jsonl")) {
      EXPECT_EQ(outcome.exit_code, 4) << outcome.out << outcome.err;
      expect_says(outcome.err, {"damaged trace", "line "});
    }
  }
}

TEST_F(DamagedTrace, FilesThatAreNoTraces) {
  for (const std::string& content :
       {std::string("hello\n"), std::string("{}\n"), std::string("\n"), std::string(1000, '\0')}) {
    SCOPED_TRACE(content.substr(0, 10));
    for (const Outcome& outcome : looks(damaged(content))) {
      EXPECT_TRUE(outcome.exit_code == 2 || outcome.exit_code == 4) << outcome.out << outcome.err;
      EXPECT_NE(outcome.out + outcome.err, "");
    }
  }
}

TEST_F(DamagedTrace, RankMissingOrOfAnotherRun) {
  fs::remove(damaged(content_).parent_path() / "rank1.jsonl");
  const Outcome missing = run_lockstep({"diff", folder_, scratch_.path() / "damaged"});
  EXPECT_TRUE(missing.exit_code == 2 || missing.exit_code == 4) << missing.out << missing.err;
  expect_says(missing.err, {"rank1.jsonl"});
  scratch_.write("damaged/rank1.jsonl", content_);
  const Outcome twin = run_lockstep({"diff", folder_, scratch_.path() / "damaged"});
  EXPECT_EQ(twin.exit_code, 4) << twin.out << twin.err;
  expect_says(twin.err, {"rank1.jsonl", "rank 1 of 2", "rank 0 of 2"});
}

TEST_F(DamagedTrace, OfAnotherRankIsToldByShow) {
  damaged(content_);
  const fs::path run = scratch_.path() / "damaged", other = run / "rank1.jsonl";
  EXPECT_EQ(run_lockstep({"show", run}).exit_code, 0);
  const std::string whole = read_text(other);
  std::string changed = whole;
  changed[whole.find('\n') + 20] ^= 1;
  const std::pair<std::string, const char*> cases[] = {
      {changed, "rank1.jsonl, line 2"}, {whole.substr(0, whole.size() - 1), "rank1.jsonl is torn"}, {"", "torn"}};
  for (const auto& [content, says] : cases) {
    scratch_.write("damaged/rank1.jsonl", content);
    const Outcome outcome = run_lockstep({"show", run, "--channel", "loss"});
    EXPECT_EQ(outcome.exit_code, 4) << outcome.out << outcome.err;
    expect_says(outcome.out, {"step 0", "another rank: ", says});
    EXPECT_EQ(run_lockstep({"show", run / "rank0.jsonl"}).exit_code, 0) << "it was asked of rank 0 alone";
  }
  fs::remove(other);
  expect_says(run_lockstep({"show", run}).out, {"the trace of rank 1 is missing"});
}

TEST_F(DamagedTrace, EvidenceDamagedBeforeItIsJudged) {
  const std::pair<const char*, const char*> cases[] = {
      {"rm $out/rank0.jsonl", "rank0.jsonl"},
      {": > $out/rank0.jsonl", "torn"},
      {"truncate -s -1 $out/rank0.jsonl", "torn"},
      {"truncate -s 3000 $out/rank0.jsonl", "torn"},
      {"sed -i '3y/0123456789/1234567890/' $out/rank0.jsonl", "line 3"},
      {"sed -i 4d $out/rank0.jsonl", "damaged trace"},
      {"sleep 1; cp $out/rank0.jsonl $out/rank1.jsonl", "do not belong to one run"}};
  for (const auto& [deed, sign] : cases) {
    SCOPED_TRACE(deed);
    const std::string who = std::string(deed).rfind("sleep", 0) == 0 ? "1" : "0";
    const auto worker = script_worker("$worker \"$@\" || exit $?\nif [ $RANK = " + who + " ]; then " + deed + "; fi");
    const Result result =
        run(scenario({{"checks", Json::array({check("ranks_agree"), check("ledger")})}}), {"--worker", worker});
    EXPECT_EQ(result.exit_code(), 4) << result.said();
    EXPECT_EQ(result.failed_run().at("outcome"), "evidence lost");
    expect_says(result.failed_run().at("why"), {sign});
    EXPECT_EQ(result.check("ledger").at("status"), "inconclusive");
  }
}

TEST_F(DamagedTrace, EvidenceOfAnotherRun) {
  const auto worker = script_worker("cp '" + folder_.string() + "'/rank$RANK.jsonl $out/");
  Json other = scenario({{"train", {{"steps", 3}}}});
  expect_green(run(other, {"--worker", worker}));
  other["train"]["seed"]["base"] = 4;
  const Result result = run(other, {"--worker", worker});
  EXPECT_EQ(result.exit_code(), 4) << result.said();
  expect_says(result.failed_run().at("why"), {"belong to another run"});
}

}  // namespace
}  // namespace lockstep::test
