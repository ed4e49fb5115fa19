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

/// What is restored, where a fault may lay hands on it.
struct Restored {
  std::int64_t& updates;
  Optimizer& optimizer;
};

/// A rank after an update.
struct Updated {
  const std::vector<NamedTensor>& weights;
  Collective& collective;
  const std::filesystem::path& out;  ///< folder of the run, the same for all ranks
};

/// A mistake planted into a rank's training. Each hook stands at one place of the trainer's loop and does nothing
/// unless a kind of fault overrides it; it is called in the steps in which the fault acts.
class Fault {
 public:
  /// When clipping happens, if it is asked for.
  enum class Clipping { kAfterUnscaling, kBeforeUnscaling, kNever };

  virtual ~Fault() = default;

  /// The last step in which it acts, begun at option "step": by default it acts once.
  virtual bool lasts() const { return false; }

  // Before the first step.
  virtual void determinism(scenario::DeterminismSpec& /*spec*/) {}
  virtual void sampler(scenario::Choice& /*sampler*/, std::int64_t /*rank*/) {}
  /// Ranks that a saved position is taken to be of.
  virtual std::int64_t ranks_that_saved(std::int64_t saved, std::int64_t /*now*/) const { return saved; }
  /// Whether the loader goes on with the iterator of an epoch that had ended, and finds nothing in it.
  virtual bool keeps_ended_iterator() const { return false; }
  virtual void restored(const Restored& /*state*/) {}

  // In the order of a step.
  /// Whether the rank leaves the loop ahead of this step.
  virtual bool ends() const { return false; }
  virtual void arrive(launch::Phase /*phase*/, Collective& /*collective*/) {}
  virtual void samples(std::vector<std::int64_t>& /*ids*/) {}
  virtual at::Tensor loss(at::Tensor loss) { return loss; }
  virtual bool keeps_last_gradients() const { return false; }
  /// Before the reduction, as backward leaves it.
  virtual void own_gradient(const at::Tensor& /*gradient*/) {}
  virtual bool keeps_own_gradient(const std::string& /*parameter*/) const { return false; }
  /// True: DDP reduces nothing, `reduce` does.
  virtual bool reduces_by_hand() const { return false; }
  virtual void reduce(const std::vector<NamedTensor>& /*gradients*/, Collective& /*collective*/) {}
  virtual void reduced(const std::string& /*parameter*/, at::Tensor& /*gradient*/) {}
  virtual Clipping clipping() const { return Clipping::kAfterUnscaling; }
  virtual double learning_rate(double rate) { return rate; }
  virtual bool updates() const { return true; }
  virtual void updated(const Updated& /*rank*/) {}
  virtual bool averages() const { return true; }
  /// What a metric's sum over the ranks is divided by.
  virtual std::int64_t metric_divisor(std::int64_t ranks) const { return ranks; }
  /// The loss that a schedule follows.
  virtual double followed_loss(double reduced, double /*own*/) const { return reduced; }
  /// A checkpoint of the update lies in the folder, and is about to be pointed to.
  virtual void saved(const std::filesystem::path& /*folder*/) {}

  /// *Throws*: InputError when the fault names a parameter that the model lacks.
  virtual void require_parameters(const std::vector<NamedTensor>& /*parameters*/) const {}
  /// *Throws*: InputError when it names a place outside a micro-batch of so many samples.
  virtual void require_samples(std::size_t /*size*/) const {}
};

/// Dispatches on the kinds of the schema: each is `make_<kind>_fault` in a file of fault/.
std::unique_ptr<Fault> make_fault(const scenario::Choice& choice, const scenario::GradientSpec& gradient);

/// The faults of one rank. Each hook goes over those that act in the step.
class Faults {
 public:
  Faults(const scenario::TrainSpec& spec, std::int64_t rank);

  scenario::DeterminismSpec determinism(scenario::DeterminismSpec spec) const;
  scenario::Choice sampler(scenario::Choice choice) const;
  std::int64_t ranks_that_saved(std::int64_t saved, std::int64_t now) const;
  bool keeps_ended_iterator() const;
  void restored(const Restored& state) const;

  /// From here on it is this step.
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
  /// `updates`: done already.
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
