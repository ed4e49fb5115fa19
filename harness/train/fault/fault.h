#pragma once

#include <cstdint>
#include <filesystem>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <type_traits>
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
  /// True: it set the loss of a micro-batch, its mean or sum, instead of the recipe.
  virtual bool criterion(at::Tensor& /*loss*/, const at::Tensor& /*logits*/, const at::Tensor& /*labels*/,
                         bool /*summed*/) {
    return false;
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
  virtual Clipping clipping(Clipping asked) const { return asked; }
  virtual bool keeps_scale(const std::string& /*parameter*/) const { return false; }
  /// True: it clipped instead of the recipe.
  virtual bool clip(const std::vector<NamedTensor>& /*gradients*/, const recipe::GradientSpec& /*spec*/) {
    return false;
  }
  virtual void learning_rates(std::vector<double>& /*by_group*/) const {}
  virtual bool skips_update() const { return false; }
  /// True: it updated the parameter instead of the rule.
  virtual bool update(const ParameterUpdate& /*one*/, const UpdateRule& /*rule*/) { return false; }
  virtual void updated(const Updated& /*rank*/) {}
  /// How often the averaged weights are updated, before the weights and after them.
  virtual int averagings(int asked, bool /*before_update*/) const { return asked; }
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
  virtual std::int64_t evaluates_samples_before(std::int64_t asked) const { return asked; }
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

/// Dispatches on the kinds of the schema: each has a LOCKSTEP_FAULT in a file of fault/.
std::unique_ptr<Fault> make_fault(const recipe::FaultChoice& choice, const recipe::GradientSpec& gradient);

/// Defines the factory of a kind: its class, and the arguments of its constructor from `options` and `gradient`.
#define LOCKSTEP_FAULT(kind, Type, ...)                                                               \
  std::unique_ptr<Fault> make_##kind##_fault([[maybe_unused]] const Json& options,                    \
                                             [[maybe_unused]] const recipe::GradientSpec& gradient) { \
    return std::make_unique<Type>(__VA_ARGS__);                                                       \
  }

/// Faults of one rank. A hook is called for those that act: in a step as they say, before the first step all.
class Faults {
 public:
  Faults(const recipe::TrainSpec& spec, std::int64_t rank);

  /// Sets the current step.
  void begin(std::int64_t step) { step_ = step; }

  template <typename Hook, typename... Arguments>
  void each(Hook hook, Arguments&&... arguments) const {
    for (const Entry& entry : mine_) {
      if (entry.acts(step_)) std::invoke(hook, *entry.fault, arguments...);
    }
  }

  /// The value that one hook hands to the next, by changing or returning it.
  template <typename Hook, typename Value, typename... Arguments>
  Value passed(Hook hook, Value value, const Arguments&... arguments) const {
    const auto pass = [&](Fault& fault) {
      if constexpr (std::is_void_v<std::invoke_result_t<Hook, Fault&, Value&, const Arguments&...>>) {
        std::invoke(hook, fault, value, arguments...);
      } else {
        value = std::invoke(hook, fault, value, arguments...);
      }
    };
    each(pass);
    return value;
  }

  /// Whether a hook says so; all are asked.
  template <typename Hook, typename... Arguments>
  bool any(Hook hook, const Arguments&... arguments) const {
    bool found = false;
    each([&](Fault& fault) { found = std::invoke(hook, fault, arguments...) || found; });
    return found;
  }

  /// Whether a hook did the work instead; those after it are not called.
  template <typename Hook, typename... Arguments>
  bool instead(Hook hook, Arguments&&... arguments) const {
    bool done = false;
    each([&](Fault& fault) { done = done || std::invoke(hook, fault, arguments...); });
    return done;
  }

  /// *Throws*: as the faults' `require_samples`. `updates`: number of updates already done.
  void require_samples(const Loader& loader, std::int64_t updates, const recipe::BatchSpec& batch) const;

 private:
  struct Entry {
    std::unique_ptr<Fault> fault;
    std::int64_t first = 0;

    bool acts(std::optional<std::int64_t> step) const {
      return !step || *step == first || (*step > first && fault->lasts());
    }
  };

  std::vector<Entry> mine_;
  std::optional<std::int64_t> step_;  ///< nothing before the first one
};

}  // namespace lockstep::train
