#include "harness/train/loop/trainer.h"

#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/launch/interfaces.h"
#include "harness/launch/progress.h"
#include "harness/launch/variables.h"
#include "harness/record/rank_recorder.h"
#include "harness/trace/reader.h"
#include "harness/train/ddp/gradients.h"
#include "harness/train/device/determinism.h"
#include "harness/train/device/tensors.h"
#include "harness/train/loop/autocast.h"
#include "harness/train/loop/criterion.h"
#include "harness/train/loop/loss.h"
#include "harness/train/loop/micro_batch.h"
#include "harness/train/loop/resuming.h"
#include "harness/train/loop/state_dict.h"
#include "harness/train/loop/training_parts.h"
#include "harness/train/recording/operator_log.h"
#include "harness/train/recording/recording.h"
#include "harness/train/recording/slope_recorder.h"
#include "harness/train/recording/step_recorder.h"
#include "harness/train/reduction/reduction.h"

namespace lockstep::train {
namespace {

using launch::Phase;
using trace::Channel;

Dataset data_of(const recipe::TrainSpec& spec, std::int64_t rank) {
  Dataset data = make_data(spec.data, rank);
  data.convert(precision_of(spec));
  return data;
}

/// One rank's training.
class Trainer {
 public:
  /// *Lifetime*: of all of them.
  Trainer(const RunSpec& run, const launch::Place& place, const std::filesystem::path& out, const Device& device)
      : spec_(run.train),
        place_(place),
        progress_(launch::progress_path(out, place.rank)),
        data_(data_of(spec_, place.rank)),
        collective_(place, progress_, device, make_reduction(spec_.ddp.reduction)),
        faults_(spec_, place.rank),
        rank_{run, place, out, device, collective_, faults_},
        loaded_(checkpoint_to_load(rank_)),
        recorder_(out / trace::file_name_of_rank(place.rank), place.rank, place.world_size, header(),
                  selection_of(spec_)),
        parts_(rank_, data_, std::exchange(loaded_, std::nullopt)),
        criterion_(rank_, parts_.exact),
        gradients_(parts_.ddp->parameters(), spec_.gradient, recorder_, faults_, collective_),
        slopes_(parts_, criterion_, gradients_, recorder_),
        records_(parts_, gradients_, recorder_) {
    collective_.take_log();  // the trace's collectives are those of the steps
  }

  void run() {
    record_initial_state();
    for (faults_.begin(parts_.updates); parts_.updates < spec_.steps && !faults_.any(&Fault::ends);
         faults_.begin(parts_.updates)) {
      follow_training(parts_);
      update();
      if (spec_.checkpoint.saves_after(parts_.updates)) save_parts(parts_);
    }
    recorder_.finish();
    progress_.report(parts_.updates - 1, Phase::kDone);
    collective_.barrier();
  }

 private:
  Json header() const {
    const auto& load = spec_.checkpoint.load;
    std::vector<std::string> inert;
    if (loaded_ && load->restores("weights")) inert = inert_prefixes(loaded_->weights, load->keys);
    return header_of(rank_.run, data_, training_samples(spec_.evaluation, data_), rank_.device, inert);
  }

  void record_initial_state() {
    recorder_.begin_step(parts_.updates - 1);
    records_.state();
    recorder_.end_step();
  }

  void enter(Phase phase) {
    progress_.report(parts_.updates, phase);
    if (operators_) operators_->enter(std::string(name_of(phase)));
    if (phase == Phase::kBackward && place_.step_delay_ms > 0)
      std::this_thread::sleep_for(std::chrono::milliseconds(place_.step_delay_ms));
    faults_.each(&Fault::arrive, phase, collective_);
  }

  void update() {
    recorder_.begin_step(parts_.updates);
    if (recorder_.captures()) operators_.emplace(parts_.ddp->parameters());
    gradients_.begin();
    batch_ = {};
    slopes_.begin();
    const std::int64_t epochs_before = parts_.loader.epochs_finished();
    compute_all();
    const std::int64_t early = parts_.rates.wants_loss() ? 0 : schedule_steps_within_update(epochs_before);
    parts_.rates.advance(early, 0);
    enter(Phase::kOptimizer);
    const bool finite = gradients_.finish();
    const std::vector<double> learning_rates = faults_.passed(&Fault::learning_rates, parts_.rates.now());
    update_weights(learning_rates, finite);
    if (operators_) recorder_.operators(operators_->calls());
    operators_.reset();
    progress_.report(parts_.updates, Phase::kRecord);
    parts_.samples_taken += static_cast<std::int64_t>(batch_.ids.size());
    records_.batch(batch_);
    records_.ledger(batch_, learning_rates, slopes_);
    gradients_.update_scale();
    evaluate();
    records_.state();
    ++parts_.updates;
    rank_.device.wait();
    parts_.rates.advance(schedule_steps(parts_.loader.epochs_finished() - epochs_before) - early, batch_.reduced_loss);
    recorder_.end_step();
  }

  void compute_all() {
    std::vector<MicroBatch> ahead;
    if (spec_.loss_average == recipe::LossAverage::kWorld) ahead = load_ahead();
    bool last = false;
    for (std::int64_t k = 0; !last; ++k) {
      const MicroBatch batch = ahead.empty() ? load_micro_batch(k) : ahead[static_cast<std::size_t>(k)];
      last = batch.last;
      compute(batch);
    }
  }

  void update_weights(const std::vector<double>& learning_rates, bool finite) {
    parts_.average(/*before_update=*/true);
    if (finite && !faults_.any(&Fault::skips_update))
      parts_.optimizer->step(learning_rates, [&](const auto& one, const auto& rule) {
        return faults_.instead(&Fault::update, one, rule);
      });
    parts_.skipped += finite ? 0 : 1;
    faults_.each(&Fault::updated,
                 Updated{.weights = parts_.ddp->parameters(), .collective = collective_, .out = rank_.out});
    parts_.settle_weights();
    parts_.average(/*before_update=*/false);
  }

  void evaluate() {
    if (!parts_.evaluation || (parts_.updates + 1) % spec_.evaluation->every != 0) return;
    const Metrics metrics = parts_.evaluation->run(*parts_.model, *parts_.ddp);
    faults_.each(&Fault::evaluated, *parts_.model, parts_.ddp->parameters(), parts_.averages());
    records_.metrics(metrics);
  }

  /// Steps that the schedule takes after an update in which so many epochs ended.
  std::int64_t schedule_steps(std::int64_t epochs) const {
    const std::int64_t steps = spec_.schedule_every == recipe::ScheduleEvery::kEpoch  ? epochs
                               : spec_.schedule_every == recipe::ScheduleEvery::kRank ? place_.world_size
                                                                                      : 1;
    return faults_.passed(&Fault::schedule_steps, steps, place_.world_size);
  }

  /// Those of them that come before the update: a script's loop over an epoch ends, and the schedule takes its step,
  /// before the loop over the next one completes the update with further micro-batches.
  /// *Source*: "How to adjust learning rate" (torch.optim), "Gradient accumulation" (torch.amp examples), PyTorch 2.11.
  std::int64_t schedule_steps_within_update(std::int64_t epochs_before) const {
    return spec_.schedule_every == recipe::ScheduleEvery::kEpoch ? batch_.epochs_before_last - epochs_before : 0;
  }

  MicroBatch load_micro_batch(std::int64_t k) {
    enter(Phase::kData);
    Loader& loader = parts_.loader;
    batch_.epochs_before_last = loader.epochs_finished();
    std::vector<std::int64_t> ids = loader.next();
    faults_.each(&Fault::samples, ids);
    const std::int64_t before = loader.rows_before(static_cast<std::int64_t>(ids.size()));
    MicroBatch batch{data_.take(ids, loader.position().epoch, before)};
    if (spec_.batch.accumulation > 1) batch.suffix = "." + std::to_string(k);
    batch.first = k == 0;
    batch.last = k + 1 == spec_.batch.accumulation || (spec_.batch.updates_at_epoch_end && loader.at_epoch_end());
    faults_.each(&Fault::content, ids, batch);
    if (parts_.exact) batch.x = Exact::input(batch.x);
    records_.input(batch);
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

  void compute(const MicroBatch& batch) {
    enter(Phase::kForward);
    slopes_.add(batch, batch_.targets_of_world);
    if (batch.first) batch_.gradients_left = gradients_.left();
    batch_.trains = batch_.trains && parts_.model->is_training();
    gradients_.expect(batch.last);
    if (!batch.first && faults_.any(&Fault::clears_between_micro_batches)) gradients_.begin();
    at::Tensor loss;
    {
      const Samples there = batch.on(rank_.device.place());
      const Autocast autocast(spec_.autocast, rank_.device.place().type());
      const bool sync = (batch.last || !spec_.batch.no_sync) && !faults_.any(&Fault::reduces_by_hand);
      faults_.each(&Fault::passing, parts_.ddp->buffers());
      const at::Tensor logits = parts_.ddp->forward(there.x, sync);
      loss = criterion_.loss(logits, there.y, batch_.targets_of_world);
    }

    enter(Phase::kBackward);
    if (const auto scale = gradients_.loss_scale()) {
      (loss * at::full({}, *scale, at::kFloat)).backward();
    } else {
      loss.backward();
    }
    faults_.each(&Fault::passed, parts_.ddp->buffers());
    records_.local_loss(batch, loss.detach());
    batch_.last_loss = loss.detach();
    batch_.loss = batch_.loss.defined() ? batch_.loss + batch_.last_loss : batch_.last_loss;
  }

  const recipe::TrainSpec& spec_;
  const launch::Place& place_;
  launch::ProgressWriter progress_;
  Dataset data_;
  Collective collective_;
  Faults faults_;
  RankContext rank_;
  std::optional<Checkpoint> loaded_;  ///< until the parts are made
  record::Recorder recorder_;
  TrainingParts parts_;
  Criterion criterion_;
  Gradients gradients_;
  SlopeRecorder slopes_;
  StepRecorder records_;
  std::optional<OperatorLog> operators_;  ///< in a step that somebody looks closely at
  Batch batch_;
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
  const recipe::DeterminismSpec determinism =
      Faults(run.train, place.rank).passed(&Fault::determinism, run.train.determinism);
  apply_determinism(determinism);
  device->apply(determinism);
  Trainer(run, place, out, *device).run();
}

}  // namespace lockstep::train
