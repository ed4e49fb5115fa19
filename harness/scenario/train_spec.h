#pragma once

#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/scenario/checkpoint_spec.h"
#include "harness/scenario/record_spec.h"

namespace lockstep::scenario {

/// A choice out of a closed list, with the keys of its branch in the schema; all defaults are filled in.
struct Choice {
  std::string kind;
  Json options;
};

/// An option of the data that names a file or folder.
struct DataFile {
  std::string option;  ///< "path", "images"
  std::string name;    ///< among the files of a RunSpec: "data", "data.images"
  bool is_folder = false;
};

/// Those of a kind of data, as the schema marks them, in alphabetical order.
std::vector<DataFile> files_of(const Choice& data);

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
  std::string policy;

  bool seeds_before_model() const { return policy != "unseeded" && policy != "after_model"; }
};

struct DeterminismSpec {
  std::string algorithms;
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
  std::string compression;          ///< "none", "fp16", "bf16" or "fp64"
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
  std::string shares;   ///< "padded", "trimmed", "leftovers" or "all"
  std::string average;  ///< over "samples" or "ranks"
  std::string reduce;   ///< to "all", "root" or "none"
};

/// Complete settings of one training.
struct TrainSpec {
  std::string device = "cpu";  ///< that it computes on
  Choice model;
  Choice data;
  Choice sampler;
  BatchSpec batch;
  std::string loss_average;  ///< "rank" or "world"
  GradientSpec gradient;
  bool may_be_nan = false;  ///< a training that diverges is no mistake
  bool exact = false;       ///< nothing rounds that is summed; then in float64
  std::string precision;    ///< "float32" or "float64"
  std::string autocast;     ///< "none", "bf16" or "fp16"
  std::optional<double> ema_decay;
  std::optional<EvaluationSpec> evaluation;
  Choice optimizer;
  Choice learning_rate_rule;
  Choice schedule;
  std::string schedule_every;  ///< "update", "epoch", or "rank": world size times after each update
  std::int64_t steps = 1;
  SeedSpec seed;
  DeterminismSpec determinism;
  DdpSpec ddp;
  CheckpointSpec checkpoint;
  RecordSpec record;
  std::vector<Choice> faults;

  /// How its samples change each time they are taken: "none", "rank" or "sample".
  std::string augmentation() const { return data.options.value("augment", "none"); }

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

/// Reads a completed "batch" object.
BatchSpec batch_spec_from(const Json& completed);

/// Reads a completed "train" object.
TrainSpec train_spec_from(const Json& completed);

/// Parameters that an optimizer treats alike.
struct ParameterGroup {
  std::string pattern;  ///< of parameter names; '*' stands for any characters
  Json options;         ///< the optimizer's, with the group's own in their place
};

/// The default group, then those of the scenario, in its order. None of an optimizer that is not known.
std::vector<ParameterGroup> parameter_groups(const Choice& optimizer);

/// Index of a parameter's group: the first of the scenario's that matches, else the default.
std::size_t group_of(const std::vector<ParameterGroup>& groups, const std::string& parameter);

/// Factor of the rule on a learning rate after its warm-up.
double rule_factor(const TrainSpec& spec, std::int64_t world_size);

/// Part of the rule's `factor` after `steps` steps of its warm-up. It grows from 1 / factor to 1.
double rule_warmup(const TrainSpec& spec, double factor, std::int64_t steps);

/// Each group's learning rate after the rule has scaled it to the global batch, in float64 as Python would.
std::vector<double> base_learning_rates(const TrainSpec& spec, std::int64_t world_size);

/// Checks what the schema cannot. *Throws*: InputError that names the dotted path and `origin`.
void validate(const TrainSpec& spec, std::int64_t world_size, const std::string& origin);

/// The same of a schedule alone. `path`: of the object that holds it, "train" or "promises".
void validate_schedule(const TrainSpec& spec, const std::string& origin, const std::string& path);

}  // namespace lockstep::scenario
