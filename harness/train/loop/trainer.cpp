#include "harness/train/loop/trainer.h"

#include <algorithm>
#include <chrono>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>

#include "harness/base/error.h"
#include "harness/launch/interfaces.h"
#include "harness/launch/progress.h"
#include "harness/launch/variables.h"
#include "harness/recipe/seeds.h"
#include "harness/record/rank_recorder.h"
#include "harness/trace/reader.h"
#include "harness/train/collective/collective.h"
#include "harness/train/data/data.h"
#include "harness/train/ddp/ddp.h"
#include "harness/train/ddp/gradients.h"
#include "harness/train/device/determinism.h"
#include "harness/train/device/device.h"
#include "harness/train/device/generator.h"
#include "harness/train/device/tensors.h"
#include "harness/train/fault/fault.h"
#include "harness/train/loop/autocast.h"
#include "harness/train/loop/checkpoint.h"
#include "harness/train/loop/ema.h"
#include "harness/train/loop/evaluation.h"
#include "harness/train/loop/learning_rates.h"
#include "harness/train/loop/loader.h"
#include "harness/train/loop/loss.h"
#include "harness/train/loop/snapshots.h"
#include "harness/train/loop/state_dict.h"
#include "harness/train/model/model.h"
#include "harness/train/optimizer/optimizer.h"
#include "harness/train/recording/operator_log.h"
#include "harness/train/recording/recording.h"
#include "harness/train/recording/slopes.h"
#include "harness/train/reduction/reduction.h"

namespace lockstep::train {
namespace {

using launch::Phase;
using trace::Channel;

at::ScalarType precision_of(const recipe::TrainSpec& spec) {
  return spec.precision == recipe::Precision::kFloat64 ? at::kDouble : at::kFloat;
}

Dataset data_of(const recipe::TrainSpec& spec, std::int64_t rank) {
  Dataset data = make_data(spec.data, rank);
  data.convert(precision_of(spec));
  return data;
}

/// One rank's training. Members in the order in which Python's script would make them.
class Trainer {
 public:
  /// *Lifetime*: of all of them.
  Trainer(const RunSpec& run, const launch::Place& place, const std::filesystem::path& out, const Device& device)
      : run_(run),
        spec_(run.train),
        place_(place),
        out_(out),
        device_(device),
        progress_(launch::progress_path(out, place.rank)),
        data_(data_of(spec_, place.rank)),
        collective_(place, progress_, device_, make_reduction(spec_.ddp.reduction)),
        loaded_(load()),
        recorder_(out / trace::file_name_of_rank(place.rank), place.rank, place.world_size, header(),
                  selection_of(spec_)),
        faults_(spec_, place.rank),
        rates_(spec_, place.world_size),
        loader_(make_sampler(faults_.sampler(spec_.sampler), {.samples = training_samples(spec_.evaluation, data_),
                                                              .rank = faults_.rank_of_share(),
                                                              .world_size = place.world_size,
                                                              .micro_batch = spec_.batch.micro_size(place.world_size),
                                                              .group = collective_.group()}),
                spec_.batch.micro_size(place.world_size), place.world_size, faults_.drops_last(spec_.batch.drop_last)) {
    if (spec_.evaluation) evaluation_.emplace(*spec_.evaluation, data_, place, collective_);
    build();
  }

  void run() {
    record_initial_state();
    first_update_ = updates_;
    first_epochs_ = loader_.epochs_finished();
    for (faults_.begin(updates_); updates_ < spec_.steps && !faults_.ends(); faults_.begin(updates_)) {
      follow();
      update();
      if (spec_.checkpoint.saves_after(updates_)) save();
    }
    recorder_.finish();
    progress_.report(updates_ - 1, Phase::kDone);
    collective_.barrier();
  }

 private:
  void build() {
    const std::optional<Checkpoint> checkpoint = std::exchange(loaded_, std::nullopt);
    if (spec_.seed.seeds_before_model()) at::manual_seed(recipe::seed_of_rank(spec_.seed, place_.rank));
    model_ = make_model(spec_.model, context());
    convert(*model_, precision_of(spec_), device_.place());
    if (spec_.exact) {
      exact_.emplace(place_.world_size, spec_.batch.global_size(place_.world_size));
      model_->make_exact(*exact_);
    }
    if (spec_.seed.policy == recipe::SeedPolicy::kAfterModel)
      at::manual_seed(recipe::seed_of_rank(spec_.seed, place_.rank));
    model_->train();
    const bool restores_weights = checkpoint && spec_.checkpoint.load->restores("weights");
    const bool early = restores_weights && spec_.checkpoint.load->when == recipe::LoadWhen::kBeforeWrap;
    if (early) take_weights(*checkpoint);
    const bool restores_buckets = checkpoint && spec_.checkpoint.load->restores("buckets");
    const auto wrap = [&](std::optional<BucketLayout> buckets) {
      ddp_.emplace(model_, faults_.ddp(spec_.ddp), collective_, std::move(buckets));
    };
    restores_buckets ? take_from(*checkpoint, [&] { wrap(checkpoint->buckets); }) : wrap(std::nullopt);
    if (restores_weights && !early) take_weights(*checkpoint);
    settle_weights();
    if (checkpoint && spec_.checkpoint.load->restores("buffers"))
      take_from(*checkpoint, [&] { copy_weights(checkpoint->buffers, ddp_->buffers()); });
    faults_.require_parameters(ddp_->parameters());
    recipe_ = spec_.optimizer;
    if (checkpoint && spec_.checkpoint.load->restores("optimizer"))
      take_from(*checkpoint, [&] { recipe_ = saved_recipe(*checkpoint); });
    optimizer_.emplace(recipe_, ddp_->parameters());
    if (spec_.ema_decay) ema_.emplace(faults_.average_decay(*spec_.ema_decay), ddp_->parameters());
    gradients_.emplace(ddp_->parameters(), spec_.gradient, recorder_, faults_, collective_);
    loader_.prepare();
    if (checkpoint) take_from(*checkpoint, [&] { restore(*checkpoint); });
    faults_.require_samples(loader_, updates_, spec_.batch);
    collective_.take_log();  // the trace's collectives are those of the steps
  }

  ModelContext context() const {
    return {.sample = data_.shape(), .tokens = data_.tokens(), .classes = data_.classes, .group = collective_.group()};
  }

  void settle_weights() {
    if (!exact_) return;
    for (const NamedTensor& parameter : ddp_->parameters()) Exact::settle_weight(parameter.tensor);
  }

  Json header() const {
    const bool loads = loaded_ && spec_.checkpoint.load->restores("weights");
    return header_of(
        run_, data_, training_samples(spec_.evaluation, data_), device_,
        loads ? inert_prefixes(loaded_->weights, spec_.checkpoint.load->keys) : std::vector<std::string>{});
  }

  /// What this rank loads: nothing, when it does not take part.
  std::optional<Checkpoint> load() {
    const auto& load = spec_.checkpoint.load;
    if (!load || (load->who == recipe::LoadWho::kRank0 && place_.rank != 0)) return std::nullopt;
    if (!run_.weights_file.empty())
      return in_precision({.origin = run_.weights_file, .weights = read_weights(run_.weights_file, load->keys.under)},
                          precision_of(spec_));
    std::filesystem::path folder = pick_snapshot(run_.checkpoint_from, *load, place_.rank);
    const std::filesystem::path received = out_ / "received" / std::to_string(place_.rank);
    if (load->who == recipe::LoadWho::kNewest) folder = newest_snapshot(folder, received, place_, collective_);
    if (load->who == recipe::LoadWho::kRank0Sends) folder = shared_snapshot(folder, received, 0, place_, collective_);
    if (folder.empty()) return std::nullopt;
    const bool per_rank = load->restores("rng") || load->restores("buckets") || load->restores("buffers");
    return in_precision(load_checkpoint(folder, place_.rank, place_.world_size, per_rank), precision_of(spec_));
  }

  /// Takes the state that another training had before this update, in this one's precision. Before that one's first
  /// update both hold what they draw, or load.
  void follow() {
    if (run_.followed.empty() || updates_ <= run_.followed_after) return;
    const Checkpoint state = in_precision(
        load_checkpoint(snapshot_folder(run_.followed, updates_), place_.rank, place_.world_size, /*per_rank=*/false),
        precision_of(spec_));
    take_from(state, [&] {
      copy_weights(state.weights, state_tensors());
      optimizer_->restore(state.optimizer);
      if (ema_) ema_->restore(state.ema);
    });
  }

  void take_weights(const Checkpoint& checkpoint) {
    const std::vector<NamedTensor> state = state_tensors();
    take_from(checkpoint, [&] {
      copy_weights(faults_.loaded(match_keys(checkpoint.weights, state, spec_.checkpoint.load->keys)), state);
    });
  }

  /// The optimizer's hyperparameters: a restored one brings those that it was saved with.
  /// *Source*: torch.optim.Optimizer.load_state_dict, PyTorch 2.11.
  const recipe::OptimizerChoice& saved_recipe(const Checkpoint& checkpoint) const {
    if (checkpoint.recipe.kind == spec_.optimizer.kind) return checkpoint.recipe;
    throw InputError({.what = "the checkpoint's state belongs to another optimizer",
                      .where = "train.checkpoint.load",
                      .expected = text_of(spec_.optimizer.kind),
                      .actual = text_of(checkpoint.recipe.kind),
                      .next = "leave 'optimizer' out of restore, or use the optimizer that saved"});
  }

  void restore(const Checkpoint& checkpoint) {
    const recipe::LoadSpec& load = *spec_.checkpoint.load;
    if (load.restores("optimizer")) {
      optimizer_->restore(checkpoint.optimizer);
      if (!load.restores("schedule")) rates_.take_current(checkpoint.rates);
    }
    if (load.restores("ema") && ema_) ema_->restore(checkpoint.ema);
    if (load.restores("schedule")) {
      load.own_rates ? rates_.go_to(checkpoint.rates) : rates_.restore(checkpoint.rates);
      updates_ = checkpoint.updates;
      samples_taken_ = checkpoint.samples_taken;
      skipped_ = checkpoint.skipped;
    }
    if (load.restores("sampler")) restore_position(checkpoint, load.epoch);
    if (load.restores("schedule") && checkpoint.world_size != place_.world_size)
      samples_taken_ = loader_.samples_taken(checkpoint.position, checkpoint.world_size);
    if (load.restores("rng")) restore_generators(device_, {.cpu = checkpoint.rng, .device = checkpoint.device_rng});
    faults_.restored({.updates = updates_, .optimizer = *optimizer_});
  }

  void restore_position(const Checkpoint& checkpoint, recipe::LoadEpoch epoch) {
    const LoaderPosition& saved = checkpoint.position;
    if (saved.ended && faults_.keeps_ended_iterator())
      return loader_.restart(saved.epoch + 2, saved.batches + loader_.batches_in(saved.position));
    if (epoch == recipe::LoadEpoch::kAgain) return loader_.restart(saved.epoch, saved.batches);
    if (epoch == recipe::LoadEpoch::kNext)
      return loader_.restart(saved.epoch + 1, saved.batches + loader_.batches_in(saved.position));
    // Where the epoch's order was drawn from the default generator, it must be drawn again from the same state.
    const at::Tensor now = rng_state();
    if (saved.epoch_rng.defined()) set_rng(saved.epoch_rng);
    loader_.restore(saved, faults_.ranks_that_saved(checkpoint.world_size, place_.world_size));
    set_rng(now);
  }

  void save() {
    ddp_->settle_buckets();
    Checkpoint checkpoint{.world_size = place_.world_size,
                          .updates = updates_,
                          .samples_taken = samples_taken_,
                          .skipped = skipped_,
                          .rates = rates_.state(),
                          .position = loader_.position(),
                          .buckets = ddp_->layout(),
                          .weights = state_tensors(spec_.checkpoint.prefix),
                          .recipe = recipe_,
                          .optimizer = faults_.saving(optimizer_->state()),
                          .ema = ema_ ? ema_->state() : std::vector<NamedTensor>{},
                          .buffers = ddp_->buffers(),
                          .rng = rng_state(),
                          .device_rng = generator_states(device_).device};
    const std::filesystem::path run = out_ / "checkpoint";
    save_checkpoint(snapshot_folder(run, updates_), checkpoint, place_.rank, collective_);
    faults_.saved(snapshot_folder(run, updates_));
    if (place_.rank == 0) point_to_snapshot(run, updates_);
    collective_.barrier();
  }

  std::vector<NamedTensor> state_tensors(const std::string& prefix = "") const {
    std::vector<NamedTensor> state;
    for (const auto& entry : model_->named_parameters()) state.push_back({prefix + entry.key(), entry.value()});
    for (const auto& entry : model_->named_buffers()) state.push_back({prefix + entry.key(), entry.value()});
    return state;
  }

  /// What one forward pass takes.
  struct MicroBatch : Samples {
    bool last = false;  ///< of its update
  };

  void enter(Phase phase) {
    progress_.report(updates_, phase);
    if (operators_) operators_->enter(std::string(name_of(phase)));
    if (phase == Phase::kBackward && place_.step_delay_ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(place_.step_delay_ms));
    faults_.arrive(phase, collective_);
  }

  void update() {
    recorder_.begin_step(updates_);
    if (recorder_.captures()) operators_.emplace(ddp_->parameters());
    gradients_->begin();
    batch_ = {};
    batch_.with_slopes = parameters_with_slopes();
    const std::int64_t epochs_before = loader_.epochs_finished();
    std::vector<MicroBatch> ahead;
    if (spec_.loss_average == recipe::LossAverage::kWorld) ahead = load_ahead();
    for (bool last = false; !last; ++batch_.micro_batches) {
      const std::int64_t k = batch_.micro_batches;
      const MicroBatch batch = ahead.empty() ? load_micro_batch(k) : ahead[static_cast<std::size_t>(k)];
      last = batch.last;
      compute(batch, k);
    }
    const std::int64_t early = rates_.wants_loss() ? 0 : schedule_steps_within_update(epochs_before);
    rates_.advance(early, 0);
    enter(Phase::kOptimizer);
    const bool finite = gradients_->finish();
    const std::vector<double> learning_rates = faults_.learning_rates(rates_.now());
    average(/*before_update=*/true);
    if (finite && faults_.updates())
      optimizer_->step(learning_rates, [&](const auto& one, const auto& rule) { return faults_.update(one, rule); });
    skipped_ += finite ? 0 : 1;
    faults_.updated({.weights = ddp_->parameters(), .collective = collective_, .out = out_});
    settle_weights();
    average(/*before_update=*/false);
    if (operators_) recorder_.operators(operators_->calls());
    operators_.reset();
    progress_.report(updates_, Phase::kRecord);
    samples_taken_ += static_cast<std::int64_t>(batch_.ids.size());
    record_batch();
    record_ledger(learning_rates);
    gradients_->update_scale();
    evaluate();
    record_state();
    ++updates_;
    device_.wait();
    rates_.advance(schedule_steps(loader_.epochs_finished() - epochs_before) - early, batch_.reduced_loss);
    recorder_.end_step();
  }

  void average(bool before_update) {
    if (!ema_) return;
    for (int times = faults_.averagings(before_update); times > 0; --times) ema_->update();
    faults_.averaged(ema_->state());
  }

  void evaluate() {
    if (!evaluation_ || (updates_ + 1) % spec_.evaluation->every != 0) return;
    const Metrics metrics = evaluation_->run(*model_, *ddp_,
                                             {.divisor = faults_.metric_divisor(place_.world_size),
                                              .in_training_mode = faults_.evaluates_in_training_mode(),
                                              .samples_before = faults_.evaluates_samples_before()});
    faults_.evaluated(*model_, ddp_->parameters(), ema_ ? ema_->state() : std::vector<NamedTensor>{});
    recorder_.number(Channel::kMetric, "loss", metrics.loss);
    recorder_.number(Channel::kMetric, "accuracy", metrics.accuracy);
    if (metrics.counted) recorder_.integer(Channel::kMetric, "counted", *metrics.counted);
    record_sums("seen.evaluated ", metrics.own);
    if (!metrics.rest.ids.empty()) record_sums("seen.evaluated_rest ", metrics.rest);
  }

  void record_sums(const std::string& whose, const MetricSums& sums) {
    recorder_.integers(Channel::kLedger, whose + "ids", sums.ids);
    recorder_.number(Channel::kLedger, whose + "loss", sums.loss);
    recorder_.integer(Channel::kLedger, whose + "correct", static_cast<std::int64_t>(sums.correct));
    recorder_.integer(Channel::kLedger, whose + "targets", static_cast<std::int64_t>(sums.targets));
  }

  /// Steps that the schedule takes after an update in which so many epochs ended.
  std::int64_t schedule_steps(std::int64_t epochs) const {
    const std::int64_t steps = spec_.schedule_every == recipe::ScheduleEvery::kEpoch  ? epochs
                               : spec_.schedule_every == recipe::ScheduleEvery::kRank ? place_.world_size
                                                                                      : 1;
    return faults_.schedule_steps(steps, place_.world_size);
  }

  /// Those of them that come before the update: a script's loop over an epoch ends, and the schedule takes its step,
  /// before the loop over the next one completes the update with further micro-batches.
  /// *Source*: "How to adjust learning rate" (torch.optim), "Gradient accumulation" (torch.amp examples), PyTorch 2.11.
  std::int64_t schedule_steps_within_update(std::int64_t epochs_before) const {
    return spec_.schedule_every == recipe::ScheduleEvery::kEpoch ? batch_.epochs_before_last - epochs_before : 0;
  }

  /// "" or, of several, ".k".
  std::string suffix_of(std::int64_t k) const { return spec_.batch.accumulation > 1 ? "." + std::to_string(k) : ""; }

  MicroBatch load_micro_batch(std::int64_t k) {
    enter(Phase::kData);
    batch_.epochs_before_last = loader_.epochs_finished();
    std::vector<std::int64_t> ids = loader_.next();
    faults_.samples(ids);
    const std::int64_t before = loader_.rows_before(static_cast<std::int64_t>(ids.size()));
    MicroBatch batch{data_.take(ids, loader_.position().epoch, before)};
    batch.last = k + 1 == spec_.batch.accumulation || (spec_.batch.updates_at_epoch_end && loader_.at_epoch_end());
    faults_.content(ids, batch);
    if (exact_) batch.x = Exact::input(batch.x);
    recorder_.tensor(Channel::kInput, "x" + suffix_of(k), view_of(batch.x));
    recorder_.tensor(Channel::kInput, "y" + suffix_of(k), view_of(batch.y));
    batch_.ids.insert(batch_.ids.end(), ids.begin(), ids.end());
    batch_.targets += targets_in(batch.y);
    return batch;
  }

  /// All micro-batches of the update: their targets, over all ranks, are what the loss is divided by.
  std::vector<MicroBatch> load_ahead() {
    std::vector<MicroBatch> all;
    while (all.empty() || !all.back().last) all.push_back(load_micro_batch(static_cast<std::int64_t>(all.size())));
    batch_.targets_of_world = collective_.sum(at::scalar_tensor(batch_.targets, at::kLong)).item<std::int64_t>();
    return all;
  }

  at::Tensor loss_of(const at::Tensor& logits, const at::Tensor& labels) const {
    if (exact_) return exact_->loss(logits, labels);
    const bool of_world = spec_.loss_average == recipe::LossAverage::kWorld;
    at::Tensor loss = faults_.criterion(logits, labels, of_world);
    if (!loss.defined()) loss = of_world ? summed_loss(logits, labels) : mean_loss(logits, labels);
    if (of_world)  // times the ranks, because DDP divides by them
      return loss * (static_cast<double>(place_.world_size) / static_cast<double>(batch_.targets_of_world));
    const std::int64_t accumulation = faults_.accumulation(spec_.batch.accumulation);
    return accumulation > 1 ? loss / accumulation : loss;
  }

  /// Parameters whose slopes are recorded in this update: where somebody looks closely at its local gradients, or it is
  /// one of those that tell most. The loss alone must tell them: no layer reduces, no grid rounds, and none is reduced
  /// before the last backward pass.
  std::set<std::size_t> parameters_with_slopes() const {
    const auto& captures = spec_.record.captures;
    const bool asked = std::any_of(captures.begin(), captures.end(), [&](const recipe::CaptureSpec& capture) {
      return capture.step == updates_ && capture.channel == trace::name_of(Channel::kGradientLocal);
    });
    const bool can = !exact_ && spec_.norm() != recipe::Norm::kSyncBatch &&
                     (spec_.batch.accumulation == 1 || spec_.batch.no_sync) && recorder_.wants(Channel::kLedger);
    const std::size_t count = ddp_->parameters().size();
    if (!can || count == 0) return {};
    std::set<std::size_t> chosen;
    if (asked || (spec_.record.slopes && updates_ == first_update_)) {
      for (std::size_t i = 0; i < count; ++i) chosen.insert(i);
    } else if (spec_.record.slopes && tells_most()) {
      // Each takes some forward passes. The first needs the backward passes of all layers; others are taken in turn.
      chosen = {0, count - 1, static_cast<std::size_t>(updates_) % count};
    }
    return chosen;
  }

  /// An even update and an odd one, the first that ends an epoch, maybe by a short batch, and the last.
  bool tells_most() const {
    const bool ends_first_epoch =
        loader_.epochs_finished() == first_epochs_ && loader_.batches_left() <= spec_.batch.accumulation;
    return updates_ - first_update_ < 2 || ends_first_epoch || updates_ + 1 == spec_.steps;
  }

  std::shared_ptr<Model> copy_of_model(at::ScalarType type) const {
    std::shared_ptr<Model> copy = make_model(spec_.model, context());
    convert(*copy, type, device_.place());
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < copy->parameters().size(); ++i) copy->parameters()[i].copy_(model_->parameters()[i]);
    copy->train();
    return copy;
  }

  /// The loss that the recipe asks for, of logits in float64 and in the training's dtype.
  void record_expected_loss(const at::Tensor& exact, const at::Tensor& rounded, const at::Tensor& labels,
                            std::int64_t k) {
    const at::Tensor losses = losses_of_targets(exact, labels),
                     apart = (rounded_losses_of_targets(rounded, labels) - losses).abs();
    const double divisor =
        spec_.loss_average == recipe::LossAverage::kWorld
            ? static_cast<double>(batch_.targets_of_world) / static_cast<double>(place_.world_size)
            : static_cast<double>(std::max<std::int64_t>(losses.numel(), 1) * spec_.batch.accumulation);
    recorder_.number(Channel::kLedger, "seen.loss" + suffix_of(k), losses.sum().item<double>() / divisor);
    recorder_.number(Channel::kLedger, "seen.loss_rounding" + suffix_of(k), apart.sum().item<double>() / divisor);
  }

  /// The buffers that a forward pass in training mode leaves, along the signs of their sketches.
  void take_expected_buffers(const Copies& copies) {
    const auto rounded = copies.rounded->named_buffers();
    for (const auto& entry : copies.exact->named_buffers()) {
      if (!entry.value().is_floating_point()) continue;
      batch_.buffers.push_back({.name = entry.key(),
                                .along = along_signs(entry.value()),
                                .rounding = (rounded[entry.key()] - entry.value()).abs().sum().item<double>()});
    }
  }

  /// Slopes of a micro-batch's loss, before its forward pass; nothing that the training computes changes.
  void add_slopes(const MicroBatch& batch, std::int64_t k) {
    const at::DisableRecordFunctionGuard unlogged;
    const GeneratorStates generators = generator_states(device_);
    const Samples there = batch.on(device_.place());
    const Copies copies{.exact = copy_of_model(at::kDouble), .rounded = copy_of_model(precision_of(spec_))};
    const auto logits = [&](Model& model) {
      const bool exact = &model == copies.exact.get();
      restore_generators(device_, generators);
      {
        const at::NoGradGuard no_grad;
        for (std::size_t i = 0; i < model.buffers().size(); ++i) model.buffers()[i].copy_(model_->buffers()[i]);
      }
      const Autocast autocast(exact ? recipe::Autocast::kNone : spec_.autocast, device_.place().type());
      const at::Tensor x = exact && there.x.is_floating_point() ? there.x.to(at::kDouble) : there.x;
      return model.forward(x);
    };
    const auto loss = [&](Model& model) { return faults_.loss(loss_of(logits(model), there.y)); };
    {
      const at::NoGradGuard no_grad;
      record_expected_loss(logits(*copies.exact), logits(*copies.rounded), there.y, k);
      if (batch.last) take_expected_buffers(copies);
    }
    const double scale = gradients_->loss_scale().value_or(1);
    for (const auto& [i, slope] : slopes_of(copies, loss, scale, batch_.with_slopes)) batch_.slopes[i] += slope;
    restore_generators(device_, generators);
  }

  void record_slopes() {
    for (const auto& [i, slope] : batch_.slopes) {
      const std::string& name = ddp_->parameters()[i].name;
      recorder_.number(Channel::kLedger, "seen.slope " + name, slope.slope);
      recorder_.number(Channel::kLedger, "seen.slope_error " + name, slope.error);
      recorder_.number(Channel::kLedger, "seen.slope_rounding " + name, slope.rounding);
    }
    for (const ExpectedBuffer& buffer : batch_.buffers) {
      recorder_.number(Channel::kLedger, "seen.buffer " + buffer.name, buffer.along);
      recorder_.number(Channel::kLedger, "seen.buffer_rounding " + buffer.name, buffer.rounding);
    }
  }

  void compute(const MicroBatch& batch, std::int64_t k) {
    enter(Phase::kForward);
    if (!batch_.with_slopes.empty()) add_slopes(batch, k);
    if (k == 0) batch_.gradients_left = gradients_->left();
    batch_.trains = batch_.trains && model_->is_training();
    gradients_->expect(batch.last);
    if (k > 0 && faults_.clears_between_micro_batches()) gradients_->begin();
    at::Tensor loss;
    {
      const Samples there = batch.on(device_.place());
      const Autocast autocast(spec_.autocast, device_.place().type());
      const bool sync = (batch.last || !spec_.batch.no_sync) && !faults_.reduces_by_hand();
      faults_.passing(ddp_->buffers());
      const at::Tensor logits = ddp_->forward(there.x, sync);
      loss = faults_.loss(loss_of(logits, there.y));
    }

    enter(Phase::kBackward);
    if (const auto scale = gradients_->loss_scale()) {
      (loss * at::full({}, *scale, at::kFloat)).backward();
    } else {
      loss.backward();
    }
    faults_.passed(ddp_->buffers());
    record_scalar(Channel::kLoss, "local" + suffix_of(k), loss.detach());
    batch_.last_loss = loss.detach();
    batch_.loss = batch_.loss.defined() ? batch_.loss + batch_.last_loss : batch_.last_loss;
  }

  void record_batch() {
    recorder_.integers(Channel::kSamples, "ids", batch_.ids);
    if (recorder_.wants(Channel::kLoss) || rates_.wants_loss()) {
      const auto divisor = static_cast<double>(faults_.metric_divisor(place_.world_size));
      const at::Tensor reduced =
          collective_.metric_sum(faults_.reported_loss(batch_.loss, batch_.last_loss, collective_)).div_(divisor);
      batch_.reduced_loss = faults_.followed_loss(reduced.item<double>(), batch_.loss.item<double>());
      record_scalar(Channel::kLoss, "reduced", reduced);
    }
    std::vector<std::string> collectives = collective_.take_log();
    for (std::size_t i = 0; i < collectives.size(); ++i)
      recorder_.text(Channel::kCollective, std::to_string(i), std::move(collectives[i]));
  }

  void record_scalar(Channel channel, const std::string& name, const at::Tensor& value) {
    if (!recorder_.wants(channel)) return;
    trace::Record record = recorder_.observe(channel, name, view_of(value));
    record.number = value.item<double>();
    recorder_.add(std::move(record));
  }

  void record_ledger(const std::vector<double>& learning_rates) {
    for (std::size_t group = 0; group < learning_rates.size(); ++group) {
      const std::string name = "learning_rate" + (group > 0 ? "." + std::to_string(group) : "");
      recorder_.number(Channel::kLedger, name, learning_rates[group]);
    }
    if (data_.labels.dim() > 1) recorder_.integer(Channel::kLedger, "targets", batch_.targets);
    recorder_.integer(Channel::kLedger, "loss_denominator",
                      spec_.loss_average == recipe::LossAverage::kWorld ? batch_.targets_of_world : batch_.targets);
    recorder_.integer(Channel::kLedger, "samples_taken", samples_taken_);
    if (const auto scale = gradients_->loss_scale()) {
      recorder_.number(Channel::kLedger, "loss_scale", *scale);
      recorder_.integer(Channel::kLedger, "skipped", skipped_);
    }
    recorder_.integer(Channel::kLedger, "updates", updates_ + 1);
    recorder_.integer(Channel::kLedger, "epoch", loader_.position().epoch);
    record_slopes();
    if (batch_.gradients_left > 0) recorder_.integer(Channel::kLedger, "seen.left", batch_.gradients_left);
    if (!batch_.trains) recorder_.integer(Channel::kLedger, "seen.training", 0);
  }

  void record_state() {
    if (recorder_.wants(Channel::kRng)) {
      trace::Record record = recorder_.observe(Channel::kRng, "cpu", view_of(rng_state()));
      record.integers = rng_place();
      recorder_.add(std::move(record));
      if (const auto own = device_.generator())
        recorder_.tensor(Channel::kRng, spec_.device, view_of(own->get_state()));
    }
    for (const NamedTensor& state : optimizer_->state())
      recorder_.tensor(Channel::kOptimizer, state.name, view_of(state.tensor));
    for (const NamedTensor& parameter : ddp_->parameters())
      recorder_.tensor(Channel::kWeight, parameter.name, view_of(parameter.tensor));
    for (const NamedTensor& buffer : ddp_->buffers())
      recorder_.tensor(Channel::kBuffer, buffer.name, view_of(buffer.tensor));
    if (!ema_) return;
    for (const NamedTensor& average : ema_->state())
      recorder_.tensor(Channel::kEma, average.name, view_of(average.tensor));
  }

  void record_initial_state() {
    recorder_.begin_step(updates_ - 1);
    record_state();
    recorder_.end_step();
  }

  /// A running mean or variance as a forward pass makes it, in float64.
  struct ExpectedBuffer {
    std::string name;
    double along = 0;     ///< the signs of its sketch
    double rounding = 0;  ///< in the training's dtype, summed over its elements
  };

  /// What one update was computed from.
  struct Batch {
    std::vector<std::int64_t> ids;
    std::int64_t micro_batches = 0;
    std::int64_t epochs_before_last = 0;  ///< finished before the last micro-batch
    std::int64_t targets = 0;             ///< of this rank
    std::int64_t targets_of_world = 0;    ///< of all ranks, where the loss is averaged over them
    at::Tensor loss, last_loss;           ///< of all micro-batches together, and of the last
    std::set<std::size_t> with_slopes;    ///< parameters that somebody asks for
    std::map<std::size_t, Slope> slopes;  ///< of the losses along them
    std::vector<ExpectedBuffer> buffers;  ///< in such a step
    std::int64_t gradients_left = 0;      ///< that nobody cleared before the first backward pass
    bool trains = true;                   ///< the model was in training mode in all forward passes
    double reduced_loss = 0;              ///< its mean over the ranks, where somebody wants it
  };

  const RunSpec& run_;
  const recipe::TrainSpec& spec_;
  launch::Place place_;
  std::filesystem::path out_;
  const Device& device_;
  launch::ProgressWriter progress_;
  Dataset data_;
  Collective collective_;
  std::optional<Checkpoint> loaded_;  ///< until the model is built
  record::Recorder recorder_;
  Faults faults_;
  LearningRates rates_;
  Loader loader_;
  std::shared_ptr<Model> model_;
  std::optional<Ddp> ddp_;
  std::optional<Exact> exact_;
  recipe::OptimizerChoice recipe_;  ///< of the optimizer
  std::optional<Optimizer> optimizer_;
  std::optional<Ema> ema_;
  std::optional<Gradients> gradients_;
  std::optional<Evaluation> evaluation_;
  std::optional<OperatorLog> operators_;  ///< in a step that somebody looks closely at
  Batch batch_;
  std::int64_t updates_ = 0;
  std::int64_t first_update_ = 0, first_epochs_ = 0;  ///< where this process begins
  std::int64_t samples_taken_ = 0;
  std::int64_t skipped_ = 0;  ///< updates, because of gradients that were not finite
};

}  // namespace

void train(const RunSpec& run, const launch::Place& place, const std::filesystem::path& out) {
  if (place.world_size != run.world_size) {
    throw InputError({.what = "the launcher started a different number of ranks than the RunSpec says",
                      .where = "WORLD_SIZE",
                      .expected = std::to_string(run.world_size),
                      .actual = std::to_string(place.world_size)});
  }
  launch::require_interfaces(launch::whole_environment(), launch::interface_variables_of(run.train.device),
                             launch::interfaces_with_address());
  const std::unique_ptr<Device> device =
      make_device(run.train.device, {.local_rank = place.local_rank, .backend = run.train.ddp.backend});
  const recipe::DeterminismSpec determinism = Faults(run.train, place.rank).determinism(run.train.determinism);
  apply_determinism(determinism);
  device->apply(determinism);
  Trainer(run, place, out, *device).run();
}

}  // namespace lockstep::train
