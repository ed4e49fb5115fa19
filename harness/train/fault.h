#pragma once

#include <cstdint>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include "harness/launch/progress.h"
#include "harness/scenario/train_spec.h"
#include "harness/train/collective.h"
#include "harness/train/loader.h"
#include "harness/train/optimizer.h"

namespace lockstep::train {

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
  virtual void determinism(scenario::DeterminismSpec& /*spec*/) {}
  virtual void sampler(scenario::Choice& /*sampler*/, std::int64_t /*rank*/) {}
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
  virtual at::Tensor loss(at::Tensor loss) { return loss; }
  virtual bool keeps_last_gradients() const { return false; }
  /// Local gradient after the backward pass, before the reduction.
  virtual void own_gradient(const at::Tensor& /*gradient*/) {}
  virtual bool keeps_own_gradient(const std::string& /*parameter*/) const { return false; }
  /// True: `reduce` replaces DDP's reduction.
  virtual bool reduces_by_hand() const { return false; }
  virtual void reduce(const std::vector<NamedTensor>& /*gradients*/, Collective& /*collective*/) {}
  virtual void reduced(const std::string& /*parameter*/, at::Tensor& /*gradient*/) {}
  virtual Clipping clipping() const { return Clipping::kAfterUnscaling; }
  virtual double learning_rate(double rate) { return rate; }
  virtual bool updates() const { return true; }
  virtual void updated(const Updated& /*rank*/) {}
  virtual bool averages() const { return true; }
  /// Divisor of a metric's sum over the ranks.
  virtual std::int64_t metric_divisor(std::int64_t ranks) const { return ranks; }
  /// Loss that a schedule follows.
  virtual double followed_loss(double reduced, double /*own*/) const { return reduced; }
  /// Called when the folder holds a checkpoint that `last_checkpoint` is about to name.
  virtual void saved(const std::filesystem::path& /*folder*/) {}

  /// *Throws*: InputError if the fault names a parameter that the model lacks.
  virtual void require_parameters(const std::vector<NamedTensor>& /*parameters*/) const {}
  /// *Throws*: InputError if the fault names a position outside a micro-batch of `size` samples.
  virtual void require_samples(std::size_t /*size*/) const {}
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_fault` in a file of fault/.
std::unique_ptr<Fault> make_fault(const scenario::Choice& choice, const scenario::GradientSpec& gradient);

/// Faults of one rank. Each hook calls those that act in the step.
class Faults {
 public:
  Faults(const scenario::TrainSpec& spec, std::int64_t rank);

  scenario::DeterminismSpec determinism(scenario::DeterminismSpec spec) const;
  scenario::Choice sampler(scenario::Choice choice) const;
  std::int64_t ranks_that_saved(std::int64_t saved, std::int64_t now) const;
  bool keeps_ended_iterator() const;
  void restored(const Restored& state) const;

  /// Sets the current step.
  void begin(std::int64_t step) { step_ = step; }

  bool ends() const;
  void arrive(launch::Phase phase, Collective& collective) const;
  void samples(std::vector<std::int64_t>& ids) const;
  at::Tensor loss(at::Tensor loss) const;
  bool keeps_last_gradients() const;
  void own_gradient(const at::Tensor& gradient) const;
  bool keeps_own_gradient(const std::string& parameter) const;
  bool reduces_by_hand() const;
  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) const;
  void reduced(const std::string& parameter, at::Tensor& gradient) const;
  Fault::Clipping clipping() const;
  double learning_rate(double rate) const;
  bool updates() const;
  void updated(const Updated& rank) const;
  bool averages() const;
  std::int64_t metric_divisor(std::int64_t ranks) const;
  double followed_loss(double reduced, double own) const;
  void saved(const std::filesystem::path& folder) const;

  void require_parameters(const std::vector<NamedTensor>& parameters) const;
  /// `updates`: number of updates already done.
  void require_samples(const Loader& loader, std::int64_t updates, const scenario::BatchSpec& batch) const;

 private:
  struct Entry {
    std::unique_ptr<Fault> fault;
    std::int64_t first = 0;

    bool acts(std::int64_t step) const { return step == first || (step > first && fault->lasts()); }
  };
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
