#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::audit {

/// The recipe with other values in the places that an audit changes.
struct Setting {
  std::int64_t world_size = 1;
  std::int64_t rank_batch = 1;  ///< samples in one update of each rank
  std::int64_t accumulation = 1;
  double rate = 1;              ///< factor on every learning rate
  double decay = 1;             ///< factor on every weight decay
  double threshold = 1;         ///< factor on clipping thresholds
  bool sum = false;             ///< gradients are summed over the ranks, not averaged
  bool every_rank_all = false;  ///< no sampler: every rank takes every sample, from generators of one seed
  bool split = false;           ///< the batch is written as that of all ranks, which divide it
  std::optional<double> plain;  ///< plain SGD at this rate, in float64, without schedule, decay and clipping
  std::optional<std::int64_t> steps;
  Json also = Json::object();  ///< further changes of "train"
};

/// Property of a recipe that makes W ranks compute something else than one rank with the same batch.
struct Obstacle {
  std::string why;
  std::string remedy;
  Json change;  ///< of "train": takes it away; null: nothing does
};

/// How an audit changes a recipe: our worker's, or that of a program by its options.
class Recipe {
 public:
  virtual ~Recipe() = default;

  const scenario::Variant& variant() const { return variant_; }
  const recipe::TrainSpec& train() const { return variant_.train; }

  /// The recipe as its author wrote it, at another number of ranks.
  virtual Json as_written(std::int64_t world_size) const = 0;

  /// Patch of the variant. Nothing where this recipe has no place for the change.
  virtual std::optional<Json> patch(const Setting& setting) const = 0;

  /// Samples in one update over all ranks, of the recipe as written; nothing if unknown.
  std::optional<std::int64_t> global_batch(std::int64_t world_size) const;

  /// Reasons why W ranks are not one rank with their batch.
  virtual std::vector<Obstacle> obstacles_of_ranks() const { return {}; }

  /// Whether an audit can change how many micro-batches an update has.
  virtual bool has_place_for_accumulation() const { return true; }

  /// Reasons why micro-batches are not one batch.
  virtual std::vector<Obstacle> obstacles_of_accumulation() const { return {}; }

  /// Whether samples have unequally many targets: lines of text, whose padding has no label.
  bool has_unequal_targets() const { return variant_.knows("data") && train().has_lines(); }

  bool is_ours() const { return !variant_.program.has_value(); }

 protected:
  explicit Recipe(const scenario::Variant& variant) : variant_(variant) {}

 private:
  const scenario::Variant& variant_;
};

/// Options of a program that an audit changes: {"rank_batch": "--batch-size", "rate": "--lr"}.
using ProgramOptions = std::map<std::string, std::string>;

/// `steps`: updates of each run. *Lifetime*: of `variant`.
std::unique_ptr<Recipe> worker_recipe(const scenario::Variant& variant, std::int64_t steps);

/// The same for a program. *Throws*: InputError for an option that the scenario gives no value.
std::unique_ptr<Recipe> program_recipe(const scenario::Variant& variant, const ProgramOptions& options,
                                       std::int64_t steps, const std::string& origin);

/// Reasons why W ranks of a program are not one rank with their batch, as far as its recorder saw them.
std::vector<Obstacle> obstacles_seen(const trace::RunTrace& run, const scenario::Variant& variant);

/// Whether the optimizer divides a gradient by its own size, so that a constant factor cancels.
bool is_scale_free(const recipe::TrainSpec& train);

/// Words for a list of reasons: "a, and b".
std::string reasons(const std::vector<Obstacle>& obstacles);

/// How the ways take them away.
std::string remedies(const std::vector<Obstacle>& obstacles);

}  // namespace lockstep::audit
