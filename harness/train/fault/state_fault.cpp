// State beside weights and optimizer: averages, buffers, the model's mode, generators, rates, and checkpoints of them.
#include <algorithm>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/fault/lasting.h"
#include "harness/train/model/model.h"

namespace lockstep::train {
namespace {

class AverageWrong : public LastingFault {
 public:
  using Mistake = recipe::AverageWrongMistake;

  explicit AverageWrong(const Json& options) : mistake_(recipe::kind_at<Mistake>(options, "mistake")) {}

  double average_decay(double decay) const override { return mistake_ == Mistake::kDecaySwapped ? 1 - decay : decay; }
  int averagings(int asked, bool before_update) const override {
    if (mistake_ == Mistake::kBeforeUpdate) return before_update ? 1 : 0;
    return mistake_ == Mistake::kTwice && !before_update ? 2 : asked;
  }
  void averaged(const std::vector<NamedTensor>& averages) override {
    if (mistake_ != Mistake::kRounded) return;
    for (const NamedTensor& average : averages) at::Tensor(average.tensor).copy_(average.tensor.to(at::kBFloat16));
  }

 private:
  Mistake mistake_;
};

/// Running means and variances move by another share than the layer's momentum says.
class RunningMeansWrong : public LastingFault {
 public:
  explicit RunningMeansWrong(const Json& options) : factor_(options.at("factor").get<double>()) {}

  void passing(const std::vector<NamedTensor>& buffers) override {
    before_.clear();
    for (const NamedTensor& buffer : buffers) before_.push_back(buffer.tensor.clone());
  }
  void passed(const std::vector<NamedTensor>& buffers) override {
    const at::NoGradGuard no_grad;
    for (std::size_t i = 0; i < buffers.size(); ++i) {
      if (!buffers[i].tensor.is_floating_point()) continue;
      at::Tensor(buffers[i].tensor).copy_(before_[i] + (buffers[i].tensor - before_[i]) * factor_);
    }
  }

 private:
  double factor_;
  std::vector<at::Tensor> before_;
};

class EvaluationWrong : public LastingFault {
 public:
  using Mistake = recipe::EvaluationWrongMistake;

  explicit EvaluationWrong(const Json& options) : mistake_(recipe::kind_at<Mistake>(options, "mistake")) {}

  bool evaluates_in_training_mode() const override { return mistake_ == Mistake::kInTrainingMode; }
  std::int64_t evaluates_samples_before(std::int64_t asked) const override {
    return mistake_ == Mistake::kOtherSamples ? asked + 1 : asked;
  }
  void evaluated(Model& model, const std::vector<NamedTensor>& weights,
                 const std::vector<NamedTensor>& averages) override {
    const at::NoGradGuard no_grad;
    if (mistake_ == Mistake::kLeftInEvaluation) model.eval();
    if (mistake_ != Mistake::kAveragesLeft) return;
    for (std::size_t i = 0; i < averages.size(); ++i) at::Tensor(weights[i].tensor).copy_(averages[i].tensor);
  }

 private:
  Mistake mistake_;
};

class Reseeded : public LastingFault {
 public:
  explicit Reseeded(const Json& options) : seed_(options.at("seed").get<std::uint64_t>()) {}
  void arrive(launch::Phase phase, Collective&) override {
    if (phase == launch::Phase::kForward) at::manual_seed(seed_);
  }

 private:
  std::uint64_t seed_;
};

class ScheduleWrong : public LastingFault {
 public:
  using Steps = recipe::ScheduleWrongSteps;

  explicit ScheduleWrong(const Json& options) : steps_(recipe::kind_at<Steps>(options, "steps")) {}
  std::int64_t schedule_steps(std::int64_t steps, std::int64_t ranks) const override {
    return steps_ == Steps::kTwice ? 2 * steps : steps_ == Steps::kByRank ? ranks * steps : 0;
  }

 private:
  Steps steps_;
};

class GroupRatesSwapped : public LastingFault {
  void learning_rates(std::vector<double>& rates) const override { std::reverse(rates.begin(), rates.end()); }
};

/// DDP is built otherwise than the recipe says.
class DdpWrong : public LastingFault {
 public:
  explicit DdpWrong(const Json& options) : options_(options) {}
  void ddp(recipe::DdpSpec& spec) const override {
    spec.wrap = options_.value("wrap", spec.wrap);
    spec.average = options_.value("average", spec.average);
    spec.broadcast_buffers = options_.value("broadcast_buffers", spec.broadcast_buffers);
    if (options_.contains("compression"))
      spec.compression = recipe::kind_at<recipe::Compression>(options_, "compression");
  }

 private:
  Json options_;
};

/// Tensors of a checkpoint on their way into the model.
class LoadedWeightsWrong : public LastingFault {
 public:
  using Mistake = recipe::LoadedWeightsWrongMistake;

  explicit LoadedWeightsWrong(const Json& options)
      : mistake_(recipe::kind_at<Mistake>(options, "mistake")), parameters_(options) {}

  void loaded(std::vector<NamedTensor>& weights) const override {
    if (mistake_ == Mistake::kLost) std::erase_if(weights, [&](const NamedTensor& one) { return includes(one); });
    if (mistake_ == Mistake::kCast) {
      for (NamedTensor& one : weights) {
        if (includes(one) && one.tensor.is_floating_point()) one.tensor = one.tensor.to(at::kBFloat16).to(at::kFloat);
      }
    }
    if (mistake_ == Mistake::kExchanged) exchange(weights);
  }

 private:
  bool includes(const NamedTensor& one) const { return parameters_.include(one.name); }

  /// Two chosen tensors of one shape take each other's values.
  void exchange(std::vector<NamedTensor>& weights) const {
    for (auto first = weights.begin(); first != weights.end(); ++first) {
      const auto second = std::find_if(first + 1, weights.end(), [&](const NamedTensor& other) {
        return includes(*first) && includes(other) && other.tensor.sizes() == first->tensor.sizes();
      });
      if (second != weights.end()) return std::swap(first->tensor, second->tensor);
    }
    throw InputError(
        {.what = "a fault exchanges two loaded tensors, and no two of one shape are chosen", .where = "train.faults"});
  }

  Mistake mistake_;
  ParameterChoice parameters_;
};

/// State of the optimizer: of another parameter when it is loaded, or of the update before when it is saved.
class OptimizerStateWrong : public LastingFault {
 public:
  using Mistake = recipe::OptimizerStateWrongMistake;

  explicit OptimizerStateWrong(const Json& options)
      : exchanged_(recipe::kind_at<Mistake>(options, "mistake") == Mistake::kExchanged) {}

  void restored(const Restored& rank) override {
    if (!exchanged_) return;
    const std::vector<NamedTensor> all = rank.optimizer.state();
    for (std::size_t i = 0; i < all.size(); ++i) {
      for (std::size_t j = i + 1; j < all.size(); ++j) {
        const std::string name = all[i].name.substr(all[i].name.rfind('.'));
        if (all[i].tensor.dim() == 0 || all[i].tensor.sizes() != all[j].tensor.sizes() || !all[j].name.ends_with(name))
          continue;
        const at::Tensor kept = all[i].tensor.clone();
        at::Tensor(all[i].tensor).copy_(all[j].tensor);
        at::Tensor(all[j].tensor).copy_(kept);
        return;
      }
    }
    throw InputError(
        {.what = "a fault exchanges two parameters' states, and no two have one shape", .where = "train.faults"});
  }

  bool update(const ParameterUpdate& one, const UpdateRule&) override {
    if (exchanged_) return false;
    for (const NamedTensor& state : one.state.all()) {
      const std::string name = one.name + "." + state.name;
      std::erase_if(before_, [&](const NamedTensor& old) { return old.name == name; });
      before_.push_back({name, state.tensor.clone()});
    }
    return false;
  }
  void saving(std::vector<NamedTensor>& states) const override {
    for (NamedTensor& state : states) {
      for (const NamedTensor& old : before_) {
        if (old.name == state.name && state.tensor.dim() > 0) state.tensor = old.tensor;
      }
    }
  }

 private:
  bool exchanged_;
  std::vector<NamedTensor> before_;
};

}  // namespace

LOCKSTEP_FAULT(average_wrong, AverageWrong, options)
LOCKSTEP_FAULT(running_means_wrong, RunningMeansWrong, options)
LOCKSTEP_FAULT(evaluation_wrong, EvaluationWrong, options)
LOCKSTEP_FAULT(reseeded, Reseeded, options)
LOCKSTEP_FAULT(schedule_wrong, ScheduleWrong, options)
LOCKSTEP_FAULT(group_rates_swapped, GroupRatesSwapped)
LOCKSTEP_FAULT(ddp_wrong, DdpWrong, options)
LOCKSTEP_FAULT(loaded_weights_wrong, LoadedWeightsWrong, options)
LOCKSTEP_FAULT(optimizer_state_wrong, OptimizerStateWrong, options)

}  // namespace lockstep::train
