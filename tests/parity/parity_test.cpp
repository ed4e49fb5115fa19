// The same trainings in Python's DistributedDataParallel and in the worker, record by record, bit for bit.

#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/json.h"

#include "tests/parity/pairwise.h"
#include "tests/parity/twin.h"
#include "tests/support/support.h"

namespace lockstep::test {
namespace {

Json ddp_modes() {
  return Json::array({Json::object(),
                      {{"bucket_mb", 0.002}},
                      {{"find_unused_parameters", true}},
                      {{"gradient_as_bucket_view", true}}});
}

Json optimizers() {
  return Json::array({{{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}},
                      {{"kind", "sgd"}, {"lr", 0.05}, {"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.01}}});
}

/// {mlp, lenet} × {default, small buckets, find_unused_parameters, bucket view} × {momentum, Nesterov + weight decay}.
void expect_core_parity(int world_size) {
  Json scenario = base_scenario("core");
  scenario["world_size"] = world_size;
  scenario["matrix"] = {
      {"train.model.kind", {"mlp", "lenet"}}, {"train.ddp", ddp_modes()}, {"train.optimizer", optimizers()}};
  std::set<std::string> channels = kCore;
  channels.insert("optimizer");
  expect_parity(scenario, channels);
}

TEST(Parity, CoreOnOneRank) { expect_core_parity(1); }
TEST(Parity, CoreOnTwoRanks) { expect_core_parity(2); }
TEST(Parity, CoreOnThreeRanks) { expect_core_parity(3); }
TEST(Parity, CoreOnFourRanks) { expect_core_parity(4); }

TEST(Parity, SamplersAndSeeds) {
  Json scenario = base_scenario("samplers");
  scenario["train"]["data"]["size"] = 59;  // does not divide
  scenario["matrix"] = {{"world_size", {2, 3}},
                        {"train.sampler",
                         {{{"kind", "distributed"}, {"drop_last", true}, {"seed", 7}},
                          {{"kind", "distributed"}, {"shuffle", false}},
                          {{"kind", "distributed"}, {"set_epoch", false}},
                          {{"kind", "contiguous"}},
                          {{"kind", "contiguous"}, {"drop_last", true}, {"shuffle", false}},
                          {{"kind", "none"}},
                          {{"kind", "none"}, {"shuffle", false}}}},
                        {"train.seed.policy", {"same", "add_rank"}}};
  expect_parity(scenario, kCore);
}

TEST(Parity, AccumulationSchedulesRulesAndSums) {
  Json scenario = base_scenario("updates");
  scenario["matrix"] = {
      {"world_size", {1, 2, 3}},
      {"train.batch", {{{"per_rank", 8}, {"accumulation", 2}}, {{"per_rank", 6}}}},
      {"train.schedule", {{{"kind", "step"}, {"every", 3}, {"gamma", 0.3}}}},
      {"train.learning_rate_rule",
       {{{"kind", "linear"}, {"base_batch", 5}}, {{"kind", "sqrt"}, {"base_batch", 7}, {"warmup", 4}}}},
      {"train.ddp.average", {true, false}}};
  scenario["train"]["optimizer"] = {{"kind", "sgd"}, {"lr", 0.01}, {"momentum", 0.5}, {"dampening", 0.25}};
  expect_parity(scenario, kCore);
}

TEST(Parity, SyntheticDataOfAnotherShapeAndLargeBuckets) {
  Json scenario = base_scenario("synthetic");
  scenario["train"]["data"] = {
      {"kind", "synthetic"}, {"size", 50}, {"shape", {3, 10, 12}}, {"classes", 7}, {"seed", 11}};
  scenario["train"]["steps"] = 4;
  scenario["variants"] = {
      {"lenet", Json::object()},
      {"deep", {{"train", {{"model", {{"kind", "mlp"}, {"hidden", {33, 17}}}}}}}},
      {"wide", {{"train", {{"model", {{"kind", "mlp"}, {"hidden", {1024, 700}}}}}}}},
      {"wide-cap", {{"train", {{"model", {{"kind", "mlp"}, {"hidden", {1024, 700}}}}, {"ddp", {{"bucket_mb", 25}}}}}}}};
  scenario["matrix"] = {{"world_size", {1, 3, 4}}};
  expect_parity(scenario, kCore);
}

std::string data_file(const char* name) { return (source_root() / "scenarios/data" / name).string(); }

/// What sizes that are multiples of everything hide: slices in the midst of a cache line, buckets whose order counts,
/// epochs whose last batch is short, ranks that hold unequally many samples.
TEST(Parity, OddSizes) {
  Json scenario = base_scenario("odd");
  scenario["train"].erase("data");
  scenario["train"].erase("model");
  scenario["train"].erase("sampler");
  scenario["train"]["steps"] = 9;
  const Json images = {{"kind", "synthetic"}, {"size", 77}, {"shape", {2, 11, 13}}, {"classes", 2}, {"seed", 6}};
  const Json text = {{"kind", "text"}, {"path", data_file("sonnets.txt")}, {"length", 96}};
  Json own_images = images, rest = images;
  own_images["per_rank"] = true;
  rest["size"] = 71;  // one short of whole rounds, at every world size
  const Json mlp = {{"kind", "mlp"}, {"hidden", {16}}};
  const auto of = [&](const Json& changes) {
    Json train = {{"data", images}, {"model", mlp}, {"batch", {{"per_rank", 3}}}};
    train.update(changes);
    return Json{{"train", train}};
  };
  scenario["variants"] = {
      {"transformer",
       of({{"data", text}, {"model", {{"kind", "transformer"}, {"width", 8}, {"heads", 2}, {"layers", 1}}}})},
      {"dispatch", of({{"sampler", {{"kind", "dispatch"}}}})},
      {"dispatch-convolutions",
       of({{"sampler", {{"kind", "dispatch"}}}, {"model", {{"kind", "resnet"}, {"widths", {4}}}}})},
      {"own-buffers", of({{"model", {{"kind", "resnet"}, {"widths", {4}}}}, {"ddp", {{"broadcast_buffers", false}}}})},
      {"uneven", of({{"data", rest}, {"sampler", {{"kind", "accelerate"}, {"even_batches", false}}}})},
      {"own-data", of({{"data", own_images}})},
      {"stays", of({{"sampler", {{"kind", "elastic"}, {"set_epoch", false}}}})}};
  for (const char* sampler : {"distributed", "contiguous", "none", "stream", "elastic"})
    scenario["variants"][std::string("drop-last-") + sampler] =
        of({{"sampler", {{"kind", sampler}}}, {"batch", {{"per_rank", 8}, {"drop_last", true}}}});
  scenario["matrix"] = {{"world_size", {1, 2, 3, 4}}};
  scenario["train"]["batch"].erase("global");
  std::set<std::string> channels = kCore;
  channels.insert({"optimizer", "buffer"});
  expect_parity(scenario, channels);
}

Factor models() {
  const Json images = {{"kind", "digits"}, {"path", data_file("digits.csv.gz")}, {"size", 59}};
  const Json text = {{"kind", "text"}, {"path", data_file("sonnets.txt")}, {"length", 64}};
  const Json lines = {{"kind", "text"}, {"path", data_file("sonnets.txt")}, {"length", 40}, {"by", "line"}};
  return {"model",
          {{{"data", images}, {"model", {{"kind", "mlp"}, {"dropout", 0.2}}}},
           {{"data", images}, {"model", {{"kind", "linear"}, {"bias", false}}}},
           {{"data", images}, {"model", {{"kind", "lenet"}}}},
           {{"data", images}, {"model", {{"kind", "resnet"}}}},
           {{"data", images}, {"model", {{"kind", "resnet"}, {"norm", "sync_batch"}}}},
           {{"data", text}, {"model", {{"kind", "transformer"}, {"dropout", 0.1}}}},
           {{"data", lines}, {"model", {{"kind", "transformer"}, {"layers", 1}}}},
           {{"data", images}, {"model", {{"kind", "branch"}}}, {"ddp", {{"find_unused_parameters", true}}}}}};
}

/// One variant for each model with its data.
void vary_model(Json& scenario) {
  for (const char* key : {"model", "data"}) scenario["train"].erase(key);
  scenario["variants"] = Json::object();
  const std::vector<Json> models = lockstep::test::models().values;
  for (std::size_t i = 0; i < models.size(); ++i)
    scenario["variants"]["model-" + std::to_string(i)] = {{"train", models[i]}};
}

/// Each of `values`, as what `key` is.
Factor choices(const std::string& key, const Json& values) {
  Factor factor{key, {}};
  for (const Json& value : values) factor.values.push_back({{key, value}});
  return factor;
}

Factor optimizers_of_the_field() {
  return choices(
      "optimizer",
      {{{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}, {"dampening", 0.1}},
       {{"kind", "sgd"}, {"lr", 0.05}},
       {{"kind", "adam"}, {"lr", 0.003}, {"weight_decay", 0.01}, {"amsgrad", true}},
       {{"kind", "adam"}, {"lr", 0.01}, {"betas", {0.8, 0.95}}},
       {{"kind", "adamw"}, {"lr", 0.002}, {"groups", {{{"parameters", "*.bias"}, {"weight_decay", 0}, {"lr", 0.01}}}}},
       {{"kind", "rmsprop"}, {"lr", 0.001}, {"momentum", 0.9}, {"centered", true}, {"weight_decay", 0.01}},
       {{"kind", "rmsprop"}, {"lr", 0.002}},
       {{"kind", "adamax"}, {"lr", 0.002}, {"weight_decay", 0.01}},
       {{"kind", "lamb"}, {"lr", 0.01}, {"weight_decay", 0.02}}});
}

Factor schedules_of_the_field() {
  return choices("schedule",
                 {{{"kind", "step"}, {"every", 3}, {"gamma", 0.3}},
                  {{"kind", "multistep"}, {"milestones", {2, 5, 5}}, {"gamma", 0.5}},
                  {{"kind", "warmup_multistep"}, {"milestones", {5, 8}}, {"warmup", 4}},
                  {{"kind", "cosine"}, {"period", 4}, {"least", 0.0001}},
                  {{"kind", "warmup_cosine"}, {"period", 9}, {"warmup", 3}, {"factor", 0.2}},
                  {{"kind", "inverse_sqrt"}, {"warmup", 3}},
                  {{"kind", "phases"},
                   {"phases",
                    {{{"steps", 2}, {"from", 0}, {"to", 1}},
                     {{"steps", 2.5}, {"to", 0.4}, {"curve", "cosine"}},
                     {{"steps", 3}, {"to", 0}, {"curve", "sqrt"}}}}},
                  {{"kind", "chained"},
                   {"of",
                    {{{"kind", "linear_warmup"}, {"warmup", 3}, {"factor", 0.3}},
                     {{"kind", "cosine"}, {"period", 40}},
                     {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}}},
                  {{"kind", "plateau"}, {"patience", 0}, {"factor", 0.5}, {"threshold", 0.05}, {"cooldown", 1}}});
}

/// All but LibTorch's own, which Python does not have.
Factor samplers_of_the_field() {
  return choices("sampler", {{{"kind", "distributed"}},
                             {{"kind", "distributed"}, {"set_epoch", "iteration"}},
                             {{"kind", "contiguous"}, {"drop_last", true}},
                             {{"kind", "none"}},
                             {{"kind", "accelerate"}},
                             {{"kind", "accelerate"}, {"seed", 7}},
                             {{"kind", "accelerate"}, {"shuffle", false}, {"drop_last", true}},
                             {{"kind", "dispatch"}},
                             {{"kind", "elastic"}, {"start", 5}},
                             {{"kind", "stream"}, {"buffer", 5}},
                             {{"kind", "stream"}, {"shard", false}}});
}

/// One case for each way of training, such that every two values of different factors meet.
void expect_pairwise_parity(const std::string& name, const std::vector<Factor>& factors) {
  Json scenario = base_scenario(name);
  scenario["train"] = {{"steps", 8}};
  scenario["variants"] = Json::object();
  std::size_t number = 0;
  for (const std::vector<std::size_t>& one : pairwise(factors)) {
    Json train = Json::object();
    for (std::size_t f = 0; f < factors.size(); ++f) train.merge_patch(factors[f].values[one[f]]);
    const Json world_size = train.at("world_size");
    train.erase("world_size");
    scenario["variants"]["case-" + std::to_string(number++)] = {{"world_size", world_size}, {"train", train}};
  }
  std::set<std::string> channels = kCore;
  channels.insert({"optimizer", "buffer"});
  expect_parity(scenario, channels);
}

TEST(Parity, EveryPairOfModelOptimizerScheduleAndAllElse) {
  expect_pairwise_parity(
      "pairs",
      {models(), optimizers_of_the_field(), schedules_of_the_field(), samplers_of_the_field(),
       choices("seed", {{{"base", 99}}, {{"base", 99}, {"policy", "add_rank"}}, {{"base", 2}, {"policy", "mt_list"}}}),
       choices("batch", {{{"per_rank", 6}},
                         {{"per_rank", 8}, {"accumulation", 2}},
                         {{"per_rank", 12}, {"accumulation", 3}, {"no_sync", false}},
                         {{"per_rank", 12}, {"accumulation", 3}, {"at_epoch_end", "update"}}}),
       choices(
           "gradient",
           {Json::object(), {{"clip_norm", 0.5}, {"clip_value", 0.05}}, {{"clip_value", 0.01}, {"loss_scale", 100}}}),
       choices("schedule_every", {"update", "epoch", "rank"}),
       choices("loss", {{{"average", "rank"}}, {{"average", "world"}}}), choices("world_size", {1, 2, 3, 4})});
}

/// Micro-batches that an epoch leaves over are completed in the next one, after the schedule's step.
TEST(Parity, AScheduleByEpochUnderAccumulationThatGoesOnAcrossEpochs) {
  Json scenario = base_scenario("carried");
  merge_json(scenario, {{"train",
                         {{"data", {{"size", 21}}},
                          {"batch", {{"per_rank", 4}, {"accumulation", 2}}},
                          {"schedule_every", "epoch"},
                          {"steps", 9}}}});
  scenario["train"]["batch"].erase("global");
  scenario["matrix"] = {{"world_size", {1, 2, 3}},
                        {"train.schedule",
                         {{{"kind", "step"}, {"every", 1}, {"gamma", 0.5}},
                          {{"kind", "cosine"}, {"period", 5}},
                          {{"kind", "rates"}, {"rates", {0.01, 0.003, 0.02}}},
                          {{"kind", "linear_warmup"}, {"warmup", 3}, {"factor", 0.1}}}},
                        {"train.loss", {{{"average", "rank"}}, {{"average", "world"}}}}};
  expect_parity(scenario, kCore);
}

TEST(Parity, ForeachOptimizersComputeTheSame) {
  Json scenario = base_scenario("foreach");
  scenario["world_size"] = 2;
  Json optimizers = Json::array();
  for (const Json& one : optimizers_of_the_field().values) optimizers.push_back(one.at("optimizer"));
  scenario["matrix"] = {{"train.optimizer", optimizers}};
  std::set<std::string> channels = kCore;
  channels.insert("optimizer");
  expect_parity(scenario, channels, {{"foreach", true}});
}

TEST(Parity, AutocastCompressionAndAveragedWeights) {
  Json scenario = base_scenario("precision");
  scenario["train"]["steps"] = 6;
  scenario["train"]["ema"] = {{"decay", 0.9}};
  vary_model(scenario);
  scenario["matrix"] = {{"world_size", {2, 3}},
                        {"train.autocast", {"none", "bf16"}},
                        {"train.ddp.compression", {"none", "fp16", "bf16", "fp64"}}};
  std::set<std::string> channels = kCore;
  channels.insert({"optimizer", "buffer", "ema"});
  expect_parity(scenario, channels);
}

/// The first scale overflows float16 and falls with each update that is skipped; then it grows, and overflows again.
TEST(Parity, AutocastToFp16WithADynamicScale) {
  Json scenario = base_scenario("fp16");
  merge_json(scenario,
             {{"train",
               {{"autocast", "fp16"},
                {"steps", 14},
                {"gradient",
                 {{"loss_scale", 8388608}, {"dynamic_scale", {{"growth", 4}, {"backoff", 0.25}, {"interval", 3}}}}}}}});
  scenario["train"].erase("optimizer");
  vary_model(scenario);
  scenario["matrix"] = {
      {"world_size", {1, 2, 3}},
      {"train.optimizer", {{{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}}, {{"kind", "adamw"}, {"lr", 0.01}}}}};
  std::set<std::string> channels = kCore;
  channels.insert({"optimizer", "buffer"});
  expect_parity(scenario, channels);
}

TEST(Parity, TrainingsInFloat64) {
  Json scenario = base_scenario("float64");
  merge_json(scenario, {{"train", {{"precision", "float64"}, {"steps", 5}, {"ema", {{"decay", 0.9}}}}}});
  scenario["train"].erase("optimizer");
  scenario["train"]["gradient"] = {{"clip_norm", 0.5}, {"loss_scale", 64}};
  vary_model(scenario);
  scenario["matrix"] = {{"world_size", {1, 3}},
                        {"train.optimizer",
                         {{{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}},
                          {{"kind", "adamw"}, {"lr", 0.01}, {"amsgrad", true}},
                          {{"kind", "rmsprop"}, {"lr", 0.01}, {"centered", true}}}}};
  std::set<std::string> channels = kCore;
  channels.insert({"optimizer", "buffer", "ema"});
  expect_parity(scenario, channels);
}

TEST(Parity, FusedKernels) {
  Json scenario = base_scenario("fused");
  scenario["train"]["steps"] = 6;
  scenario["train"].erase("optimizer");
  vary_model(scenario);
  scenario["matrix"] = {
      {"train.optimizer",
       {{{"kind", "adam"}, {"lr", 0.01}, {"fused", true}},
        {{"kind", "adam"}, {"lr", 0.003}, {"fused", true}, {"weight_decay", 0.01}, {"amsgrad", true}},
        {{"kind", "adamw"}, {"lr", 0.01}, {"fused", true}, {"betas", {0.8, 0.95}}}}},
      {"train.determinism", {{{"cpu", "native"}}, {{"cpu", "native"}, {"flush_denormal", true}, {"threads", 2}}}}};
  expect_parity(scenario, {"gradient", "optimizer", "weight"});
}

/// Validation loops between the updates: whose samples count, what is averaged over what, and to whom it is told.
TEST(Parity, EvaluationsOfHeldOutSamples) {
  Json scenario = base_scenario("evaluations");
  merge_json(scenario, {{"train",
                         {{"data", {{"size", 83}}},
                          {"model", {{"kind", "resnet"}, {"widths", {4}}}},
                          {"sampler", {{"kind", "none"}}},
                          {"evaluation", {{"samples", 23}, {"every", 2}, {"batch", 5}}}}}});
  scenario["train"]["batch"] = {{"per_rank", 6}};
  scenario["matrix"] = {{"world_size", {1, 2, 3}},
                        {"train.evaluation.shares", {"padded", "trimmed", "all"}},
                        {"train.evaluation.average", {"samples", "ranks"}}};
  scenario["checks"] = Json::array({{{"that", "ranks_agree"}, {"on", {"metric"}}}});
  std::set<std::string> channels = kCore;
  channels.insert({"metric", "buffer"});
  expect_parity(scenario, channels);
  scenario["matrix"]["train.evaluation.shares"] = {"leftovers"};
  scenario["matrix"]["train.evaluation.average"] = {"samples"};
  scenario["name"] = "evaluations-with-leftovers";
  expect_parity(scenario, channels);
  scenario["matrix"]["world_size"] = {2, 3};
  scenario["matrix"]["train.evaluation.average"] = {"samples", "ranks"};
  scenario["matrix"]["train.evaluation.shares"] = {"padded", "trimmed"};
  merge_json(scenario, {{"name", "evaluations-of-each-rank"}, {"train", {{"evaluation", {{"reduce", "none"}}}}}});
  scenario["checks"] = Json::array({{{"that", "ranks_agree"}, {"on", {"weight"}}}});
  expect_parity(scenario, channels);
}

/// Gradients that are no longer finite when they are divided by the scale: the optimizer does not step.
TEST(Parity, UpdatesThatOverflowAreSkipped) {
  Json scenario = base_scenario("overflow");
  scenario["train"]["model"] = {{"kind", "mlp"}};
  scenario["train"]["gradient"] = {{"loss_scale", 1e30}};
  scenario["train"]["ema"] = {{"decay", 0.9}};
  scenario["train"].erase("optimizer");
  scenario["matrix"] = {
      {"world_size", {1, 2, 3}},
      {"train.optimizer", {{{"kind", "sgd"}, {"lr", 1e10}, {"momentum", 0.9}}, {{"kind", "adamw"}, {"lr", 1e10}}}}};
  std::set<std::string> channels = kCore;
  channels.insert({"optimizer", "ema"});
  expect_parity(scenario, channels);
}

TEST(Parity, BatchesOfANodeAndModelsThatNobodyWrapped) {
  Json scenario = base_scenario("nodes");
  scenario["world_size"] = 4;
  scenario["train"]["batch"] = {{"per_node", 12}, {"ranks_per_node", 2}};
  scenario["matrix"] = {{"train.ddp", {Json::object(), {{"wrap", false}}}},
                        {"train.seed.policy", {"same", "add_rank"}}};
  expect_parity(scenario, kCore);
}

/// Writes weights of a 64-8-10 network as Python users do.
constexpr const char* kWritesWeights = R"(
import sys, torch, safetensors.torch
torch.manual_seed(5)
model = torch.nn.Sequential()
model.fc1, model.fc2 = torch.nn.Linear(64, 8), torch.nn.Linear(8, 10)
state = model.state_dict()
torch.save(state, sys.argv[1] + "/plain.pt")
safetensors.torch.save_file(dict(state), sys.argv[1] + "/plain.safetensors")
wrapped = {"module." + name: tensor for name, tensor in state.items()}
optimizer = torch.optim.SGD(model.parameters(), lr=0.1, momentum=0.9)
torch.save({"model": wrapped, "optimizer": optimizer.state_dict(), "epoch": 3, "best": 0.5}, sys.argv[1] + "/nested.pt")
view = {name: tensor.t().contiguous().t() if tensor.dim() == 2 else tensor for name, tensor in state.items()}
torch.save(view, sys.argv[1] + "/strided.pt")
)";

TEST(Parity, WeightsThatPythonWrote) {
  const Scratch scratch;
  const Outcome written = run_program({parity_python(), "-c", kWritesWeights, scratch.path()}, 60);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  Json scenario = base_scenario("weights");
  scenario["world_size"] = 2;
  scenario["train"]["model"] = {{"kind", "mlp"}, {"hidden", {8}}};
  const auto load = [&](const char* file, const Json& keys) {
    return Json{
        {"train",
         {{"checkpoint",
           {{"load", {{"file", (scratch.path() / file).string()}, {"restore", {"weights"}}, {"keys", keys}}}}}}}};
  };
  scenario["variants"] = {{"torch", load("plain.pt", Json::object())},
                          {"safetensors", load("plain.safetensors", Json::object())},
                          {"strided", load("strided.pt", Json::object())},
                          {"nested", load("nested.pt", {{"under", "model"}, {"strip", "module."}})}};
  expect_parity(scenario, kCore);
}

/// Python goes on where the worker stopped: weights, optimizer, learning rate, data, generators.
TEST(Parity, PythonResumesFromTheWorkersCheckpoints) {
  Json scenario = base_scenario("resume");
  scenario["world_size"] = 2;
  scenario["train"]["model"] = {{"kind", "mlp"}, {"dropout", 0.2}};
  scenario["train"]["schedule"] = {{"kind", "step"}, {"every", 3}};
  scenario["train"].erase("optimizer");
  scenario["variants"] = Json::object();
  for (const Json& optimizer :
       {Json{{"kind", "sgd"}, {"lr", 0.1}, {"momentum", 0.9}}, Json{{"kind", "adamw"}, {"lr", 0.01}},
        Json{{"kind", "rmsprop"}, {"lr", 0.01}},
        Json{{"kind", "adam"}, {"lr", 0.01}, {"groups", {{{"parameters", "fc1*"}, {"lr", 0.001}}}}}}) {
    const std::string saved = optimizer.at("kind").get<std::string>() + "-saved";
    const std::string resumed = optimizer.at("kind").get<std::string>() + "-resumed";
    scenario["variants"][saved]["train"] = {
        {"optimizer", optimizer}, {"steps", 4}, {"checkpoint", {{"save_after", 4}}}};
    scenario["variants"][resumed]["train"] = {{"optimizer", optimizer}, {"checkpoint", {{"load", {{"from", saved}}}}}};
    // The optimizer brings its rate and hyperparameters; the schedule begins anew.
    Json another = optimizer;
    another.update({{"lr", 0.5}, {"weight_decay", 0.3}});
    scenario["variants"][resumed + "-by-a-new-schedule"]["train"] = {
        {"optimizer", another},
        {"checkpoint", {{"load", {{"from", saved}, {"restore", {"weights", "optimizer", "rng", "buckets"}}}}}}};
  }
  scenario["checks"] = Json::array({{{"that", "ranks_agree"}}});
  std::set<std::string> channels = kCore;
  channels.insert("optimizer");
  expect_parity(scenario, channels);
}

}  // namespace
}  // namespace lockstep::test
