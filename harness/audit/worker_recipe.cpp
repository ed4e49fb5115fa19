#include <algorithm>
#include <utility>

#include "harness/audit/recipe.h"
#include "harness/recipe/sampler_rule.h"

namespace lockstep::audit {
namespace {

using recipe::TrainSpec;

/// Multiplies a number at a key, if it is there.
void scale(Json& object, const char* key, double factor) {
  if (factor != 1 && object.contains(key) && object[key].is_number()) object[key] = factor * object[key].get<double>();
}

class WorkerRecipe : public Recipe {
 public:
  WorkerRecipe(const scenario::Variant& variant, std::int64_t steps) : Recipe(variant), steps_(steps) {}

  Json as_written(std::int64_t world_size) const override {
    Json change = {{"steps", steps_}, {"checkpoint", nullptr}};
    if (train().evaluation) change["evaluation"] = {{"every", std::min(train().evaluation->every, steps_)}};
    if (train().batch.per_node)
      change["batch"] = {{"ranks_per_node", std::min(train().batch.ranks_per_node, world_size)}};
    return {{"world_size", world_size}, {"train", change}};
  }

  std::optional<Json> patch(const Setting& setting) const override {
    Json change = {{"steps", setting.steps.value_or(steps_)},
                   {"checkpoint", nullptr},
                   {"evaluation", nullptr},
                   {"batch", batch(setting)},
                   {"optimizer", optimizer(setting)}};
    if (setting.sum) change["ddp"]["average"] = false;
    if (setting.threshold != 1) change["gradient"] = thresholds(setting.threshold);
    if (setting.every_rank_all) {
      change["sampler"] = {{"kind", "none"}, {"shuffle", train().sampler.options.value("shuffle", true)}};
      change["seed"] = {{"policy", "same"}};
    }
    if (setting.plain) {
      change["precision"] = "float64";
      change["autocast"] = "none";
      change["gradient"] = {
          {"clip_norm", nullptr}, {"clip_value", nullptr}, {"loss_scale", nullptr}, {"dynamic_scale", nullptr}};
      change["schedule"] = {{"kind", "constant"}};
      change["learning_rate_rule"] = {{"kind", "none"}};
      change["ema"] = nullptr;
      change["ddp"]["compression"] = "none";
      if (train().drops()) change["model"] = {{"dropout", 0}};
    }
    merge_json(change, setting.also);
    return Json{{"world_size", setting.world_size}, {"train", change}};
  }

  std::vector<Obstacle> obstacles_of_ranks() const override {
    std::vector<Obstacle> found;
    const TrainSpec& of = train();
    using recipe::Dealing;
    const Dealing dealing = traits_of(of.sampler.kind).dealing;
    const Json& options = of.sampler.options;
    if (dealing == Dealing::kWhole)
      found.push_back({"without a sampler every rank takes every sample",
                       "use a distributed sampler",
                       {{"sampler", {{"kind", "distributed"}}}}});
    if (dealing == Dealing::kStream && !options.value("shard", true))
      found.push_back({"every rank reads the whole stream",
                       "let each rank keep every W-th sample",
                       {{"sampler", {{"shard", true}}}}});
    if (dealing == Dealing::kStream && options.value("buffer", 1) > 1)
      found.push_back({"each rank shuffles its own part of the stream",
                       "shuffle before the stream is split",
                       {{"sampler", {{"buffer", 1}}}}});
    if (dealing == Dealing::kBlocks)
      found.push_back({"each rank takes a block of the epoch's order, so an update takes other samples",
                       "deal the order out in turn, as PyTorch's DistributedSampler does",
                       {{"sampler", {{"kind", "distributed"}}}}});
    if (dealing == Dealing::kBatches && !of.batch.global)
      found.push_back({"whole batches are dealt out to the ranks", "split each batch over the ranks (split_batches)",
                       Json::object()});
    if (of.has_own_buffers() || of.norm() == recipe::Norm::kBatch)
      found.push_back({"batch normalization takes the statistics of each rank's own samples",
                       "convert to SyncBatchNorm",
                       {{"model", {{"norm", "sync_batch"}}}}});
    if (of.drops())
      found.push_back({"dropout draws each rank's masks from that rank's generator",
                       "set dropout to 0 to compare",
                       {{"model", {{"dropout", 0}}}}});
    if (of.augmentation() == recipe::Augmentation::kRank)
      found.push_back({"augmentation draws from each rank's generator",
                       "seed it by epoch and sample",
                       {{"data", {{"augment", "sample"}}}}});
    if (has_unequal_targets() && of.loss_average == recipe::LossAverage::kRank)
      found.push_back({"each rank divides its loss by its own number of targets, and the ranks have unequally many",
                       "divide by the number of all ranks' targets",
                       {{"loss", {{"average", "world"}}}}});
    if (of.sampler.kind == recipe::SamplerKind::kAccelerate && recipe::draws_from_shared_generator(of.sampler))
      found.push_back(
          {"without its own seed, the sampler draws its order from the generator: one rank uses its own, several copy "
           "rank 0's",
           "give the sampler a seed",
           {{"sampler", {{"seed", 0}}}}});
    if (of.data.options.value("per_rank", false))
      found.push_back(
          {"each rank makes data of its own", "let all ranks share one data set", {{"data", {{"per_rank", false}}}}});
    if (!of.seed.seeds_before_model())
      found.push_back(
          {"no seed fixes the first weights", "seed before the model is made", {{"seed", {{"policy", "same"}}}}});
    if (!of.ddp.wrap)
      found.push_back({"without DistributedDataParallel every rank trains by itself",
                       "wrap the model",
                       {{"ddp", {{"wrap", true}}}}});
    if (of.schedule_every == recipe::ScheduleEvery::kRank && of.schedule.kind != recipe::ScheduleKind::kConstant)
      found.push_back(
          {"the schedule takes a step for each rank", "step it once per update", {{"schedule_every", "update"}}});
    return found;
  }

  std::vector<Obstacle> obstacles_of_accumulation() const override {
    std::vector<Obstacle> found;
    const TrainSpec& of = train();
    if (of.norm() != recipe::Norm::kUnknown)
      found.push_back({"batch normalization takes the statistics of each micro-batch", "", nullptr});
    if (of.drops())
      found.push_back(
          {"dropout draws a mask for each micro-batch", "set dropout to 0 to compare", {{"model", {{"dropout", 0}}}}});
    if (has_unequal_targets() && of.loss_average == recipe::LossAverage::kRank)
      found.push_back({"each micro-batch divides its loss by its own number of targets",
                       "divide by the number of targets of the whole update",
                       {{"loss", {{"average", "world"}}}}});
    if (!of.seed.seeds_before_model())
      found.push_back(
          {"no seed fixes the first weights", "seed before the model is made", {{"seed", {{"policy", "same"}}}}});
    if (of.model.kind == recipe::ModelKind::kBranch)
      found.push_back({"the number of forward passes decides whether the side path takes part", "", nullptr});
    return found;
  }

 private:
  Json batch(const Setting& setting) const {
    Json batch = {{"accumulation", setting.accumulation}};
    if (setting.split || train().batch.global) {
      batch["global"] = setting.rank_batch * setting.world_size;
    } else {
      batch["per_rank"] = setting.rank_batch;
    }
    return batch;
  }

  Json optimizer(const Setting& setting) const {
    if (setting.plain)
      return {{"kind", "sgd"},  {"lr", *setting.plain}, {"momentum", 0},          {"weight_decay", 0},
              {"dampening", 0}, {"nesterov", false},    {"groups", Json::array()}};
    Json options = train().optimizer.options;
    scale(options, "lr", setting.rate);
    scale(options, "weight_decay", setting.decay);
    if (options.contains("groups")) {
      for (Json& group : options["groups"]) {
        scale(group, "lr", setting.rate);
        scale(group, "weight_decay", setting.decay);
      }
    }
    options["kind"] = name_of(train().optimizer.kind);
    return options;
  }

  Json thresholds(double factor) const {
    Json change = Json::object();
    if (train().gradient.clip_norm) change["clip_norm"] = factor * *train().gradient.clip_norm;
    if (train().gradient.clip_value) change["clip_value"] = factor * *train().gradient.clip_value;
    return change;
  }

  std::int64_t steps_;
};

}  // namespace

std::unique_ptr<Recipe> worker_recipe(const scenario::Variant& variant, std::int64_t steps) {
  return std::make_unique<WorkerRecipe>(variant, steps);
}

}  // namespace lockstep::audit
