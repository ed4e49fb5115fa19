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

/// The last batch has one sample, the last block one pixel: torch refuses to train on it, and so does the worker.
TEST_F(LearningEndToEnd, OneValueHasNoVariance) {
  for (const char* norm : {"batch", "sync_batch"}) {
    Json training = scenario({{"world_size", 1}, {"train", {{"data", {{"size", 13}}}}}, {"checks", {check("covers")}}});
    training["train"]["model"] = {{"kind", "resnet"}, {"widths", {4, 4, 4, 4}}, {"norm", norm}};
    const Result red = run(training);
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    expect_says(red.failed_run().at("log_tail").get<std::string>(), {"one value per channel"});
  }
}

/// 48 samples in batches of 5 a rank: what is short is left out, and counted so.
TEST_F(LearningEndToEnd, ShortBatchesAreDropped) {
  Json training = scenario({{"train", {{"steps", 12}, {"batch", {{"per_rank", 5}, {"drop_last", true}}}}},
                            {"variants", {{"w1", {{"world_size", 1}}}, {"w3", {{"world_size", 3}}}}},
                            {"checks", Json::array({check("covers"), check("ledger"), check("ranks_agree")})}});
  training["train"]["batch"].erase("global");
  for (const char* sampler : {"distributed", "contiguous", "none", "stream", "elastic", "libtorch"}) {
    training["train"]["sampler"] = {{"kind", sampler}};
    const Result green = run(training);
    expect_green(green);
    const trace::Trace trace = trace::read_trace(green.out / "tiny/w1/0/rank0.jsonl");
    const auto epoch = [&](std::size_t line) {
      return trace.steps[line].find(trace::Channel::kLedger, "epoch")->integers[0];
    };
    EXPECT_LT(epoch(9), epoch(10)) << sampler << ": no batch of 3 was left out";  // line 0 is the initial state
  }
  training["train"]["sampler"] = {{"kind", "accelerate"}};
  const Result refused = run(training);
  EXPECT_EQ(refused.exit_code(), 2) << refused.said();
  expect_says(refused.said(), {"train.sampler.drop_last"});
}

/// 29 samples on 3 ranks: who fills up, by how much, and where, is another matter for each kind.
TEST_F(LearningEndToEnd, EverySamplerKeepsItsPromise) {
  Json variants = Json::object();
  for (const char* kind :
       {"distributed", "contiguous", "none", "stream", "elastic", "libtorch", "accelerate", "dispatch"})
    variants[kind] = {{"train", {{"sampler", {{"kind", kind}}}}}};
  Json training = scenario({{"world_size", 3},
                            {"train", {{"steps", 30}, {"data", {{"size", 29}}}, {"batch", {{"per_rank", 2}}}}},
                            {"variants", variants},
                            {"checks", Json::array({check("covers")})}});
  training["train"]["batch"].erase("global");
  expect_green(run(training));
}

TEST_F(LearningEndToEnd, AnOrderThatStaysIsSeen) {
  for (const char* sampler : {"distributed", "contiguous", "elastic", "libtorch"}) {
    Json training = scenario({{"train", {{"steps", 12}, {"sampler", {{"kind", sampler}, {"set_epoch", false}}}}},
                              {"checks", Json::array({check("covers")})}});
    const Result red = run(training);
    EXPECT_EQ(red.exit_code(), 1) << sampler << red.said();
    expect_says(red.check("covers").at("explanation"), {"set_epoch"});
  }
}

/// 3 samples in micro-batches of one, two for each update: the first epoch ends among those of the second update, and
/// the schedule with it.
TEST_F(LearningEndToEnd, AnEpochThatEndsWithinAnUpdateMovesTheScheduleBeforeIt) {
  Json training = scenario({{"world_size", 1},
                            {"train",
                             {{"model", {{"kind", "linear"}}},
                              {"data", {{"size", 3}}},
                              {"batch", {{"per_rank", 2}, {"accumulation", 2}}},
                              {"optimizer", {{"momentum", 0}}},
                              {"schedule", {{"kind", "step"}, {"every", 1}, {"gamma", 0.5}}},
                              {"schedule_every", "epoch"},
                              {"steps", 3}}},
                            {"checks", Json::array({check("ledger")})}});
  training["train"]["batch"].erase("global");
  training["train"]["model"].erase("hidden");
  const Result result = run(training);
  expect_green(result);
  const auto rates_of = [](const Result& of) {
    std::vector<double> rates;
    for (const trace::Step& step : trace::read_trace(of.out / "tiny/main/0/rank0.jsonl").steps) {
      const trace::Record* rate = step.find(trace::Channel::kLedger, "learning_rate");
      if (rate != nullptr) rates.push_back(rate->number.value());
    }
    return rates;
  };
  EXPECT_EQ(rates_of(result), (std::vector<double>{0.1, 0.05, 0.05}));
  // An update at the end of each epoch leaves nothing over.
  training["train"]["batch"]["at_epoch_end"] = "update";
  const Result flushed = run(training);
  expect_green(flushed);
  EXPECT_EQ(rates_of(flushed), (std::vector<double>{0.1, 0.1, 0.05}));
}

/// 2^23 is too much for float16: updates are skipped until the scale fits, and it grows again afterwards.
TEST_F(LearningEndToEnd, ADynamicLossScaleFallsWithSkippedUpdatesAndGrows) {
  const Json training =
      scenario({{"train",
                 {{"autocast", "fp16"},
                  {"steps", 12},
                  {"gradient",
                   {{"loss_scale", 8388608}, {"dynamic_scale", {{"growth", 4}, {"backoff", 0.25}, {"interval", 3}}}}}}},
                {"checks", Json::array({check("ledger"), check("laws"), check("ranks_agree")})}});
  const Result result = run(training);
  expect_green(result);
  double before = 8388608;
  std::int64_t skipped = 0, grown = 0;
  for (const trace::Step& step : trace::read_trace(result.out / "tiny/main/0/rank0.jsonl").steps) {
    const trace::Record* scale = step.find(trace::Channel::kLedger, "loss_scale");
    if (scale == nullptr) continue;
    skipped = step.find(trace::Channel::kLedger, "skipped")->integers.at(0);
    grown += scale->number.value() > before ? 1 : 0;
    before = scale->number.value();
  }
  EXPECT_GT(skipped, 0);
  EXPECT_GT(grown, 0);
  const Result saved = run(scenario(merged({training, at("train.checkpoint.save_after", 3)})));
  EXPECT_EQ(saved.exit_code(), 2) << saved.said();
  expect_says(saved.said(), {"a checkpoint does not hold the scale", "train.gradient.dynamic_scale"});
}

}  // namespace
}  // namespace lockstep::test
