#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/recipe/checkpoint_spec.h"
#include "harness/recipe/kinds.h"
#include "harness/recipe/record_spec.h"

namespace lockstep::recipe {

/// A planted mistake, with the keys of its branch in the schema.
struct FaultChoice {
  std::string kind;
  Json options;
};

struct BatchSpec {
  std::optional<std::int64_t> global;    ///< samples in one update, over all ranks
  std::optional<std::int64_t> per_rank;  ///< samples in one update, on each rank
  std::optional<std::int64_t> per_node;  ///< samples in one update, over `ranks_per_node` ranks
  std::int64_t ranks_per_node = 1;
  std::int64_t accumulation = 1;
  bool no_sync = true;                ///< only the last micro-batch of an update is reduced
  bool drop_last = false;             ///< an epoch's last micro-batch, when it is short
  bool updates_at_epoch_end = false;  ///< with fewer micro-batches than `accumulation`

  /// Samples in one update on each rank.
  std::int64_t rank_size(std::int64_t world_size) const {
    if (per_rank) return *per_rank;
    return per_node ? *per_node / ranks_per_node : *global / world_size;
  }
  /// Samples in one update over all ranks.
  std::int64_t global_size(std::int64_t world_size) const { return rank_size(world_size) * world_size; }
  /// Samples in one forward pass of one rank.
  std::int64_t micro_size(std::int64_t world_size) const { return rank_size(world_size) / accumulation; }
  /// Micro-batches that a rank takes in so many updates, where an epoch has `per_epoch`.
  std::int64_t micro_batches(std::int64_t updates, std::int64_t per_epoch) const;
};

struct SeedSpec {
  std::uint64_t base = 0;
  SeedPolicy policy = SeedPolicy::kUnknown;

  bool seeds_before_model() const { return policy != SeedPolicy::kUnseeded && policy != SeedPolicy::kAfterModel; }
};

struct DeterminismSpec {
  Algorithms algorithms = Algorithms::kUnknown;
  bool cudnn_deterministic = true;
  bool cudnn_benchmark = false;
  bool tf32 = false;
  bool flush_denormal = false;
  int threads = 1;
  std::string cpu;

  bool operator==(const DeterminismSpec&) const = default;
};

struct DdpSpec {
  std::string backend;             ///< "gloo" or "nccl"
  std::string reduction = "ring";  ///< how the ranks' tensors become their sum
  bool wrap = true;                ///< false: no DDP at all
  bool average = true;
  Compression compression = Compression::kNone;
  std::optional<double> bucket_mb;  ///< nothing: DDP's default, with its smaller first bucket
  bool find_unused_parameters = false;
  bool gradient_as_bucket_view = false;
  bool broadcast_buffers = true;
};

struct GradientSpec {
  std::optional<double> clip_norm;
  std::optional<double> clip_value;
  std::optional<double> loss_scale;  ///< the first one, where it is dynamic
  struct DynamicScale {
    double growth = 2;
    double backoff = 0.5;
    std::int64_t interval = 2000;  ///< updates
  };
  std::optional<DynamicScale> dynamic_scale = {};
};

struct EvaluationSpec {
  std::int64_t samples = 0;  ///< the last ones of the data
  std::int64_t every = 1;    ///< updates
  std::int64_t batch = 1;
  Shares shares = Shares::kUnknown;
  EvaluationAverage average = EvaluationAverage::kUnknown;  ///< over these
  EvaluationReduce reduce = EvaluationReduce::kUnknown;     ///< to these
};

/// Complete settings of one training.
struct TrainSpec {
  std::string device = "cpu";  ///< that it computes on
  ModelChoice model;
  DataChoice data;
  SamplerChoice sampler;
  BatchSpec batch;
  LossAverage loss_average = LossAverage::kUnknown;
  GradientSpec gradient;
  bool may_be_nan = false;  ///< a training that diverges is no mistake
  bool exact = false;       ///< nothing rounds that is summed; then in float64
  Precision precision = Precision::kUnknown;
  Autocast autocast = Autocast::kNone;
  std::optional<double> ema_decay;
  std::optional<EvaluationSpec> evaluation;
  OptimizerChoice optimizer;
  RateRuleChoice learning_rate_rule;
  ScheduleChoice schedule;
  ScheduleEvery schedule_every = ScheduleEvery::kUnknown;  ///< rank: world size times after each update
  std::int64_t steps = 1;
  SeedSpec seed;
  DeterminismSpec determinism;
  DdpSpec ddp;
  CheckpointSpec checkpoint;
  RecordSpec record;
  std::vector<FaultChoice> faults;

  /// How its samples change each time they are taken.
  Augmentation augmentation() const { return named<Augmentation>(data.options.value("augment", "none")); }

  /// Layers that normalise a batch; kUnknown: none.
  Norm norm() const { return named<Norm>(model.options.value("norm", "")); }

  /// Whether its samples are lines of text, of unequal length.
  bool has_lines() const {
    return data.kind == DataKind::kText && named<TextBy>(data.options.value("by", "block")) == TextBy::kLine;
  }

  /// Whether its model drops activations, and so draws in each forward pass.
  bool drops() const { return model.options.value("dropout", 0.0) > 0; }

  /// Name of the coarsest dtype in which something is computed or sent, where that is not the tensors' own.
  std::optional<std::string> coarsest_arithmetic() const;

  /// Whether the ranks' buffers part in every step by design: layers that normalise each rank's own part of the batch
  /// note its statistics, which DDP overwrites only before the next forward pass.
  bool has_own_buffers() const;

  /// Whether its model has buffers at all.
  bool has_buffers() const;

  /// Whether its optimizer keeps a state of some parameter.
  bool keeps_optimizer_state() const;
};

/// Parameters that an optimizer treats alike.
struct ParameterGroup {
  std::string pattern;  ///< of parameter names; '*' stands for any characters
  Json options;         ///< the optimizer's, with the group's own in their place
};

/// The default group, then those of the scenario, in its order. None of an optimizer that is not known.
std::vector<ParameterGroup> parameter_groups(const OptimizerChoice& optimizer);

/// Index of a parameter's group: the first of the scenario's that matches, else the default.
std::size_t group_of(const std::vector<ParameterGroup>& groups, const std::string& parameter);

/// Factor of the rule on a learning rate after its warm-up.
double rule_factor(const TrainSpec& spec, std::int64_t world_size);

/// Part of the rule's `factor` after `steps` steps of its warm-up. It grows from 1 / factor to 1.
double rule_warmup(const TrainSpec& spec, double factor, std::int64_t steps);

/// Each group's learning rate after the rule has scaled it to the global batch, in float64 as Python would.
std::vector<double> base_learning_rates(const TrainSpec& spec, std::int64_t world_size);

}  // namespace lockstep::recipe
