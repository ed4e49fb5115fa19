#include "harness/scenario/train_spec.h"

#include <algorithm>
#include <cmath>

#include <fnmatch.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

Choice choice_from(const Json& object) { return {.kind = object.at("kind").get<std::string>(), .options = object}; }

BatchSpec batch_from(const Json& object) {
  BatchSpec batch{.accumulation = object.at("accumulation").get<std::int64_t>(),
                  .no_sync = object.at("no_sync").get<bool>(),
                  .updates_at_epoch_end = object.at("at_epoch_end") == "update"};
  if (object.contains("global")) batch.global = object["global"].get<std::int64_t>();
  if (object.contains("per_rank")) batch.per_rank = object["per_rank"].get<std::int64_t>();
  return batch;
}

DeterminismSpec determinism_from(const Json& object) {
  return {.algorithms = object.at("algorithms").get<std::string>(),
          .cudnn_deterministic = object.at("cudnn_deterministic").get<bool>(),
          .cudnn_benchmark = object.at("cudnn_benchmark").get<bool>(),
          .tf32 = object.at("tf32").get<bool>(),
          .threads = object.at("threads").get<int>(),
          .cpu = object.at("cpu").get<std::string>()};
}

std::optional<double> number_at(const Json& object, const char* key) {
  return object.contains(key) ? std::optional(object[key].get<double>()) : std::nullopt;
}

DdpSpec ddp_from(const Json& object) {
  return {.average = object.at("average").get<bool>(),
          .compression = object.at("compression").get<std::string>(),
          .bucket_mb = number_at(object, "bucket_mb"),
          .find_unused_parameters = object.at("find_unused_parameters").get<bool>(),
          .gradient_as_bucket_view = object.at("gradient_as_bucket_view").get<bool>(),
          .broadcast_buffers = object.at("broadcast_buffers").get<bool>()};
}

CheckpointSpec checkpoint_from(const Json& object) {
  CheckpointSpec checkpoint{.prefix = object.at("prefix").get<std::string>()};
  if (object.contains("save_after")) checkpoint.save_after = object["save_after"].get<std::int64_t>();
  if (object.contains("load")) {
    const Json& load = object["load"];
    const Json& keys = load.at("keys");
    checkpoint.load = LoadSpec{.from = load.value("from", ""),
                               .file = load.value("file", ""),
                               .keys = {.under = keys.at("under").get<std::string>(),
                                        .skip = keys.at("skip").get<std::vector<std::string>>(),
                                        .strip = keys.at("strip").get<std::string>(),
                                        .match = keys.at("match").get<std::string>(),
                                        .strict = keys.at("strict").get<bool>()},
                               .who = load.at("who").get<std::string>(),
                               .when = load.at("when").get<std::string>(),
                               .restore = load.at("restore").get<std::vector<std::string>>()};
  }
  return checkpoint;
}

void require(bool holds, const std::string& origin, const std::string& path, const std::string& what,
             const std::string& expected, const std::string& actual) {
  if (holds) return;
  throw InputError({.what = what, .where = origin + ": " + path, .expected = expected, .actual = actual});
}

void validate_batch(const BatchSpec& batch, std::int64_t world_size, const std::string& origin) {
  require(batch.global.has_value() != batch.per_rank.has_value(), origin, "train.batch",
          "the batch is given in two ways, or in none", "either 'global' or 'per_rank'",
          batch.global ? "both" : "neither");
  const std::int64_t divisor = (batch.global ? world_size : 1) * batch.accumulation;
  const std::int64_t size = batch.global ? *batch.global : *batch.per_rank;
  require(size % divisor == 0, origin, batch.global ? "train.batch.global" : "train.batch.per_rank",
          "the batch does not divide",
          "a multiple of " + std::to_string(divisor) + " (" +
              (batch.global ? "world size " + std::to_string(world_size) + " x " : "") + "accumulation " +
              std::to_string(batch.accumulation) + ")",
          std::to_string(size));
}

/// A batch is fetched before the one before it is used, or by another rank: the draws of two batches would mix.
void validate_augmentation(const TrainSpec& spec, const std::string& origin) {
  const bool fetches_ahead = spec.sampler.kind == "accelerate" || spec.sampler.kind == "dispatch";
  require(!fetches_ahead || spec.data.options.value("augment", "none") != "rank", origin, "train.data.augment",
          "accelerate fetches ahead of the training, which augmentation from the rank's generator does not follow",
          "\"sample\" or \"none\" with the sampler " + spec.sampler.kind, "\"rank\"");
}

}  // namespace

bool LoadSpec::restores(const std::string& part) const {
  return std::find(restore.begin(), restore.end(), part) != restore.end();
}

TrainSpec train_spec_from(const Json& completed) {
  TrainSpec spec{
      .model = choice_from(completed.at("model")),
      .data = choice_from(completed.at("data")),
      .sampler = choice_from(completed.at("sampler")),
      .batch = batch_from(completed.at("batch")),
      .loss_average = completed.at("loss").at("average").get<std::string>(),
      .gradient = {number_at(completed.at("gradient"), "clip_norm"), number_at(completed.at("gradient"), "clip_value"),
                   number_at(completed.at("gradient"), "loss_scale")},
      .autocast = completed.at("autocast").get<std::string>(),
      .ema_decay = completed.contains("ema") ? number_at(completed["ema"], "decay") : std::nullopt,
      .optimizer = choice_from(completed.at("optimizer")),
      .learning_rate_rule = choice_from(completed.at("learning_rate_rule")),
      .schedule = choice_from(completed.at("schedule")),
      .schedule_every = completed.at("schedule_every").get<std::string>(),
      .steps = completed.at("steps").get<std::int64_t>(),
      .seed = {completed.at("seed").at("base").get<std::uint64_t>(),
               completed.at("seed").at("policy").get<std::string>()},
      .determinism = determinism_from(completed.at("determinism")),
      .ddp = ddp_from(completed.at("ddp")),
      .checkpoint = checkpoint_from(completed.at("checkpoint")),
      .record = {completed.at("record").at("channels").get<std::vector<std::string>>(),
                 completed.at("record").at("every").get<std::int64_t>()},
      .faults = {}};
  for (const Json& fault : completed.at("faults")) spec.faults.push_back(choice_from(fault));
  return spec;
}

std::vector<DataFile> files_of(const Choice& data) {
  std::vector<DataFile> files;
  for (const Json& branch : schema().at("/definitions/data/oneOf"_json_pointer)) {
    if (branch["properties"]["kind"]["const"] != data.kind) continue;
    for (const auto& [option, property] : branch["properties"].items()) {
      if (property.value("$ref", "") != "#/definitions/data_file") continue;
      files.push_back({option, option == "path" ? "data" : "data." + option});
    }
  }
  return files;
}

std::vector<ParameterGroup> parameter_groups(const Choice& optimizer) {
  Json common = optimizer.options;
  common.erase("groups");
  std::vector<ParameterGroup> groups{{.pattern = "*", .options = common}};
  for (const Json& group : optimizer.options.at("groups")) {
    Json options = common;
    options.update(group);
    options.erase("parameters");
    groups.push_back({.pattern = group.at("parameters").get<std::string>(), .options = options});
  }
  return groups;
}

std::size_t group_of(const std::vector<ParameterGroup>& groups, const std::string& parameter) {
  for (std::size_t i = 1; i < groups.size(); ++i) {
    if (fnmatch(groups[i].pattern.c_str(), parameter.c_str(), 0) == 0) return i;
  }
  return 0;
}

std::vector<double> base_learning_rates(const TrainSpec& spec, std::int64_t world_size) {
  double factor = 1;
  if (spec.learning_rate_rule.kind != "none") {
    const double ratio = static_cast<double>(spec.batch.global_size(world_size)) /
                         spec.learning_rate_rule.options.at("base_batch").get<double>();
    factor = spec.learning_rate_rule.kind == "sqrt" ? std::sqrt(ratio) : ratio;
  }
  std::vector<double> rates;
  for (const ParameterGroup& group : parameter_groups(spec.optimizer))
    rates.push_back(group.options.at("lr").get<double>() * factor);
  return rates;
}

void validate(const TrainSpec& spec, std::int64_t world_size, const std::string& origin) {
  validate_batch(spec.batch, world_size, origin);
  validate_augmentation(spec, origin);
  if (spec.optimizer.kind == "sgd" && spec.optimizer.options.at("nesterov").get<bool>()) {
    const bool fits = spec.optimizer.options.at("momentum").get<double>() > 0 &&
                      spec.optimizer.options.at("dampening").get<double>() == 0;
    require(fits, origin, "train.optimizer.nesterov", "Nesterov momentum needs a momentum and zero dampening",
            "momentum > 0, dampening = 0", spec.optimizer.options.dump());
  }
  require(spec.ddp.average || spec.ddp.compression == "none", origin, "train.ddp.average",
          "the compression hooks always average", "average = true with compression", "average = false");
  if (spec.checkpoint.save_after) {
    require(*spec.checkpoint.save_after <= spec.steps, origin, "train.checkpoint.save_after",
            "the checkpoint would never be saved", "at most train.steps = " + std::to_string(spec.steps),
            std::to_string(*spec.checkpoint.save_after));
  }
  if (spec.checkpoint.load) {
    const LoadSpec& load = *spec.checkpoint.load;
    require(load.from.empty() != load.file.empty(), origin, "train.checkpoint.load",
            "what is loaded is given in two ways, or in none", "either 'from' or 'file'",
            load.from.empty() ? "neither" : "both");
    require(load.file.empty() || load.restore == std::vector<std::string>{"weights"}, origin,
            "train.checkpoint.load.restore", "a file of weights restores weights only", "[\"weights\"]",
            join(load.restore, ", "));
  }
  if (spec.checkpoint.load && spec.checkpoint.load->who == "rank0") {
    for (const char* part : {"schedule", "sampler", "rng", "buckets"})
      require(!spec.checkpoint.load->restores(part), origin, "train.checkpoint.load.restore",
              "what only rank 0 restores would set the ranks apart, and they would wait for each other for ever",
              "with who = rank0: weights, optimizer", part);
  }
  for (const Choice& fault : spec.faults) {
    require(fault.options.at("rank").get<std::int64_t>() < world_size, origin, "train.faults",
            "the rank of a fault does not exist", "less than world_size = " + std::to_string(world_size),
            fault.options.at("rank").dump());
    require(fault.options.at("step").get<std::int64_t>() < spec.steps, origin, "train.faults",
            "the step of a fault is never reached", "less than train.steps = " + std::to_string(spec.steps),
            fault.options.at("step").dump());
  }
}

}  // namespace lockstep::scenario
