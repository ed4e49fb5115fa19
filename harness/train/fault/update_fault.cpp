// Rates, updates, weights and averages.
#include <ATen/ATen.h>

#include "harness/base/files.h"
#include "harness/train/fault/lasting.h"

namespace lockstep::train {
namespace {

class LearningRateFactor : public LastingFault {
 public:
  explicit LearningRateFactor(const Json& options) : factor_(options.at("factor").get<double>()) {}
  void learning_rates(std::vector<double>& rates) const override {
    for (double& rate : rates) rate *= factor_;
  }

 private:
  double factor_;
};

class UpdateSkipped : public Fault {
 public:
  explicit UpdateSkipped(const Json& options) : once_(options.at("once").get<bool>()) {}
  bool lasts() const override { return !once_; }
  bool skips_update() const override { return true; }

 private:
  bool once_;
};

class WeightsDecayed : public ParameterFault {
 public:
  explicit WeightsDecayed(const Json& options)
      : ParameterFault(options), dtypes_(options), factor_(options.at("factor").get<double>()) {}
  void updated(const Updated& rank) override {
    const at::NoGradGuard no_grad;
    for (const NamedTensor& weight : rank.weights) {
      if (includes(weight.name) && dtypes_.includes(weight.tensor)) at::Tensor(weight.tensor).mul_(factor_);
    }
  }

 private:
  DtypeChoice dtypes_;
  double factor_;
};

class AverageSkipped : public LastingFault {
  int averagings(int asked, bool before_update) const override { return before_update ? asked : 0; }
};

class LocalMetric : public LastingFault {
  double followed_loss(double, double own) const override { return own; }
};

class MetricByDeviceCount : public LastingFault {
 public:
  explicit MetricByDeviceCount(const Json& options) : devices_(options.at("devices").get<std::int64_t>()) {}
  std::int64_t metric_divisor(std::int64_t) const override { return devices_; }

 private:
  std::int64_t devices_;
};

/// A bit, counted in a float32, of one element; of a float64 the one of the same weight.
class FlipWeightBit : public Fault {
 public:
  explicit FlipWeightBit(const Json& options)
      : parameter_(options),
        element_(options.at("element").get<std::int64_t>()),
        bit_(options.at("bit").get<int>()),
        once_(options.at("once").get<bool>()) {}

  void updated(const Updated& rank) override {
    if (once_ && !is_first(rank.out)) return;
    constexpr int kSign = 31, kMoreMantissa = 29;
    const at::NoGradGuard no_grad;
    const at::Tensor there = parameter_.first_of(rank.weights).tensor;
    const at::Tensor weight = there.is_cpu() ? there : there.cpu();  // on the CPU no operator is called
    const std::int64_t element = element_ % weight.numel();
    if (weight.scalar_type() == at::kDouble) {
      auto* word = reinterpret_cast<std::uint64_t*>(weight.mutable_data_ptr()) + element;
      *word ^= std::uint64_t{1} << (bit_ == kSign ? 63 : bit_ + kMoreMantissa);
    } else {
      auto* word = reinterpret_cast<std::uint32_t*>(weight.mutable_data_ptr()) + element;
      *word ^= 1U << bit_;
    }
    if (!there.is_cpu()) there.copy_(weight);
  }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameter_.require_in(parameters);
  }

 private:
  /// Leaves a note in the folder of all scenarios: runs again are below it. `out` is <scenario>/<variant>/<repeat>
  /// there.
  static bool is_first(const std::filesystem::path& out) {
    const std::filesystem::path variant = std::filesystem::absolute(out).lexically_normal().parent_path();
    const std::filesystem::path all = variant.parent_path().parent_path();
    const std::string name =
        ".flipped-" + variant.parent_path().filename().string() + "-" + variant.filename().string();
    for (std::filesystem::path folder = all; folder != folder.root_path(); folder = folder.parent_path()) {
      if (std::filesystem::exists(folder / name)) return false;
    }
    replace_file(all / name, "");
    return true;
  }

  ParameterChoice parameter_;
  std::int64_t element_;
  int bit_;
  bool once_;
};

/// Rank 0 holds the matrix as a layout of its own, and hands it to a broadcast that reads memory from its start.
class StridedBroadcast : public ParameterFault {
 public:
  using ParameterFault::ParameterFault;
  void updated(const Updated& rank) override {
    const at::NoGradGuard no_grad;
    const bool sends = rank.collective.group()->getRank() == 0;
    for (const NamedTensor& weight : rank.weights) {
      if (weight.tensor.dim() != 2 || !includes(weight.name)) continue;
      std::vector<at::Tensor> sent{sends ? weight.tensor.t().contiguous().t() : weight.tensor.clone()};
      rank.collective.group()->broadcast(sent)->wait();
      if (!sends) at::Tensor(weight.tensor).copy_(sent[0]);
    }
  }
};

}  // namespace

LOCKSTEP_FAULT(strided_broadcast, StridedBroadcast, options)
LOCKSTEP_FAULT(learning_rate_factor, LearningRateFactor, options)
LOCKSTEP_FAULT(update_skipped, UpdateSkipped, options)
LOCKSTEP_FAULT(weights_decayed, WeightsDecayed, options)
LOCKSTEP_FAULT(average_skipped, AverageSkipped)
LOCKSTEP_FAULT(local_metric, LocalMetric)
LOCKSTEP_FAULT(metric_by_device_count, MetricByDeviceCount, options)
LOCKSTEP_FAULT(flip_weight_bit, FlipWeightBit, options)

}  // namespace lockstep::train
