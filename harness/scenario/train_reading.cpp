#include "harness/scenario/train_reading.h"

#include <set>

#include "harness/base/problems.h"
#include "harness/base/text.h"
#include "harness/scenario/checkpoint_reading.h"
#include "harness/scenario/reading.h"
#include "harness/scenario/record_reading.h"
#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

recipe::DeterminismSpec determinism_from(const Json& object) {
  return {.algorithms = recipe::kind_at<recipe::Algorithms>(object, "algorithms"),
          .cudnn_deterministic = object.at("cudnn_deterministic").get<bool>(),
          .cudnn_benchmark = object.at("cudnn_benchmark").get<bool>(),
          .tf32 = object.at("tf32").get<bool>(),
          .flush_denormal = object.at("flush_denormal").get<bool>(),
          .threads = object.at("threads").get<int>(),
          .cpu = object.at("cpu").get<std::string>()};
}

recipe::DdpSpec ddp_from(const Json& object, const std::string& device) {
  return {.backend = object.value("backend", device == "cpu" ? "gloo" : "nccl"),
          .reduction = object.at("reduction").get<std::string>(),
          .wrap = object.at("wrap").get<bool>(),
          .average = object.at("average").get<bool>(),
          .compression = recipe::kind_at<recipe::Compression>(object, "compression"),
          .bucket_mb = number_at(object, "bucket_mb"),
          .find_unused_parameters = object.at("find_unused_parameters").get<bool>(),
          .gradient_as_bucket_view = object.at("gradient_as_bucket_view").get<bool>(),
          .broadcast_buffers = object.at("broadcast_buffers").get<bool>()};
}

std::optional<recipe::GradientSpec::DynamicScale> dynamic_scale_from(const Json& gradient) {
  if (!gradient.contains("dynamic_scale")) return std::nullopt;
  const Json& scale = gradient["dynamic_scale"];
  return recipe::GradientSpec::DynamicScale{.growth = scale.at("growth").get<double>(),
                                            .backoff = scale.at("backoff").get<double>(),
                                            .interval = scale.at("interval").get<std::int64_t>()};
}

std::optional<recipe::EvaluationSpec> evaluation_from(const Json& train) {
  if (!train.contains("evaluation")) return std::nullopt;
  const Json& object = train["evaluation"];
  return recipe::EvaluationSpec{.samples = object.at("samples").get<std::int64_t>(),
                                .every = object.at("every").get<std::int64_t>(),
                                .batch = object.at("batch").get<std::int64_t>(),
                                .shares = recipe::kind_at<recipe::Shares>(object, "shares"),
                                .average = recipe::kind_at<recipe::EvaluationAverage>(object, "average"),
                                .reduce = recipe::kind_at<recipe::EvaluationReduce>(object, "reduce")};
}

void validate_batch(const recipe::BatchSpec& batch, std::int64_t world_size, const std::string& origin) {
  std::vector<std::string> given;
  if (batch.global) given.push_back("global");
  if (batch.per_rank) given.push_back("per_rank");
  if (batch.per_node) given.push_back("per_node");
  require(given.size() == 1, origin, "train.batch", "the batch is given twice, or not at all",
          "one of 'global', 'per_rank', 'per_node'", given.empty() ? "none" : join(given, " and "));
  const std::int64_t ranks = batch.global ? world_size : batch.per_node ? batch.ranks_per_node : 1;
  const std::string of_ranks = batch.global ? "world size " : "ranks_per_node ";
  require(batch.per_node || batch.ranks_per_node == 1, origin, "train.batch.ranks_per_node",
          "'ranks_per_node' has no effect", "'per_node' beside it", given[0]);
  require(!batch.per_node || world_size % batch.ranks_per_node == 0, origin, "train.batch.ranks_per_node",
          "the ranks do not fill their nodes", "a divisor of world_size = " + std::to_string(world_size),
          std::to_string(batch.ranks_per_node));
  const std::int64_t divisor = ranks * batch.accumulation;
  const std::int64_t size = batch.global ? *batch.global : batch.per_node ? *batch.per_node : *batch.per_rank;
  require(size % divisor == 0, origin, "train.batch." + given[0], "the batch does not divide evenly",
          "a multiple of " + std::to_string(divisor) + " (" +
              (batch.per_rank ? "" : of_ranks + std::to_string(ranks) + " x ") + "accumulation " +
              std::to_string(batch.accumulation) + ")",
          std::to_string(size));
}

void validate_dispatch(const recipe::TrainSpec& spec, const std::string& origin) {
  require(spec.sampler.kind != recipe::SamplerKind::kDispatch || !spec.data.options.value("per_rank", false), origin,
          "train.data.per_rank", "rank 0 reads for all ranks: the other ranks' own data are never read", "false",
          "true");
}

/// A batch is fetched before the one before it is used, or by another rank: the draws of two batches would mix.
void validate_augmentation(const recipe::TrainSpec& spec, const std::string& origin) {
  const bool fetches_ahead =
      spec.sampler.kind == recipe::SamplerKind::kAccelerate || spec.sampler.kind == recipe::SamplerKind::kDispatch;
  require(!fetches_ahead || spec.augmentation() != recipe::Augmentation::kRank, origin, "train.data.augment",
          "accelerate prefetches, and augmentation from the rank's generator does not follow that",
          "\"sample\" or \"none\" with the sampler " + text_of(spec.sampler.kind), "\"rank\"");
}

void validate_backend(const recipe::TrainSpec& spec, const std::string& origin) {
  require(spec.device != "cpu" || spec.ddp.backend == "gloo", origin, "train.ddp.backend", "NCCL connects only GPUs",
          "gloo beside train.device = cpu", spec.ddp.backend);
}

/// What rounds in its nature cannot be exact.
void validate_exact(const recipe::TrainSpec& spec, const std::string& origin) {
  if (!spec.exact) return;
  const auto needs = [&](bool holds, const std::string& expected, const std::string& actual) {
    require(holds, origin, "train.exact", "some sums would not be exact", expected, actual);
  };
  using recipe::ModelKind;
  const ModelKind model = spec.model.kind;
  needs(model == ModelKind::kLinear || model == ModelKind::kMlp || model == ModelKind::kLenet,
        "model linear, mlp or lenet", text_of(model));
  needs(spec.loss_average == recipe::LossAverage::kRank, "train.loss.average = \"rank\"", text_of(spec.loss_average));
  needs(!spec.gradient.loss_scale, "no train.gradient.loss_scale", "a loss scale");
  needs(spec.autocast == recipe::Autocast::kNone && spec.ddp.compression == recipe::Compression::kNone,
        "neither autocast nor compression",
        spec.autocast == recipe::Autocast::kNone ? "compression " + text_of(spec.ddp.compression)
                                                 : "autocast " + text_of(spec.autocast));
}

/// A fault that cannot do anything would be taken for one that is not found.
void validate_fault(const recipe::FaultChoice& fault, const recipe::TrainSpec& spec, std::int64_t world_size,
                    const std::string& origin) {
  const auto needs = [&](const std::set<std::string>& kinds, bool given, const char* why, const char* expected) {
    require(given || !kinds.contains(fault.kind), origin, "train.faults", why, expected, fault.kind);
  };
  needs({"clip_before_reduction", "gradient_not_reduced", "bucket_forgotten", "order_mismatch", "sent_rounded",
         "rank_order", "unordered_sum"},
        spec.ddp.wrap, "without DDP nothing is reduced", "other faults beside ddp.wrap = false");
  needs({"clip_before_reduction", "clip_before_unscale", "clip_skipped"},
        spec.gradient.clip_norm || spec.gradient.clip_value, "nothing is clipped",
        "train.gradient.clip_norm or clip_value");
  needs({"clip_before_unscale"}, spec.gradient.loss_scale.has_value(), "nothing is scaled",
        "train.gradient.loss_scale");
  needs({"average_skipped"}, spec.ema_decay.has_value(), "nothing is averaged", "train.ema");
  needs({"local_metric"}, spec.schedule.kind == recipe::ScheduleKind::kPlateau, "no schedule follows a loss",
        "train.schedule plateau");
  needs({"state_cast", "counter_off", "draw_after_restore"}, spec.checkpoint.load.has_value(), "nothing is restored",
        "train.checkpoint.load");
  require(fault.options.at("rank").get<std::int64_t>() < world_size, origin, "train.faults",
          "the rank of a fault does not exist", "less than world_size = " + std::to_string(world_size),
          fault.options.at("rank").dump());
  require(fault.options.at("step").get<std::int64_t>() < spec.steps, origin, "train.faults",
          "the step of a fault is never reached", "less than train.steps = " + std::to_string(spec.steps),
          fault.options.at("step").dump());
}

}  // namespace

recipe::BatchSpec batch_spec_from(const Json& completed) {
  return {.global = integer_at(completed, "global"),
          .per_rank = integer_at(completed, "per_rank"),
          .per_node = integer_at(completed, "per_node"),
          .ranks_per_node = completed.at("ranks_per_node").get<std::int64_t>(),
          .accumulation = completed.at("accumulation").get<std::int64_t>(),
          .no_sync = completed.at("no_sync").get<bool>(),
          .drop_last = completed.at("drop_last").get<bool>(),
          .updates_at_epoch_end = completed.at("at_epoch_end") == "update"};
}

recipe::TrainSpec train_spec_from(const Json& completed) {
  recipe::TrainSpec spec{
      .device = completed.at("device").get<std::string>(),
      .model = recipe::choice_from<recipe::ModelKind>(completed.at("model")),
      .data = recipe::choice_from<recipe::DataKind>(completed.at("data")),
      .sampler = recipe::choice_from<recipe::SamplerKind>(completed.at("sampler")),
      .batch = batch_spec_from(completed.at("batch")),
      .loss_average = recipe::kind_at<recipe::LossAverage>(completed.at("loss"), "average"),
      .gradient = {number_at(completed.at("gradient"), "clip_norm"), number_at(completed.at("gradient"), "clip_value"),
                   number_at(completed.at("gradient"), "loss_scale"), dynamic_scale_from(completed.at("gradient"))},
      .may_be_nan = completed.value("may_be_nan", false),
      .exact = completed.at("exact").get<bool>(),
      .precision = completed.at("exact").get<bool>() ? recipe::Precision::kFloat64
                                                     : recipe::kind_at<recipe::Precision>(completed, "precision"),
      .autocast = recipe::kind_at<recipe::Autocast>(completed, "autocast"),
      .ema_decay = completed.contains("ema") ? number_at(completed["ema"], "decay") : std::nullopt,
      .evaluation = evaluation_from(completed),
      .optimizer = recipe::choice_from<recipe::OptimizerKind>(completed.at("optimizer")),
      .learning_rate_rule = recipe::choice_from<recipe::RateRuleKind>(completed.at("learning_rate_rule")),
      .schedule = recipe::choice_from<recipe::ScheduleKind>(completed.at("schedule")),
      .schedule_every = recipe::kind_at<recipe::ScheduleEvery>(completed, "schedule_every"),
      .steps = completed.at("steps").get<std::int64_t>(),
      .seed = {completed.at("seed").at("base").get<std::uint64_t>(),
               recipe::kind_at<recipe::SeedPolicy>(completed.at("seed"), "policy")},
      .determinism = determinism_from(completed.at("determinism")),
      .ddp = ddp_from(completed.at("ddp"), completed.at("device").get<std::string>()),
      .checkpoint = checkpoint_spec_from(completed.at("checkpoint")),
      .record = record_spec_from(completed.at("record")),
      .faults = {}};
  for (const Json& fault : completed.at("faults"))
    spec.faults.push_back({.kind = fault.at("kind").get<std::string>(), .options = fault});
  return spec;
}

std::vector<DataFile> files_of(const recipe::DataChoice& data) {
  std::vector<DataFile> files;
  for (const Json& branch : branches_of(schema()["definitions"]["data"])) {
    if (branch["properties"]["kind"]["const"] != text_of(data.kind)) continue;
    for (const auto& [option, property] : branch["properties"].items()) {
      const std::string rule = property.value("$ref", "");
      const bool is_folder = rule == "#/definitions/data_folder";
      if (rule != "#/definitions/data_file" && !is_folder) continue;
      files.push_back({option, option == "path" ? "data" : "data." + option, is_folder});
    }
  }
  return files;
}

void validate_schedule(const recipe::TrainSpec& spec, const std::string& origin, const std::string& path) {
  const Json& options = spec.schedule.options;
  const std::string at = path + ".schedule";
  if (spec.schedule.kind == recipe::ScheduleKind::kChained) {
    static const std::set<std::string> kFactors = {"constant", "step", "multistep", "linear_warmup", "cosine"};
    for (const Json& one : options.at("of")) {
      const auto kind = one.at("kind").get<std::string>();
      require(kFactors.contains(kind) && one.value("least", 0.0) == 0, origin, at + ".of",
              "this schedule is no factor of the rate before it",
              join({kFactors.begin(), kFactors.end()}, ", ") + "; the others as one schedule of kind 'phases'",
              one.value("least", 0.0) == 0 ? kind : "a cosine with 'least'");
    }
  }
  if (spec.schedule.kind == recipe::ScheduleKind::kRates) {
    bool has_own = spec.learning_rate_rule.kind != recipe::RateRuleKind::kNone;
    for (const recipe::ParameterGroup& group : recipe::parameter_groups(spec.optimizer))
      has_own = has_own || group.options.at("lr") != spec.optimizer.options.at("lr");
    require(!has_own, origin, at, "listed rates are those of all parameter groups",
            "one 'lr' for all groups and no learning_rate_rule, or shares of 'lr': the kind 'phases'",
            "groups of different 'lr', or a rule");
  }
  if (spec.schedule.kind == recipe::ScheduleKind::kPhases) {
    double before = 1;
    for (const Json& phase : options.at("phases")) {
      const double from = phase.value("from", before), to = phase.at("to").get<double>();
      require(phase.at("curve") != "exponential" || (from > 0 && to > 0), origin, at + ".phases",
              "equal factors lead neither from 0 nor to 0", "'from' and 'to' above 0 with an exponential curve",
              phase.dump());
      require(phase.at("curve") == "polynomial" || phase.at("power") == 1, origin, at + ".phases",
              "'power' has no effect", "\"curve\": \"polynomial\" beside it", phase.dump());
      before = to;
    }
  }
}

void validate(const recipe::TrainSpec& spec, std::int64_t world_size, const std::string& origin) {
  Problems problems;
  const auto require = [&](bool holds, const std::string& of, const std::string& path, const std::string& what,
                           const std::string& expected, const std::string& actual) {
    problems.collect([&] { scenario::require(holds, of, path, what, expected, actual); });
  };
  problems.collect([&] { validate_batch(spec.batch, world_size, origin); });
  const bool deals_batches =
      spec.sampler.kind == recipe::SamplerKind::kAccelerate || spec.sampler.kind == recipe::SamplerKind::kDispatch;
  require(!spec.batch.drop_last || !deals_batches, origin, "train.batch.drop_last",
          "this sampler deals out whole batches itself", "train.sampler.drop_last instead", "true");
  problems.collect([&] { validate_augmentation(spec, origin); });
  problems.collect([&] { validate_dispatch(spec, origin); });
  if (spec.optimizer.kind == recipe::OptimizerKind::kSgd && spec.optimizer.options.at("nesterov").get<bool>()) {
    const bool fits = spec.optimizer.options.at("momentum").get<double>() > 0 &&
                      spec.optimizer.options.at("dampening").get<double>() == 0;
    require(fits, origin, "train.optimizer.nesterov", "Nesterov momentum needs a momentum and zero dampening",
            "momentum > 0, dampening = 0", spec.optimizer.options.dump());
  }
  require(!spec.gradient.loss_scale || !spec.optimizer.options.value("fused", false), origin, "train.optimizer.fused",
          "PyTorch divides the loss scale out inside the fused kernel, which is not built here", "false", "true");
  require(!spec.gradient.dynamic_scale || spec.gradient.loss_scale, origin, "train.gradient.dynamic_scale",
          "nothing is scaled", "'loss_scale', the first scale, beside it", "none");
  require(!spec.gradient.dynamic_scale || !spec.checkpoint.saves(), origin, "train.gradient.dynamic_scale",
          "a checkpoint does not hold the scale", "no save_after or save_every beside it", "a checkpoint is saved");
  require(spec.ddp.average || spec.ddp.compression == recipe::Compression::kNone, origin, "train.ddp.average",
          "the compression hooks always average", "average = true with compression", "average = false");
  require(spec.ddp.wrap || (!spec.ddp.find_unused_parameters && !spec.ddp.gradient_as_bucket_view), origin,
          "train.ddp.wrap", "these keys are DDP's", "no find_unused_parameters or gradient_as_bucket_view beside it",
          "wrap = false");
  require(
      spec.ddp.wrap || (spec.ddp.average && spec.ddp.compression == recipe::Compression::kNone && !spec.ddp.bucket_mb),
      origin, "train.ddp.wrap", "without DDP nothing is reduced",
      "no average, compression or bucket_mb beside wrap = false", "wrap = false");
  require(!spec.evaluation || spec.augmentation() == recipe::Augmentation::kNone, origin, "train.evaluation",
          "the held-out samples would be augmented, too", "train.data.augment = \"none\"",
          text_of(spec.augmentation()));
  if (spec.evaluation)
    require(spec.evaluation->shares != recipe::Shares::kLeftovers ||
                spec.evaluation->average == recipe::EvaluationAverage::kSamples,
            origin, "train.evaluation.average",
            "a mean of the ranks' means cannot count samples that belong to no rank",
            "samples, beside shares = \"leftovers\"", text_of(spec.evaluation->average));
  if (spec.evaluation)
    require(spec.evaluation->every <= spec.steps, origin, "train.evaluation.every", "nothing would ever be evaluated",
            "at most train.steps = " + std::to_string(spec.steps), std::to_string(spec.evaluation->every));
  problems.collect([&] { validate_schedule(spec, origin, "train"); });
  problems.collect([&] { validate_backend(spec, origin); });
  problems.collect([&] { validate_exact(spec, origin); });
  problems.collect([&] { validate(spec.record, spec.steps, origin); });
  problems.collect([&] { validate(spec.checkpoint, spec.steps, world_size, origin); });
  for (const recipe::FaultChoice& fault : spec.faults)
    problems.collect([&] { validate_fault(fault, spec, world_size, origin); });
  problems.throw_if_any();
}

}  // namespace lockstep::scenario
