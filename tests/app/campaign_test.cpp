// Runs of a plan in a folder that outlives the process that started them.
#include "harness/app/campaign.h"

#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "harness/app/runs_folder.h"
#include "harness/base/files.h"

#include "tests/app/refused.h"
#include "tests/support/support.h"
#include "tests/support/tiny/judged.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;
using test::refused;

/// A plan that nobody runs, and a folder for it.
class CampaignTest : public ::testing::Test {
 protected:
  CampaignTest() { fs::create_directories(folder_); }

  test::Judged judged_{test::equal_pair()};
  plan::Plan& plan_ = judged_.plan;
  fs::path folder_ = judged_.scratch.path() / "runs";
};

TEST_F(CampaignTest, StartsWithoutAnyRunEnded) {
  const Campaign campaign = Campaign::begin(plan_, folder_);
  ASSERT_EQ(campaign.ended().size(), plan_.runs.size());
  for (const auto& ended : campaign.ended()) EXPECT_FALSE(ended);
}

TEST_F(CampaignTest, GoesOnWithRunsThatHaveNotEndedAndRemovesWhatTheyLeft) {
  { const Campaign begun = Campaign::begin(plan_, folder_); }
  judged_.evidence();  // writes the traces of both
  launch::RunOutcome failed = judged_.outcomes[0];
  failed.status = launch::RunOutcome::Status::kFailed;
  launch::Observer silent;
  OutcomeKeeper(plan_, folder_, silent).ended(0, failed);
  const Campaign campaign = Campaign::resume(plan_, folder_);
  ASSERT_TRUE(campaign.ended()[0]);
  EXPECT_EQ(campaign.ended()[0]->status, launch::RunOutcome::Status::kFailed);
  EXPECT_FALSE(campaign.ended()[1]);
  EXPECT_TRUE(fs::exists(judged_.folder(0)));
  EXPECT_FALSE(fs::exists(judged_.folder(1)));
}

TEST_F(CampaignTest, RefusesRunsThatComputeSomethingElse) {
  { const Campaign begun = Campaign::begin(plan_, folder_); }
  std::get<plan::WorkerProgram>(plan_.runs[1].program).spec["train"]["steps"] = 99;
  const std::string error = refused([&] { Campaign::resume(plan_, folder_); });
  EXPECT_NE(error.find("a campaign of other runs: " + plan_.runs[1].name), std::string::npos) << error;
}

TEST_F(CampaignTest, RefusesAFolderInWhichAnotherWorks) {
  const Campaign begun = Campaign::begin(plan_, folder_);
  EXPECT_NE(refused([&] { Campaign::resume(plan_, folder_); }).find("another lockstep works in this folder"),
            std::string::npos);
}

TEST_F(CampaignTest, RefusesAFolderWithoutOne) {
  EXPECT_NE(refused([&] { Campaign::resume(plan_, folder_); }).find("there is no campaign to resume"),
            std::string::npos);
  replace_file(folder_ / "campaign.json", "{}");
  EXPECT_NE(refused([&] { Campaign::resume(plan_, folder_); }).find("this campaign cannot be resumed"),
            std::string::npos);
}

TEST(RunsFolders, AreEmptyOrGoOn) {
  const test::Scratch scratch;
  scratch.write("runs/rank0.jsonl", "");
  const fs::path runs = scratch.path() / "runs";
  EXPECT_NE(refused([&] { RunsFolder{runs}; }).find("is not empty"), std::string::npos);
  EXPECT_EQ(RunsFolder(runs, /*resume=*/true).path(), runs);
  EXPECT_NE(refused([&] { RunsFolder{runs / "rank0.jsonl"}; }).find("is a file"), std::string::npos);
  fs::path temporary;
  {
    const RunsFolder folder{""};
    temporary = folder.path();
    EXPECT_TRUE(fs::exists(temporary));
  }
  EXPECT_FALSE(fs::exists(temporary));
}

}  // namespace
}  // namespace lockstep::app
