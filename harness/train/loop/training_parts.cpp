#include "harness/train/loop/training_parts.h"

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>

#include "harness/recipe/seeds.h"
#include "harness/train/loop/resuming.h"

namespace lockstep::train {
namespace {

Loader loader_of(const RankContext& rank, const Dataset& data) {
  const recipe::TrainSpec& spec = rank.run.train;
  const std::int64_t ranks = rank.place.world_size, micro_batch = spec.batch.micro_size(ranks);
  return {make_sampler(rank.faults.passed(&Fault::sampler, spec.sampler, rank.place.rank),
                       {.samples = training_samples(spec.evaluation, data),
                        .rank = rank.faults.passed(&Fault::rank_of_share, rank.place.rank),
                        .world_size = ranks,
                        .micro_batch = micro_batch,
                        .group = rank.collective.group()}),
          micro_batch, ranks, rank.faults.passed(&Fault::drops_last, spec.batch.drop_last)};
}

}  // namespace

TrainingParts::TrainingParts(const RankContext& rank, const Dataset& data, const std::optional<Checkpoint>& checkpoint)
    : rank(rank),
      spec(rank.run.train),
      data(data),
      rates(spec, rank.place.world_size),
      loader(loader_of(rank, data)),
      recipe(spec.optimizer) {
  const auto restores = [&](const char* part) { return checkpoint && spec.checkpoint.load->restores(part); };
  const auto seed = [&] { at::manual_seed(recipe::seed_of_rank(spec.seed, rank.place.rank)); };
  if (spec.evaluation) evaluation.emplace(*spec.evaluation, data, rank.place, rank.collective, rank.faults);
  if (spec.seed.seeds_before_model()) seed();
  model = make_model(spec.model, context());
  convert(*model, precision_of(spec), rank.device.place());
  if (spec.exact) {
    exact.emplace(rank.place.world_size, spec.batch.global_size(rank.place.world_size));
    model->make_exact(*exact);
  }
  if (spec.seed.policy == recipe::SeedPolicy::kAfterModel) seed();
  model->train();
  const bool early = restores("weights") && spec.checkpoint.load->when == recipe::LoadWhen::kBeforeWrap;
  if (early) take_weights(*checkpoint, *this);
  const auto wrap = [&](const std::optional<BucketLayout>& buckets) {
    ddp.emplace(model, rank.faults.passed(&Fault::ddp, spec.ddp), rank.collective, buckets);
  };
  restores("buckets") ? take_from(*checkpoint, [&] { wrap(checkpoint->buckets); }) : wrap(std::nullopt);
  if (restores("weights") && !early) take_weights(*checkpoint, *this);
  settle_weights();
  if (restores("buffers")) take_from(*checkpoint, [&] { copy_weights(checkpoint->buffers, ddp->buffers()); });
  rank.faults.each(&Fault::require_parameters, ddp->parameters());
  if (restores("optimizer")) take_from(*checkpoint, [&] { recipe = saved_recipe(*checkpoint, spec.optimizer); });
  optimizer.emplace(recipe, ddp->parameters());
  if (spec.ema_decay) ema.emplace(rank.faults.passed(&Fault::average_decay, *spec.ema_decay), ddp->parameters());
  loader.prepare();
  if (checkpoint) take_from(*checkpoint, [&] { restore_parts(*checkpoint, *this); });
  rank.faults.require_samples(loader, updates, spec.batch);
}

ModelContext TrainingParts::context() const {
  return {.sample = data.shape(), .tokens = data.tokens(), .classes = data.classes, .group = rank.collective.group()};
}

std::shared_ptr<Model> TrainingParts::copy_of_model(at::ScalarType type) const {
  std::shared_ptr<Model> copy = make_model(spec.model, context());
  convert(*copy, type, rank.device.place());
  const at::NoGradGuard no_grad;
  for (std::size_t i = 0; i < copy->parameters().size(); ++i) copy->parameters()[i].copy_(model->parameters()[i]);
  copy->train();
  return copy;
}

std::vector<NamedTensor> TrainingParts::weights(const std::string& prefix) const {
  std::vector<NamedTensor> all;
  for (const auto& entry : model->named_parameters()) all.push_back({prefix + entry.key(), entry.value()});
  for (const auto& entry : model->named_buffers()) all.push_back({prefix + entry.key(), entry.value()});
  return all;
}

void TrainingParts::settle_weights() const {
  if (!exact) return;
  for (const NamedTensor& parameter : ddp->parameters()) Exact::settle_weight(parameter.tensor);
}

void TrainingParts::average(bool before_update) {
  if (!ema) return;
  for (int times = rank.faults.passed(&Fault::averagings, before_update ? 0 : 1, before_update); times > 0; --times)
    ema->update();
  rank.faults.each(&Fault::averaged, ema->state());
}

}  // namespace lockstep::train
