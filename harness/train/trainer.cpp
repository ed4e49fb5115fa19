#include "harness/train/trainer.h"

#include <functional>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <torch/csrc/autograd/function_hook.h>
#include <torch/csrc/autograd/variable.h>

#include "harness/base/error.h"
#include "harness/launch/progress.h"
#include "harness/record/recorder.h"
#include "harness/trace/reader.h"
#include "harness/train/checkpoint.h"
#include "harness/train/collective.h"
#include "harness/train/data.h"
#include "harness/train/ddp.h"
#include "harness/train/determinism.h"
#include "harness/train/faults.h"
#include "harness/train/loader.h"
#include "harness/train/model.h"
#include "harness/train/optimizer.h"
#include "harness/train/schedule.h"
#include "harness/train/tensors.h"

namespace lockstep::train {
namespace {

using launch::Phase;
using trace::Channel;

/// Sees a parameter's accumulated local gradient before the Reducer takes it; changes no bit of the reduction
/// (measured).
class LocalGradientHook : public torch::autograd::PostAccumulateGradHook {
 public:
  explicit LocalGradientHook(std::function<void(const at::Tensor&)> action) : action_(std::move(action)) {}
  void operator()(const torch::autograd::Variable& parameter) override { action_(parameter.grad()); }

 private:
  std::function<void(const at::Tensor&)> action_;
};

at::Tensor rng_state() { return at::detail::getDefaultCPUGenerator().get_state(); }

record::Selection selection_of(const scenario::RecordSpec& spec) {
  record::Selection selection{.channels = {}, .every = spec.every};
  for (const std::string& name : spec.channels) selection.channels.insert(trace::channel_named(name).value());
  return selection;
}

Json header_of(const RunSpec& run, const Dataset& data) {
  return {{"scenario", run.scenario},         {"variant", run.variant}, {"train_digest", run.train_digest},
          {"cpu", run.train.determinism.cpu}, {"samples", data.size()}, {"environment", environment_manifest()}};
}

/// One rank's training. Members in the order in which Python's script would make them.
class Trainer {
 public:
  Trainer(const RunSpec& run, const launch::Place& place, const std::filesystem::path& out)
      : run_(run),
        spec_(run.train),
        place_(place),
        out_(out),
        progress_(launch::progress_path(out, place.rank)),
        data_(make_data(spec_.data, run.data_file)),
        recorder_(out / trace::file_name_of_rank(place.rank), place.rank, place.world_size, header_of(run, data_),
                  selection_of(spec_.record)),
        collective_(place, progress_),
        faults_(spec_.faults, place.rank),
        schedule_(make_schedule(spec_.schedule)),
        loader_(make_sampler(spec_.sampler, {data_.size(), place.rank, place.world_size}),
                spec_.batch.micro_size(place.world_size)) {
    for (const double rate : scenario::base_learning_rates(spec_, place.world_size)) {
      rates_.push_back({.initial = rate, .current = rate});
      rates_.back().current = schedule_->next(rates_.back());
    }
    build();
  }

  void run() {
    record_initial_state();
    while (updates_ < spec_.steps) {
      update();
      if (spec_.checkpoint.save_after == updates_) save();
    }
    recorder_.finish();
    progress_.report(updates_, Phase::kDone);
    collective_.barrier();
  }

 private:
  void build() {
    const std::optional<Checkpoint> checkpoint = load();
    seed_everything(spec_.seed, place_.rank);
    const at::Tensor& x = data_.inputs;
    model_ = make_model(spec_.model, {x.size(1), x.size(2), x.size(3), data_.classes});
    model_->train();
    const bool restores_weights = checkpoint && spec_.checkpoint.load->restores("weights");
    const bool early = restores_weights && spec_.checkpoint.load->when == "before_wrap";
    if (early) copy_weights(checkpoint->weights, state_tensors());
    const bool restores_buckets = checkpoint && spec_.checkpoint.load->restores("buckets");
    ddp_.emplace(model_, spec_.ddp, collective_, restores_buckets ? std::optional(checkpoint->buckets) : std::nullopt);
    if (restores_weights && !early) copy_weights(checkpoint->weights, state_tensors());
    faults_.require_parameters(ddp_->parameters());
    optimizer_.emplace(spec_.optimizer, ddp_->parameters());
    watch_local_gradients();
    if (checkpoint) restore(*checkpoint);
    faults_.require_samples(loader_, updates_, spec_.batch.accumulation);
    collective_.take_log();  // the trace's collectives are those of the steps
  }

  /// What this rank loads: nothing, when it does not take part.
  std::optional<Checkpoint> load() const {
    const auto& load = spec_.checkpoint.load;
    if (!load || (load->who == "rank0" && place_.rank != 0)) return std::nullopt;
    const bool per_rank = load->restores("rng") || load->restores("sampler") || load->restores("buckets");
    return load_checkpoint(run_.checkpoint_from, place_.rank, place_.world_size, per_rank);
  }

  void restore(const Checkpoint& checkpoint) {
    const scenario::LoadSpec& load = *spec_.checkpoint.load;
    if (load.restores("optimizer")) optimizer_->restore(checkpoint.optimizer);
    if (load.restores("schedule")) {
      restore_rates(checkpoint);
      updates_ = checkpoint.updates;
      samples_taken_ = checkpoint.samples_taken;
    }
    const auto set_rng = [](const at::Tensor& state) {
      at::Generator(at::detail::getDefaultCPUGenerator()).set_state(state);
    };
    if (load.restores("sampler")) {
      // Where the epoch's order was drawn from the default generator, it must be drawn again from the same state.
      const at::Tensor now = rng_state();
      set_rng(checkpoint.position.epoch_rng);
      loader_.restore(checkpoint.position.epoch, checkpoint.position.position);
      set_rng(now);
    }
    if (load.restores("rng")) set_rng(checkpoint.rng);
  }

  void restore_rates(const Checkpoint& checkpoint) {
    if (checkpoint.rates.size() != rates_.size()) {
      throw InputError({.what = "the checkpoint was saved with another number of parameter groups",
                        .where = "train.checkpoint.load",
                        .expected = std::to_string(rates_.size()),
                        .actual = std::to_string(checkpoint.rates.size()),
                        .next = "give train.optimizer.groups as they were, or leave 'schedule' out of restore"});
    }
    rates_ = checkpoint.rates;
    schedule_steps_ = checkpoint.schedule_steps;
    schedule_->restore(checkpoint.schedule);
  }

  void save() {
    ddp_->settle_buckets();
    Checkpoint checkpoint{.world_size = place_.world_size,
                          .updates = updates_,
                          .samples_taken = samples_taken_,
                          .schedule_steps = schedule_steps_,
                          .rates = rates_,
                          .schedule = schedule_->state(),
                          .position = loader_.position(),
                          .buckets = ddp_->layout(),
                          .weights = state_tensors(),
                          .optimizer = optimizer_->state(),
                          .rng = rng_state()};
    save_checkpoint(out_ / "checkpoint", checkpoint, place_.rank, collective_);
  }

  std::vector<NamedTensor> state_tensors() const {
    std::vector<NamedTensor> state;
    for (const auto& entry : model_->named_parameters()) state.push_back({entry.key(), entry.value()});
    for (const auto& entry : model_->named_buffers()) state.push_back({entry.key(), entry.value()});
    return state;
  }

  void watch_local_gradients() {
    const std::vector<NamedTensor>& parameters = ddp_->parameters();
    local_.resize(parameters.size());
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      torch::autograd::impl::set_post_acc_grad_hooks(
          parameters[i].tensor, std::make_unique<LocalGradientHook>([this, i](const at::Tensor& gradient) {
            if (!last_micro_batch_) return;
            const std::string& name = ddp_->parameters()[i].name;
            if (recorder_.wants(Channel::kGradientLocal))
              local_[i].seen = record::observe(Channel::kGradientLocal, name, view_of(gradient));
            if (faults_.keeps_local_gradient(name, updates_)) local_[i].kept = gradient.clone();
          }));
    }
  }

  void enter(Phase phase) {
    progress_.report(updates_, phase);
    faults_.arrive(updates_, phase);
  }

  void update() {
    recorder_.begin_step(updates_);
    for (const NamedTensor& parameter : ddp_->parameters()) at::Tensor(parameter.tensor).mutable_grad().reset();
    batch_ = {};
    epochs_before_ = loader_.epochs_finished();
    for (std::int64_t k = 0; k < spec_.batch.accumulation; ++k) micro_batch(k);
    enter(Phase::kOptimizer);
    record_gradients();
    std::vector<double> learning_rates;
    for (const Rate& rate : rates_) learning_rates.push_back(faults_.disturb(rate.current, updates_));
    optimizer_->step(learning_rates);
    faults_.disturb(ddp_->parameters(), updates_);
    progress_.report(updates_, Phase::kRecord);
    samples_taken_ += static_cast<std::int64_t>(batch_.ids.size());
    record_batch();
    record_ledger(learning_rates);
    record_state();
    ++updates_;
    advance_schedule();
    recorder_.end_step();
  }

  void advance_schedule() {
    std::int64_t steps = 1;
    if (spec_.schedule_every == "rank") steps = place_.world_size;
    if (spec_.schedule_every == "epoch") steps = loader_.epochs_finished() - epochs_before_;
    for (; steps > 0; --steps) {
      if (schedule_->wants_loss()) schedule_->see(batch_.reduced_loss.item<double>());
      ++schedule_steps_;
      for (Rate& rate : rates_) {
        rate.steps = schedule_steps_;
        rate.current = schedule_->next(rate);
      }
    }
  }

  void micro_batch(std::int64_t k) {
    enter(Phase::kData);
    std::vector<std::int64_t> ids = loader_.next();
    faults_.disturb(ids, updates_);
    const at::Tensor index = at::tensor(ids, at::kLong);
    const at::Tensor x = data_.inputs.index_select(0, index);
    const at::Tensor y = data_.labels.index_select(0, index);
    const std::string suffix = spec_.batch.accumulation > 1 ? "." + std::to_string(k) : "";
    recorder_.tensor(Channel::kInput, "x" + suffix, view_of(x));
    recorder_.tensor(Channel::kInput, "y" + suffix, view_of(y));

    enter(Phase::kForward);
    last_micro_batch_ = k + 1 == spec_.batch.accumulation;
    at::Tensor loss = at::cross_entropy_loss(ddp_->forward(x, /*sync=*/last_micro_batch_), y);
    if (spec_.batch.accumulation > 1) loss = loss / spec_.batch.accumulation;

    enter(Phase::kBackward);
    loss.backward();
    record_scalar(Channel::kLoss, "local" + suffix, loss.detach());
    batch_.ids.insert(batch_.ids.end(), ids.begin(), ids.end());
    batch_.loss = batch_.loss.defined() ? batch_.loss + loss.detach() : loss.detach();
  }

  void record_gradients() {
    const std::vector<NamedTensor>& parameters = ddp_->parameters();
    for (std::size_t i = 0; i < parameters.size(); ++i) {
      if (local_[i].seen) recorder_.add(*std::exchange(local_[i].seen, std::nullopt));
      if (local_[i].kept.defined())
        at::Tensor(parameters[i].tensor).mutable_grad().copy_(std::exchange(local_[i].kept, at::Tensor()));
      const at::Tensor& gradient = parameters[i].tensor.grad();
      if (gradient.defined()) recorder_.tensor(Channel::kGradient, parameters[i].name, view_of(gradient));
    }
  }

  void record_batch() {
    recorder_.integers(Channel::kSamples, "ids", batch_.ids);
    if (recorder_.wants(Channel::kLoss) || schedule_->wants_loss()) {
      batch_.reduced_loss = collective_.mean(batch_.loss);
      record_scalar(Channel::kLoss, "reduced", batch_.reduced_loss);
    }
    std::vector<std::string> collectives = collective_.take_log();
    for (std::size_t i = 0; i < collectives.size(); ++i)
      recorder_.text(Channel::kCollective, std::to_string(i), std::move(collectives[i]));
  }

  void record_scalar(Channel channel, const std::string& name, const at::Tensor& value) {
    if (!recorder_.wants(channel)) return;
    trace::Record record = record::observe(channel, name, view_of(value));
    record.number = value.item<double>();
    recorder_.add(std::move(record));
  }

  void record_ledger(const std::vector<double>& learning_rates) {
    for (std::size_t group = 0; group < learning_rates.size(); ++group) {
      const std::string name = "learning_rate" + (group > 0 ? "." + std::to_string(group) : "");
      recorder_.number(Channel::kLedger, name, learning_rates[group]);
    }
    recorder_.integer(Channel::kLedger, "loss_denominator", static_cast<std::int64_t>(batch_.ids.size()));
    recorder_.integer(Channel::kLedger, "samples_taken", samples_taken_);
    recorder_.integer(Channel::kLedger, "updates", updates_ + 1);
    recorder_.integer(Channel::kLedger, "epoch", loader_.position().epoch);
  }

  void record_state() {
    if (recorder_.wants(Channel::kRng)) recorder_.tensor(Channel::kRng, "cpu", view_of(rng_state()));
    for (const NamedTensor& state : optimizer_->state())
      recorder_.tensor(Channel::kOptimizer, state.name, view_of(state.tensor));
    for (const NamedTensor& parameter : ddp_->parameters())
      recorder_.tensor(Channel::kWeight, parameter.name, view_of(parameter.tensor));
    for (const NamedTensor& buffer : ddp_->buffers())
      recorder_.tensor(Channel::kBuffer, buffer.name, view_of(buffer.tensor));
  }

  void record_initial_state() {
    recorder_.begin_step(updates_ - 1);
    record_state();
    recorder_.end_step();
  }

  /// A parameter's gradient before the reduction, as far as somebody wants it.
  struct LocalGradient {
    std::optional<trace::Record> seen;
    at::Tensor kept;
  };

  /// What one update was computed from.
  struct Batch {
    std::vector<std::int64_t> ids;
    at::Tensor loss;
    at::Tensor reduced_loss;  ///< its mean over the ranks, where somebody wants it
  };

  const RunSpec& run_;
  const scenario::TrainSpec& spec_;
  launch::Place place_;
  std::filesystem::path out_;
  launch::ProgressWriter progress_;
  Dataset data_;
  record::Recorder recorder_;
  Collective collective_;
  Faults faults_;
  std::unique_ptr<Schedule> schedule_;
  Loader loader_;
  std::vector<Rate> rates_;  ///< by parameter group
  std::shared_ptr<Model> model_;
  std::optional<Ddp> ddp_;
  std::optional<Optimizer> optimizer_;
  std::vector<LocalGradient> local_;
  Batch batch_;
  bool last_micro_batch_ = true;
  std::int64_t updates_ = 0;
  std::int64_t schedule_steps_ = 0;
  std::int64_t epochs_before_ = 0;
  std::int64_t samples_taken_ = 0;
};

}  // namespace

void train(const RunSpec& run, const launch::Place& place, const std::filesystem::path& out) {
  if (place.world_size != run.world_size) {
    throw InputError({.what = "the launcher started another number of ranks than the RunSpec says",
                      .where = "WORLD_SIZE",
                      .expected = std::to_string(run.world_size),
                      .actual = std::to_string(place.world_size)});
  }
  apply_determinism(run.train.determinism);
  Trainer(run, place, out).run();
}

}  // namespace lockstep::train
