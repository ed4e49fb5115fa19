// The models learn what there is to learn: a harness whose trainings stand still would agree about nothing of interest.
#include "harness/trace/reader.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class LearningEndToEnd : public EndToEnd {
 protected:
  /// Reduced loss of the last update.
  double last_loss(const Json& train) {
    Json training = scenario();
    training["train"].erase("model");
    training["train"].erase("data");
    training["train"].erase("batch");
    training["train"].erase("optimizer");
    merge_json(training["train"], train);
    training["train"]["determinism"]["cpu"] = "portable";
    training["train"]["record"] = {{"channels", {"loss", "ledger"}}};
    training["checks"] = Json::array({check("ledger")});
    const Result result = run(training);
    expect_green(result);
    const trace::Trace trace = trace::read_trace(result.out / "tiny/main/0/rank0.jsonl");
    return trace.steps.back().find(trace::Channel::kLoss, "reduced")->number.value();
  }
};

TEST_F(LearningEndToEnd, DigitsAreTold) {
  const std::string digits = (source_root() / "scenarios/data/digits.csv.gz").string();
  for (const Json& model : {Json{{"kind", "linear"}}, Json{{"kind", "mlp"}}, Json{{"kind", "lenet"}},
                            Json{{"kind", "resnet"}}, Json{{"kind", "resnet"}, {"norm", "sync_batch"}}}) {
    const double loss = last_loss({{"model", model},
                                   {"data", {{"kind", "digits"}, {"path", digits}}},
                                   {"batch", {{"global", 64}}},
                                   {"optimizer", {{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}}},
                                   {"steps", 140}});
    EXPECT_LT(loss, 0.7) << model << ": guessing is ln 10 = 2.3";
  }
}

TEST_F(LearningEndToEnd, TheNextCharacterIsFollowedFromThoseBefore) {
  const double loss =
      last_loss({{"model", {{"kind", "transformer"}}},
                 {"data", {{"kind", "text"}, {"path", (source_root() / "scenarios/data/sonnets.txt").string()}}},
                 {"batch", {{"global", 16}}},
                 {"optimizer", {{"kind", "adamw"}, {"lr", 0.01}}},
                 {"steps", 100}});
  EXPECT_LT(loss, 2.8) << "the characters' own frequencies are worth 3.1";
}

}  // namespace
}  // namespace lockstep::test
