#include "harness/scenario/train_spec.h"

#include <cmath>
#include <set>

#include <fnmatch.h>

#include "harness/base/problems.h"
#include "harness/base/text.h"
#include "harness/scenario/reading.h"
#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

Choice choice_from(const Json& object) { return {.kind = object.at("kind").get<std::string>(), .options = object}; }

DeterminismSpec determinism_from(const Json& object) {
  return {.algorithms = object.at("algorithms").get<std::string>(),
          .cudnn_deterministic = object.at("cudnn_deterministic").get<bool>(),
          .cudnn_benchmark = object.at("cudnn_benchmark").get<bool>(),
          .tf32 = object.at("tf32").get<bool>(),
          .flush_denormal = object.at("flush_denormal").get<bool>(),
          .threads = object.at("threads").get<int>(),
          .cpu = object.at("cpu").get<std::string>()};
}

DdpSpec ddp_from(const Json& object, const std::string& device) {
  return {.backend = object.value("backend", device == "cpu" ? "gloo" : "nccl"),
          .reduction = object.at("reduction").get<std::string>(),
          .wrap = object.at("wrap").get<bool>(),
          .average = object.at("average").get<bool>(),
          .compression = object.at("compression").get<std::string>(),
          .bucket_mb = number_at(object, "bucket_mb"),
          .find_unused_parameters = object.at("find_unused_parameters").get<bool>(),
          .gradient_as_bucket_view = object.at("gradient_as_bucket_view").get<bool>(),
          .broadcast_buffers = object.at("broadcast_buffers").get<bool>()};
}

std::optional<GradientSpec::DynamicScale> dynamic_scale_from(const Json& gradient) {
  if (!gradient.contains("dynamic_scale")) return std::nullopt;
  const Json& scale = gradient["dynamic_scale"];
  return GradientSpec::DynamicScale{.growth = scale.at("growth").get<double>(),
                                    .backoff = scale.at("backoff").get<double>(),
                                    .interval = scale.at("interval").get<std::int64_t>()};
}

std::optional<EvaluationSpec> evaluation_from(const Json& train) {
  if (!train.contains("evaluation")) return std::nullopt;
  const Json& object = train["evaluation"];
  return EvaluationSpec{.samples = object.at("samples").get<std::int64_t>(),
                        .every = object.at("every").get<std::int64_t>(),
                        .batch = object.at("batch").get<std::int64_t>(),
                        .shares = object.at("shares").get<std::string>(),
                        .average = object.at("average").get<std::string>(),
                        .reduce = object.at("reduce").get<std::string>()};
}

void validate_batch(const BatchSpec& batch, std::int64_t world_size, const std::string& origin) {
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

void validate_dispatch(const TrainSpec& spec, const std::string& origin) {
  require(spec.sampler.kind != "dispatch" || !spec.data.options.value("per_rank", false), origin, "train.data.per_rank",
          "rank 0 reads for all ranks: the other ranks' own data are never read", "false", "true");
}

/// A batch is fetched before the one before it is used, or by another rank: the draws of two batches would mix.
void validate_augmentation(const TrainSpec& spec, const std::string& origin) {
  const bool fetches_ahead = spec.sampler.kind == "accelerate" || spec.sampler.kind == "dispatch";
  require(!fetches_ahead || spec.augmentation() != "rank", origin, "train.data.augment",
          "accelerate prefetches, and augmentation from the rank's generator does not follow that",
          "\"sample\" or \"none\" with the sampler " + spec.sampler.kind, "\"rank\"");
}

void validate_backend(const TrainSpec& spec, const std::string& origin) {
  require(spec.device != "cpu" || spec.ddp.backend == "gloo", origin, "train.ddp.backend", "NCCL joins GPUs only",
          "gloo beside train.device = cpu", spec.ddp.backend);
}

/// What rounds in its nature cannot be exact.
void validate_exact(const TrainSpec& spec, const std::string& origin) {
  if (!spec.exact) return;
  const auto needs = [&](bool holds, const std::string& expected, const std::string& actual) {
    require(holds, origin, "train.exact", "some sums would not be exact", expected, actual);
  };
  const std::string& model = spec.model.kind;
  needs(model == "linear" || model == "mlp" || model == "lenet", "model linear, mlp or lenet", model);
  needs(spec.loss_average == "rank", "train.loss.average = \"rank\"", spec.loss_average);
  needs(!spec.gradient.loss_scale, "no train.gradient.loss_scale", "a loss scale");
  needs(spec.autocast == "none" && spec.ddp.compression == "none", "neither autocast nor compression",
        spec.autocast == "none" ? "compression " + spec.ddp.compression : "autocast " + spec.autocast);
}

/// A fault that cannot do anything would be taken for one that nobody sees.
void validate_fault(const Choice& fault, const TrainSpec& spec, std::int64_t world_size, const std::string& origin) {
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
  needs({"local_metric"}, spec.schedule.kind == "plateau", "no schedule follows a loss", "train.schedule plateau");
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

BatchSpec batch_spec_from(const Json& completed) {
  return {.global = integer_at(completed, "global"),
          .per_rank = integer_at(completed, "per_rank"),
          .per_node = integer_at(completed, "per_node"),
          .ranks_per_node = completed.at("ranks_per_node").get<std::int64_t>(),
          .accumulation = completed.at("accumulation").get<std::int64_t>(),
          .no_sync = completed.at("no_sync").get<bool>(),
          .drop_last = completed.at("drop_last").get<bool>(),
          .updates_at_epoch_end = completed.at("at_epoch_end") == "update"};
}

std::int64_t BatchSpec::micro_batches(std::int64_t updates, std::int64_t per_epoch) const {
  if (!updates_at_epoch_end) return updates * accumulation;
  const std::int64_t updates_per_epoch = (per_epoch + accumulation - 1) / accumulation;
  return updates / updates_per_epoch * per_epoch + updates % updates_per_epoch * accumulation;
}

bool TrainSpec::has_own_buffers() const {
  return ddp.wrap && ddp.broadcast_buffers && model.options.value("norm", "") == "batch";
}

bool TrainSpec::has_buffers() const { return model.options.contains("norm") || model.kind == "branch"; }

bool TrainSpec::keeps_optimizer_state() const {
  const std::vector<ParameterGroup> groups = parameter_groups(optimizer);
  return optimizer.kind != "sgd" || std::any_of(groups.begin(), groups.end(), [](const ParameterGroup& group) {
           return group.options.value("momentum", 0.0) > 0;
         });
}

std::optional<std::string> TrainSpec::coarsest_arithmetic() const {
  const bool casts = precision == "float32";  // autocast leaves float64 alone
  if ((casts && autocast == "bf16") || ddp.compression == "bf16") return "bfloat16";
  // TF32 keeps as many bits of a factor as float16.
  const bool drops_bits = device == "cuda" && determinism.tf32 && precision == "float32";
  if ((casts && autocast == "fp16") || ddp.compression == "fp16" || drops_bits) return "float16";
  return std::nullopt;
}

TrainSpec train_spec_from(const Json& completed) {
  TrainSpec spec{
      .device = completed.at("device").get<std::string>(),
      .model = choice_from(completed.at("model")),
      .data = choice_from(completed.at("data")),
      .sampler = choice_from(completed.at("sampler")),
      .batch = batch_spec_from(completed.at("batch")),
      .loss_average = completed.at("loss").at("average").get<std::string>(),
      .gradient = {number_at(completed.at("gradient"), "clip_norm"), number_at(completed.at("gradient"), "clip_value"),
                   number_at(completed.at("gradient"), "loss_scale"), dynamic_scale_from(completed.at("gradient"))},
      .may_be_nan = completed.value("may_be_nan", false),
      .exact = completed.at("exact").get<bool>(),
      .precision = completed.at("exact").get<bool>() ? "float64" : completed.at("precision").get<std::string>(),
      .autocast = completed.at("autocast").get<std::string>(),
      .ema_decay = completed.contains("ema") ? number_at(completed["ema"], "decay") : std::nullopt,
      .evaluation = evaluation_from(completed),
      .optimizer = choice_from(completed.at("optimizer")),
      .learning_rate_rule = choice_from(completed.at("learning_rate_rule")),
      .schedule = choice_from(completed.at("schedule")),
      .schedule_every = completed.at("schedule_every").get<std::string>(),
      .steps = completed.at("steps").get<std::int64_t>(),
      .seed = {completed.at("seed").at("base").get<std::uint64_t>(),
               completed.at("seed").at("policy").get<std::string>()},
      .determinism = determinism_from(completed.at("determinism")),
      .ddp = ddp_from(completed.at("ddp"), completed.at("device").get<std::string>()),
      .checkpoint = checkpoint_spec_from(completed.at("checkpoint")),
      .record = record_spec_from(completed.at("record")),
      .faults = {}};
  for (const Json& fault : completed.at("faults")) spec.faults.push_back(choice_from(fault));
  return spec;
}

std::vector<DataFile> files_of(const Choice& data) {
  std::vector<DataFile> files;
  for (const Json& branch : branches_of(schema()["definitions"]["data"])) {
    if (branch["properties"]["kind"]["const"] != data.kind) continue;
    for (const auto& [option, property] : branch["properties"].items()) {
      const std::string rule = property.value("$ref", "");
      const bool is_folder = rule == "#/definitions/data_folder";
      if (rule != "#/definitions/data_file" && !is_folder) continue;
      files.push_back({option, option == "path" ? "data" : "data." + option, is_folder});
    }
  }
  return files;
}

std::vector<ParameterGroup> parameter_groups(const Choice& optimizer) {
  if (optimizer.kind.empty()) return {};
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

double rule_factor(const TrainSpec& spec, std::int64_t world_size) {
  if (spec.learning_rate_rule.kind == "none") return 1;
  const double ratio = static_cast<double>(spec.batch.global_size(world_size)) /
                       spec.learning_rate_rule.options.at("base_batch").get<double>();
  return spec.learning_rate_rule.kind == "sqrt" ? std::sqrt(ratio) : ratio;
}

double rule_warmup(const TrainSpec& spec, double factor, std::int64_t steps) {
  const auto warmup = spec.learning_rate_rule.options.value("warmup", std::int64_t{0});
  if (steps >= warmup) return 1;
  return (1 + (factor - 1) * (static_cast<double>(steps) / static_cast<double>(warmup))) / factor;
}

std::vector<double> base_learning_rates(const TrainSpec& spec, std::int64_t world_size) {
  const double factor = rule_factor(spec, world_size);
  std::vector<double> rates;
  for (const ParameterGroup& group : parameter_groups(spec.optimizer))
    rates.push_back(group.options.at("lr").get<double>() * factor);
  return rates;
}

void validate_schedule(const TrainSpec& spec, const std::string& origin, const std::string& path) {
  const Json& options = spec.schedule.options;
  const std::string at = path + ".schedule";
  if (spec.schedule.kind == "chained") {
    static const std::set<std::string> kFactors = {"constant", "step", "multistep", "linear_warmup", "cosine"};
    for (const Json& one : options.at("of")) {
      const auto kind = one.at("kind").get<std::string>();
      require(kFactors.contains(kind) && one.value("least", 0.0) == 0, origin, at + ".of",
              "this schedule is no factor of the rate before it",
              join({kFactors.begin(), kFactors.end()}, ", ") + "; the others as one schedule of kind 'phases'",
              one.value("least", 0.0) == 0 ? kind : "a cosine with 'least'");
    }
  }
  if (spec.schedule.kind == "rates") {
    bool has_own = spec.learning_rate_rule.kind != "none";
    for (const ParameterGroup& group : parameter_groups(spec.optimizer))
      has_own = has_own || group.options.at("lr") != spec.optimizer.options.at("lr");
    require(!has_own, origin, at, "listed rates are those of all parameter groups",
            "one 'lr' for all groups and no learning_rate_rule, or shares of 'lr': the kind 'phases'",
            "groups of different 'lr', or a rule");
  }
  if (spec.schedule.kind == "phases") {
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

void validate(const TrainSpec& spec, std::int64_t world_size, const std::string& origin) {
  Problems problems;
  const auto require = [&](bool holds, const std::string& of, const std::string& path, const std::string& what,
                           const std::string& expected, const std::string& actual) {
    problems.collect([&] { scenario::require(holds, of, path, what, expected, actual); });
  };
  problems.collect([&] { validate_batch(spec.batch, world_size, origin); });
  const bool deals_batches = spec.sampler.kind == "accelerate" || spec.sampler.kind == "dispatch";
  require(!spec.batch.drop_last || !deals_batches, origin, "train.batch.drop_last",
          "this sampler deals out whole batches itself", "train.sampler.drop_last instead", "true");
  problems.collect([&] { validate_augmentation(spec, origin); });
  problems.collect([&] { validate_dispatch(spec, origin); });
  if (spec.optimizer.kind == "sgd" && spec.optimizer.options.at("nesterov").get<bool>()) {
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
  require(spec.ddp.average || spec.ddp.compression == "none", origin, "train.ddp.average",
          "the compression hooks always average", "average = true with compression", "average = false");
  require(spec.ddp.wrap || (!spec.ddp.find_unused_parameters && !spec.ddp.gradient_as_bucket_view), origin,
          "train.ddp.wrap", "these keys are DDP's", "no find_unused_parameters or gradient_as_bucket_view beside it",
          "wrap = false");
  require(spec.ddp.wrap || (spec.ddp.average && spec.ddp.compression == "none" && !spec.ddp.bucket_mb), origin,
          "train.ddp.wrap", "without DDP nothing is reduced",
          "no average, compression or bucket_mb beside wrap = false", "wrap = false");
  require(!spec.evaluation || spec.augmentation() == "none", origin, "train.evaluation",
          "the held-out samples would be augmented, too", "train.data.augment = \"none\"", spec.augmentation());
  if (spec.evaluation)
    require(spec.evaluation->shares != "leftovers" || spec.evaluation->average == "samples", origin,
            "train.evaluation.average", "a mean of the ranks' means cannot count samples that belong to no rank",
            "samples, beside shares = \"leftovers\"", spec.evaluation->average);
  if (spec.evaluation)
    require(spec.evaluation->every <= spec.steps, origin, "train.evaluation.every", "nothing would ever be evaluated",
            "at most train.steps = " + std::to_string(spec.steps), std::to_string(spec.evaluation->every));
  problems.collect([&] { validate_schedule(spec, origin, "train"); });
  problems.collect([&] { validate_backend(spec, origin); });
  problems.collect([&] { validate_exact(spec, origin); });
  problems.collect([&] { validate(spec.record, spec.steps, origin); });
  problems.collect([&] { validate(spec.checkpoint, spec.steps, world_size, origin); });
  for (const Choice& fault : spec.faults) problems.collect([&] { validate_fault(fault, spec, world_size, origin); });
  problems.throw_if_any();
}

}  // namespace lockstep::scenario
