#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/launch/progress.h"
#include "harness/recipe/train_spec.h"
#include "harness/train/collective/collective.h"
#include "harness/train/data/data.h"
#include "harness/train/loop/loader.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

class Model;

/// Restored state that a fault may change.
struct Restored {
  std::int64_t& updates;
  Optimizer& optimizer;
};

/// State of a rank after an update.
struct Updated {
  const std::vector<NamedTensor>& weights;
  Collective& collective;
  const std::filesystem::path& out;  ///< folder of the run, shared by all ranks
};

/// A fault injected into a rank's training. Each hook belongs to one place of the training loop. By default it does
/// nothing; kinds of faults override it. It is called only in steps in which the fault acts.
class Fault {
 public:
  /// Order of clipping and unscaling, if the recipe clips.
  enum class Clipping { kAfterUnscaling, kBeforeUnscaling, kNever };

  virtual ~Fault() = default;

  /// Whether it acts in all steps from option "step" on; by default only in that one.
  virtual bool lasts() const { return false; }

  // Before the first step.
  virtual void determinism(recipe::DeterminismSpec& /*spec*/) {}
  virtual void sampler(recipe::SamplerChoice& /*sampler*/, std::int64_t /*rank*/) {}
  /// Rank whose share of the data this one takes.
  virtual std::int64_t rank_of_share(std::int64_t rank) const { return rank; }
  virtual bool drops_last(bool asked) const { return asked; }
  virtual void ddp(recipe::DdpSpec& /*spec*/) const {}
  virtual double average_decay(double asked) const { return asked; }
  /// Weights and buffers of a checkpoint, before the model takes them.
  virtual void loaded(std::vector<NamedTensor>& /*weights*/) const {}
  /// World size that a saved position is assumed to come from.
  virtual std::int64_t ranks_that_saved(std::int64_t saved, std::int64_t /*now*/) const { return saved; }
  /// Whether the loader continues with the exhausted iterator of an ended epoch.
  virtual bool keeps_ended_iterator() const { return false; }
  virtual void restored(const Restored& /*state*/) {}

  // In the order of a step.
  /// Whether the rank leaves the loop before this step.
  virtual bool ends() const { return false; }
  virtual void arrive(launch::Phase /*phase*/, Collective& /*collective*/) {}
  virtual void samples(std::vector<std::int64_t>& /*ids*/) {}
  /// Content of these samples.
  virtual void content(const std::vector<std::int64_t>& /*ids*/, Samples& /*batch*/) {}
  /// Before a micro-batch's forward pass, and after its backward pass.
  virtual void passing(const std::vector<NamedTensor>& /*buffers*/) {}
  virtual void passed(const std::vector<NamedTensor>& /*buffers*/) {}
  /// Loss of a micro-batch, its mean or sum; undefined: that of the recipe.
  virtual at::Tensor criterion(const at::Tensor& /*logits*/, const at::Tensor& /*labels*/, bool /*summed*/) {
    return {};
  }
  /// Divisor of each micro-batch's loss.
  virtual std::int64_t accumulation(std::int64_t asked) const { return asked; }
  virtual at::Tensor loss(at::Tensor loss) { return loss; }
  virtual bool keeps_last_gradient(const std::string& /*parameter*/) const { return false; }
  virtual bool clears_between_micro_batches() const { return false; }
  /// Local gradient after the backward pass, before it is recorded.
  virtual void own_gradient(const std::string& /*parameter*/, const at::Tensor& /*gradient*/) {}
  /// The same after it is recorded, before the reduction.
  virtual void sent_gradient(const std::string& /*parameter*/, const at::Tensor& /*gradient*/) {}
  virtual bool keeps_own_gradient(const std::string& /*parameter*/) const { return false; }
  /// True: `reduce` replaces DDP's reduction.
  virtual bool reduces_by_hand() const { return false; }
  virtual void reduce(const std::vector<NamedTensor>& /*gradients*/, Collective& /*collective*/) {}
  virtual void reduced(const std::string& /*parameter*/, at::Tensor& /*gradient*/) {}
  virtual Clipping clipping() const { return Clipping::kAfterUnscaling; }
  virtual bool unscales(const std::string& /*parameter*/) const { return true; }
  /// True: it clipped instead of the recipe.
  virtual bool clip(const std::vector<NamedTensor>& /*gradients*/, const recipe::GradientSpec& /*spec*/) {
    return false;
  }
  virtual void learning_rates(std::vector<double>& /*by_group*/) const {}
  virtual bool updates() const { return true; }
  /// True: it updated the parameter instead of the rule.
  virtual bool update(const ParameterUpdate& /*one*/, const UpdateRule& /*rule*/) { return false; }
  virtual void updated(const Updated& /*rank*/) {}
  /// How often the averaged weights are updated, before the weights and after them.
  virtual int averagings(bool before_update) const { return before_update ? 0 : 1; }
  virtual void averaged(const std::vector<NamedTensor>& /*averages*/) {}
  /// Loss that is summed over the ranks, to be reported; `last`: of the last micro-batch alone.
  virtual at::Tensor reported_loss(const at::Tensor& all, const at::Tensor& /*last*/, const Collective& /*ranks*/) {
    return all;
  }
  /// Divisor of a metric's sum over the ranks.
  virtual std::int64_t metric_divisor(std::int64_t ranks) const { return ranks; }
  /// Loss that a schedule follows.
  virtual double followed_loss(double reduced, double /*own*/) const { return reduced; }
  virtual bool evaluates_in_training_mode() const { return false; }
  /// Samples that an evaluation takes instead of the held-out ones, as a distance of their ids.
  virtual std::int64_t evaluates_samples_before() const { return 0; }
  virtual void evaluated(Model& /*model*/, const std::vector<NamedTensor>& /*weights*/,
                         const std::vector<NamedTensor>& /*averages*/) {}
  /// Steps that the schedule takes.
  virtual std::int64_t schedule_steps(std::int64_t asked, std::int64_t /*ranks*/) const { return asked; }
  /// State of the optimizer that a checkpoint is about to hold.
  virtual void saving(std::vector<NamedTensor>& /*optimizer*/) const {}
  /// Called when the folder holds a checkpoint that `last_checkpoint` is about to name.
  virtual void saved(const std::filesystem::path& /*folder*/) {}

  /// *Throws*: InputError if the fault names a parameter that the model lacks.
  virtual void require_parameters(const std::vector<NamedTensor>& /*parameters*/) const {}
  /// *Throws*: InputError if the fault names a position outside a micro-batch of `size` samples.
  virtual void require_samples(std::size_t /*size*/) const {}
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_fault` in a file of fault/.
std::unique_ptr<Fault> make_fault(const recipe::FaultChoice& choice, const recipe::GradientSpec& gradient);

/// Faults of one rank. Each hook calls those that act in the step.
class Faults {
 public:
  Faults(const recipe::TrainSpec& spec, std::int64_t rank);

  recipe::DeterminismSpec determinism(recipe::DeterminismSpec spec) const;
  recipe::SamplerChoice sampler(recipe::SamplerChoice choice) const;
  std::int64_t rank_of_share() const;
  bool drops_last(bool asked) const;
  recipe::DdpSpec ddp(recipe::DdpSpec spec) const;
  double average_decay(double asked) const;
  std::vector<NamedTensor> loaded(std::vector<NamedTensor> weights) const;
  std::int64_t ranks_that_saved(std::int64_t saved, std::int64_t now) const;
  bool keeps_ended_iterator() const;
  void restored(const Restored& state) const;

  /// Sets the current step.
  void begin(std::int64_t step) { step_ = step; }

  bool ends() const;
  void arrive(launch::Phase phase, Collective& collective) const;
  void samples(std::vector<std::int64_t>& ids) const;
  void content(const std::vector<std::int64_t>& ids, Samples& batch) const;
  void passing(const std::vector<NamedTensor>& buffers) const;
  void passed(const std::vector<NamedTensor>& buffers) const;
  at::Tensor criterion(const at::Tensor& logits, const at::Tensor& labels, bool summed) const;
  std::int64_t accumulation(std::int64_t asked) const;
  at::Tensor loss(at::Tensor loss) const;
  bool keeps_last_gradient(const std::string& parameter) const;
  bool clears_between_micro_batches() const;
  void own_gradient(const std::string& parameter, const at::Tensor& gradient) const;
  void sent_gradient(const std::string& parameter, const at::Tensor& gradient) const;
  bool keeps_own_gradient(const std::string& parameter) const;
  bool reduces_by_hand() const;
  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) const;
  void reduced(const std::string& parameter, at::Tensor& gradient) const;
  Fault::Clipping clipping() const;
  bool unscales(const std::string& parameter) const;
  bool clip(const std::vector<NamedTensor>& gradients, const recipe::GradientSpec& spec) const;
  std::vector<double> learning_rates(std::vector<double> by_group) const;
  bool updates() const;
  bool update(const ParameterUpdate& one, const UpdateRule& rule) const;
  void updated(const Updated& rank) const;
  int averagings(bool before_update) const;
  void averaged(const std::vector<NamedTensor>& averages) const;
  at::Tensor reported_loss(const at::Tensor& all, const at::Tensor& last, const Collective& ranks) const;
  std::int64_t metric_divisor(std::int64_t ranks) const;
  double followed_loss(double reduced, double own) const;
  bool evaluates_in_training_mode() const;
  std::int64_t evaluates_samples_before() const;
  void evaluated(Model& model, const std::vector<NamedTensor>& weights, const std::vector<NamedTensor>& averages) const;
  std::int64_t schedule_steps(std::int64_t asked, std::int64_t ranks) const;
  std::vector<NamedTensor> saving(std::vector<NamedTensor> optimizer) const;
  void saved(const std::filesystem::path& folder) const;

  void require_parameters(const std::vector<NamedTensor>& parameters) const;
  /// `updates`: number of updates already done.
  void require_samples(const Loader& loader, std::int64_t updates, const recipe::BatchSpec& batch) const;

 private:
  struct Entry {
    std::unique_ptr<Fault> fault;
    std::int64_t first = 0;

    bool acts(std::int64_t step) const { return step == first || (step > first && fault->lasts()); }
  };
  template <typename Condition>
  bool any(Condition condition) const {
    bool found = false;
    each([&](Fault& fault) { found = condition(fault) || found; });
    return found;
  }
  template <typename Action>
  void each(Action action) const {
    for (const Entry& entry : mine_) {
      if (entry.acts(step_)) action(*entry.fault);
    }
  }

  std::vector<Entry> mine_;
  std::int64_t rank_ = 0;
  std::int64_t step_ = 0;
};

}  // namespace lockstep::train
