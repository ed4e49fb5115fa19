// docs/examples/record_torch.cpp: a LibTorch training that records itself over lockstep/torch.h.
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/json.h"

#include "tests/support/support.h"

namespace lockstep::test {
namespace {

class TorchExample : public ::testing::Test {
 protected:
  /// Trains into `name`/weights.pt; records into `name`/run, if at all.
  std::filesystem::path train(const std::string& name, const std::string& rate, bool recorded = true) const {
    const auto folder = scratch_.path() / name;
    std::filesystem::create_directories(folder);
    const Outcome outcome = run_program(
        {PROGRAM_record_torch, recorded ? (folder / "run").string() : "-", rate, (folder / "weights.pt").string()},
        120);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.err;
    return folder;
  }

  Scratch scratch_;
};

TEST_F(TorchExample, RecordingKeepsEveryBit) {
  const std::string recorded = read_file(train("recorded", "0.1") / "weights.pt");
  EXPECT_EQ(recorded, read_file(train("plain", "0.1", false) / "weights.pt"));
  EXPECT_NE(recorded, read_file(train("other", "0.2", false) / "weights.pt"));
}

TEST_F(TorchExample, ShowNamesItsRecordsAsTheWorkers) {
  const Outcome shown = run_program({lockstep_program(), "show", train("a", "0.1") / "run"});
  EXPECT_EQ(shown.exit_code, 0) << shown.err;
  for (const char* part :
       {"samples         ids", "input           x", "loss            local", "gradient        0.weight",
        "optimizer       0.weight.momentum_buffer", "weight          3.bias", "buffer          2.running_mean",
        "ledger          learning_rate", "complete"})
    EXPECT_NE(shown.out.find(part), std::string::npos) << part << "\n" << shown.out;
}

TEST_F(TorchExample, TwiceTheRateIsFoundAtTheFirstWeight) {
  const auto diff = [&](const std::filesystem::path& left, const std::filesystem::path& right) {
    return Json::parse(run_program({lockstep_program(), "diff", left / "run", right / "run", "--json", "-"}).out);
  };
  EXPECT_EQ(diff(train("a", "0.1"), train("b", "0.1"))["status"], "agree");
  const Json first = diff(train("c", "0.1"), train("d", "0.2"))["first_divergence"];
  EXPECT_EQ(first["step"], 0);
  EXPECT_EQ(first["channel"], "weight");
}

TEST_F(TorchExample, AFolderThatIsUsedIsRefused) {
  train("used", "0.1");
  const Outcome again = run_program({PROGRAM_record_torch, (scratch_.path() / "used/run").string()}, 120);
  EXPECT_EQ(again.exit_code, 1);
  EXPECT_NE(again.err.find("a trace already exists"), std::string::npos) << again.err;
}

}  // namespace
}  // namespace lockstep::test
