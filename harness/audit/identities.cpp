#include "harness/audit/identities.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <string>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/recipe/optimizer_rule.h"
#include "harness/recipe/sampler_rule.h"

namespace lockstep::audit {
namespace {

using recipe::RateRuleKind;

using recipe::TrainSpec;
using scenario::CheckKind;

std::string at(const char* id, std::int64_t world_size) { return std::string(id) + "@" + std::to_string(world_size); }

std::string ranks_text(std::int64_t world_size) {
  return world_size == 1 ? "1 rank" : std::to_string(world_size) + " ranks";
}

bool decays(const TrainSpec& train) {
  for (const recipe::ParameterGroup& group : recipe::parameter_groups(train.optimizer)) {
    if (group.options.value("weight_decay", 0.0) != 0) return true;
  }
  return false;
}

bool clips(const TrainSpec& train) { return train.gradient.clip_norm || train.gradient.clip_value; }

Json changes_of(const std::vector<Obstacle>& obstacles) {
  Json all = Json::object();
  for (const Obstacle& obstacle : obstacles) {
    if (!obstacle.change.is_null()) merge_json(all, obstacle.change);
  }
  return all;
}

bool all_have_a_remedy(const std::vector<Obstacle>& obstacles) {
  return std::none_of(obstacles.begin(), obstacles.end(),
                      [](const Obstacle& obstacle) { return obstacle.change.is_null(); });
}

/// Samples of an epoch of one rank.
std::int64_t samples_of_epoch(const Recipe& recipe, const Range& range) {
  return range.samples - recipe.train().sampler.options.value("start", std::int64_t{0});
}

/// A sampler that gives all ranks equally many samples repeats some, which change a short batch, or complete it. One
/// of a stream leaves them out.
std::optional<Obstacle> obstacle_of_padding(const Recipe& recipe, const Range& range, std::int64_t world_size) {
  const TrainSpec& train = recipe.train();
  const std::int64_t samples = samples_of_epoch(recipe, range);
  const recipe::Dealing dealing = traits_of(train.sampler.kind).dealing;
  if (dealing == recipe::Dealing::kStream) {
    const std::int64_t rest = samples % world_size;
    if (rest == 0 || !train.sampler.options.value("shard", true)) return std::nullopt;
    return Obstacle{std::to_string(samples) + " samples are no multiple of " + ranks_text(world_size) +
                        ": the stream leaves out " + std::to_string(rest) + " at an epoch's end",
                    "", nullptr};
  }
  const std::int64_t of_rank = (samples + world_size - 1) / world_size;
  const std::int64_t repeated = of_rank * world_size - samples;
  const bool completes = of_rank / (range.batch / world_size) != samples / range.batch;
  const bool drops = train.batch.drop_last || train.sampler.options.value("drop_last", false);
  if (repeated == 0 || (drops && !completes)) return std::nullopt;
  Json change = {{"sampler", {{"drop_last", true}}}};
  if (dealing != recipe::Dealing::kBatches) change["batch"] = {{"drop_last", true}};
  const bool can_drop = train.sampler.options.contains("drop_last");
  if (!can_drop) change = nullptr;
  return Obstacle{std::to_string(samples) + " samples are no multiple of " + ranks_text(world_size) +
                      ": the sampler repeats " + std::to_string(repeated) + " at an epoch's end" +
                      (completes ? ", and so fills a batch that is short on one rank" : ""),
                  can_drop ? "drop_last, of the sampler and of the loader" : "", change};
}

/// Reasons why W ranks are not one rank with their batch. Runs end before an epoch does, unless one batch takes more.
std::vector<Obstacle> obstacles_of_ranks(const Recipe& recipe, const Range& range, std::int64_t world_size) {
  std::vector<Obstacle> found = recipe.obstacles_of_ranks();
  const bool stops_before = range.steps * range.batch <= range.samples;
  const bool is_dealt = recipe.variant().knows("sampler") && recipe.train().sampler.kind != recipe::SamplerKind::kNone;
  if (recipe.is_ours() || range.samples == 0 || !is_dealt || stops_before) return found;
  if (auto padding = obstacle_of_padding(recipe, range, world_size)) {
    padding->change = nullptr;  // the program's option is unknown
    found.push_back(*std::move(padding));
  }
  return found;
}

/// Makes the statements of one recipe.
class Identities {
 public:
  Identities(Derivation& derivation, const Recipe& recipe, const Range& range)
      : derivation_(derivation), recipe_(recipe), range_(range), obstacles_(recipe.obstacles_of_ranks()) {}

  void one_batch(std::int64_t world_size) {
    const Setting one = of(1), many = of(world_size);
    pair({.id = at("one-batch", world_size),
          .text = ranks_text(world_size) + ", each with 1/" + std::to_string(world_size) +
                  " of the batch, compute what one rank computes with all of it"},
         one, many, obstacles_of_ranks(recipe_, range_, world_size));
  }

  /// The samples that are left over at an epoch's end must be dealt out in equal shares, too.
  void epoch_end(std::int64_t world_size) {
    const std::int64_t samples = samples_of_epoch(recipe_, range_);
    const std::int64_t left_over = samples % range_.batch, updates = samples / range_.batch;
    if (!recipe_.is_ours() || left_over == 0 || updates < 1 || updates > kMostUpdates) return;
    std::vector<Obstacle> obstacles = obstacles_;
    if (const auto padding = obstacle_of_padding(recipe_, range_, world_size)) obstacles.push_back(*padding);
    Setting one = of(1), many = of(world_size);
    one.steps = many.steps = updates + 2;  // the short batch, and the first of the next epoch
    pair({.id = at("epoch-end", world_size),
          .text = "across an epoch's end, " + ranks_text(world_size) + " compute what one rank computes"},
         one, many, obstacles);
  }

  /// Sums at the rate divided by W are means at the rate. Decay joins the gradient and a threshold is held against it,
  /// so that both must grow with the sum.
  void sum(std::int64_t world_size) {
    const TrainSpec& train = recipe_.train();
    if (!recipe_.is_ours() || is_scale_free(train) || !train.ddp.average) return;
    const double ranks = static_cast<double>(world_size);
    Setting mean = of(world_size);
    if (!train.seed.seeds_before_model()) mean.also = {{"seed", {{"policy", "same"}}}};  // else no two runs begin alike
    Setting sum = mean;
    sum.sum = true;
    sum.rate = 1 / ranks;
    const bool more = decays(train) || clips(train);
    if (more) {
      std::vector<std::string> why;
      if (decays(train)) why.push_back("weight decay joins the gradient after the sum, so it counts W times less");
      if (clips(train)) why.push_back("the clipping threshold is compared with a gradient W times as large");
      compare_weights({.id = at("sum-rate-only", world_size),
                       .text = "sums at the rate / " + std::to_string(world_size) +
                               ", with decay and clipping as they are, "
                               "compute what means do",
                       .claim = Claim::kDiffers,
                       .because = join(why, "; "),
                       .instead = "multiply weight decay and clipping threshold by the number of ranks, too"},
                      mean, sum);
    }
    sum.decay = ranks;
    sum.threshold = ranks;
    compare_weights({.id = at("sum", world_size),
                     .text = "sums at the rate / " + std::to_string(world_size) +
                             (more ? ", weight decay and threshold x " + std::to_string(world_size) : "") +
                             ", compute what means do at the rate"},
                    mean, sum);
  }

  /// An optimizer that divides a gradient by its size moves the weights alike, whatever factor the gradients have.
  void hidden_factor(std::int64_t world_size) {
    const TrainSpec& train = recipe_.train();
    if (!recipe_.is_ours() || !is_scale_free(train) || !train.ddp.average) return;
    const Setting mean = of(world_size);
    Setting sum = mean;
    sum.sum = true;
    const std::string w = std::to_string(world_size), kind = text_of(train.optimizer.kind);
    compare({.id = at("hidden-factor", world_size),
             .text = "sums instead of means: gradients " + w + " times as large",
             .claim = Claim::kDiffers,
             .if_differs = Answer::kHidden,
             .because = kind + " divides each gradient by its own size, so the weights hardly notice a factor",
             .instead = "compare gradients or the optimizer's state; losses and weights look healthy"},
            mean, sum, {trace::Channel::kGradient});
    const recipe::OptimizerTraits& traits = recipe::traits_of(train.optimizer.kind);
    if ((world_size & (world_size - 1)) != 0 || traits.form == recipe::UpdateForm::kTrustRatio) return;
    Setting exact_mean = mean;
    exact_mean.also = {{"optimizer", {{"eps", kNoEps}}},
                       {"gradient", {{"clip_norm", nullptr}, {"clip_value", nullptr}}}};
    exact_mean.also["ddp"] = {{"average", true}};
    if (!traits.decouples_decay) exact_mean.also["optimizer"]["weight_decay"] = 0;
    Setting exact_sum = exact_mean;
    exact_sum.also["ddp"] = {{"average", false}};
    compare_weights({.id = at("scale-free", world_size),
                     .text = "with eps = 0, gradients " + w + " times as large move the weights alike, bit for bit"},
                    exact_mean, exact_sum);
  }

  void accumulation(std::int64_t world_size) {
    if (!recipe_.has_place_for_accumulation()) return;
    const Setting whole = of(world_size);
    Setting parts = whole;
    parts.accumulation = range_.accumulation;
    pair({.id = at("accumulation", world_size),
          .text = std::to_string(range_.accumulation) + " accumulated micro-batches compute what one batch does"},
         whole, parts, recipe_.obstacles_of_accumulation());
  }

  /// PyTorch keeps the rate out of the momentum, so that a rate that changes needs no correction.
  void momentum(std::int64_t world_size) {
    const TrainSpec& train = recipe_.train();
    if (!recipe_.is_ours() || train.optimizer.kind != recipe::OptimizerKind::kSgd ||
        train.optimizer.options.value("momentum", 0.0) == 0)
      return;
    Setting setting = of(world_size);
    setting.also = {{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}, {"schedule_every", "update"}};
    setting.steps = kMomentumUpdates;
    derivation_.hold(
        {.id = at("momentum", world_size),
         .text = "momentum needs no correction when the rate changes: v <- mu v + g; w <- w - rate v" + range_.instead,
         .instead = {}},
        *recipe_.patch(setting), CheckKind::kLaws, {"state", "update"});
  }

  /// W updates at a rate against one update with their samples at W times the rate: the linear rule's own claim.
  void order(std::int64_t world_size) {
    const TrainSpec& train = recipe_.train();
    if (!recipe_.is_ours() || is_scale_free(train)) return;
    const std::string w = std::to_string(world_size);
    Statement statement{.id = at("order", world_size),
                        .text = w + " updates at a rate against one at " + w +
                                " times the rate on the same samples, plain SGD: the difference falls with the rate's "
                                "square" +
                                range_.instead,
                        .instead = "the linear rule is not exact: it holds to first order in the rate"};
    if (train.model.options.contains("norm"))
      statement.because = "batch normalization makes a sample's gradient depend on the samples beside it";
    if (train.model.kind == recipe::ModelKind::kBranch)
      statement.because = "the number of forward passes decides whether the side path takes part";
    statement.by_targets = statement.because.empty() && recipe_.has_unequal_targets();
    if (statement.by_targets)
      statement.because = "batches have different numbers of targets, but their means have equal weight";
    const std::int64_t share = range_.batch / world_size;
    std::vector<Json> sides;
    for (const double rate : kRates) {
      Setting small = of(1);
      small.rank_batch = share;
      small.plain = rate;
      small.steps = world_size;
      small.also = changes_of(obstacles_);
      Setting large = of(world_size);
      large.rank_batch = share;
      large.plain = rate * static_cast<double>(world_size);
      large.steps = 1;
      large.also = small.also;
      for (const Setting& side : {small, large}) sides.push_back(*recipe_.patch(side));
    }
    derivation_.second_order(std::move(statement), sides);
  }

 private:
  /// Eps that changes no bit of a root of the square of a normal float32, and divides no 0 by 0.
  static constexpr double kNoEps = 1e-30;
  /// Updates with momentum, the last two with another rate.
  static constexpr std::int64_t kMomentumUpdates = 4;
  /// Updates until an epoch ends: more would take too long for a first look.
  static constexpr std::int64_t kMostUpdates = 64;
  /// Rates of the order test: so small that few units cross a kink, so large that float64 holds their squares.
  static constexpr double kRates[] = {0x1p-15, 0x1p-16, 0x1p-17, 0x1p-18};

  Setting of(std::int64_t world_size) const {
    return {.world_size = world_size, .rank_batch = range_.batch / world_size, .plain = {}, .steps = range_.steps};
  }

  void compare(Statement statement, const Setting& left, const Setting& right,
               std::vector<trace::Channel> channels = {}) {
    const auto a = recipe_.patch(left), b = recipe_.patch(right);
    statement.text += range_.instead;
    if (a && b) derivation_.compare(std::move(statement), *a, *b, std::move(channels));
  }

  void compare_weights(Statement statement, const Setting& left, const Setting& right) {
    statement.text += range_.instead;
    derivation_.compare_weights(std::move(statement), *recipe_.patch(left), *recipe_.patch(right));
  }

  /// States equality, or, where something is in its way, that both sides differ, and that they are equal without it.
  void pair(Statement statement, Setting left, Setting right, const std::vector<Obstacle>& obstacles) {
    if (obstacles.empty()) return compare(std::move(statement), left, right);
    Statement as_it_is = statement;
    as_it_is.claim = Claim::kDiffers;
    as_it_is.because = reasons(obstacles);
    as_it_is.instead = remedies(obstacles);
    compare(std::move(as_it_is), left, right);
    if (!all_have_a_remedy(obstacles)) return;
    left.also = right.also = changes_of(obstacles);
    left.split = right.split = recipe_.is_ours();
    const std::size_t mark = statement.id.find('@');
    statement.id.insert(mark, "-mended");
    statement.text += ", once it is fixed: " + remedies(obstacles);
    compare(std::move(statement), left, right);
  }

  Derivation& derivation_;
  const Recipe& recipe_;
  const Range& range_;
  const std::vector<Obstacle> obstacles_;
};

/// Makes the cells of the matrix at one number of ranks.
class Cells {
 public:
  Cells(Derivation& derivation, const Recipe& recipe, const Range& range, std::int64_t world_size)
      : derivation_(derivation), recipe_(recipe), range_(range), world_size_(world_size) {}

  void add() {
    for (const bool per_rank : {false, true}) {
      for (const RateRuleKind rule : {RateRuleKind::kNone, RateRuleKind::kLinear, RateRuleKind::kSqrt}) {
        for (const bool all : {false, true}) cell(per_rank, rule, all);
      }
    }
  }

 private:
  double growth() const { return static_cast<double>(world_size_) / static_cast<double>(range_.base); }

  /// The baseline of cells: of those that keep the batch per rank the recipe's own batch, of others one that all
  /// divide.
  Setting baseline(bool per_rank) const {
    const std::int64_t share = per_rank ? *recipe_.global_batch(range_.base) / range_.base : range_.batch / range_.base;
    Setting base{.world_size = range_.base,
                 .rank_batch = share,
                 .accumulation = recipe_.train().batch.accumulation,
                 .plain = {},
                 .steps = range_.steps};
    if (!recipe_.is_ours()) return base;
    base.also = {{"learning_rate_rule", {{"kind", "none"}}}};
    // Coarse arithmetic would hide which cells are one computation.
    if (recipe_.train().coarsest_arithmetic())
      base.also.update({{"autocast", "none"},
                        {"ddp", {{"compression", "none"}}},
                        {"gradient", {{"loss_scale", nullptr}, {"dynamic_scale", nullptr}}}});
    if (recipe_.train().sampler.kind == recipe::SamplerKind::kNone) base.also["sampler"] = {{"kind", "distributed"}};
    return base;
  }

  void cell(bool per_rank, RateRuleKind rule, bool every_rank_all) {
    const bool is_kept = rule == RateRuleKind::kNone;
    const double factor = is_kept ? 1 : rule == RateRuleKind::kLinear ? growth() : std::sqrt(growth());
    Setting base = baseline(per_rank);
    Setting setting = base;
    setting.world_size = world_size_;
    if (!per_rank) setting.rank_batch = range_.batch / world_size_;
    setting.rate = factor;
    setting.every_rank_all = every_rank_all;
    if (every_rank_all) setting.also.erase("sampler");
    const bool repeats = every_rank_all && per_rank && factor == 1;
    if (repeats) base = setting, base.world_size = range_.base;
    const auto left = recipe_.patch(base), right = recipe_.patch(setting);
    if (!left || !right) return;
    const std::string batch = per_rank ? "per-rank" : "global";
    Statement statement{.id = batch + "-batch." + (is_kept ? "kept" : text_of(rule)) +
                              (every_rank_all ? ".no-sampler" : ".sampler") + "@" + std::to_string(world_size_),
                        .section = Section::kMatrix,
                        .text = batch + " batch kept, rate " + (factor == 1 ? "kept" : "x " + rounded(factor, 4)) +
                                (every_rank_all ? ", no sampler" : "") + " (" + ranks_text(world_size_) + ")" +
                                (per_rank ? "" : range_.instead)};
    judge(statement, per_rank, factor, rule, every_rank_all);
    if (repeats) statement.claim = Claim::kRepeats;
    derivation_.compare(
        std::move(statement), *left, *right,
        repeats ? std::vector{trace::Channel::kGradient, trace::Channel::kWeight} : std::vector<trace::Channel>());
  }

  /// Claims of the cell.
  void judge(Statement& statement, bool per_rank, double factor, RateRuleKind rule, bool every_rank_all) const {
    std::vector<Obstacle> obstacles = obstacles_of_ranks(recipe_, range_, world_size_);
    if (recipe_.is_ours() && recipe_.train().sampler.kind == recipe::SamplerKind::kNone)  // these cells have one
      std::erase_if(obstacles, [](const Obstacle& one) { return one.change.contains("sampler"); });
    statement.claim = Claim::kDiffers;
    if (every_rank_all) {
      statement.if_differs = Answer::kSlip;
      statement.because =
          "every rank takes every sample, so an epoch takes it once for each rank: with one seed all ranks compute the "
          "same " +
          std::string(per_rank ? "batch" : "part of the batch");
      statement.instead = "use a distributed sampler";
    } else if (!per_rank && factor == 1 && obstacles.empty()) {
      statement.claim = Claim::kEqual;
    } else if (!per_rank && factor == 1) {
      statement.if_differs = Answer::kNoIdentity;
      statement.because = reasons(obstacles);
      statement.instead = remedies(obstacles);
    } else if (!per_rank) {
      statement.if_differs = Answer::kSlip;
      statement.because = "the batch of an update is the same, but its rate is not";
      statement.instead = "keep the rate where the global batch is kept";
    } else if (factor == 1) {
      statement.if_differs = Answer::kOther;
      statement.because = "the global batch grows with the ranks: fewer updates an epoch, at the same rate";
      statement.instead = "no rule recommends it; DETR does it, with Adam";
    } else {
      statement.if_differs = Answer::kEmpirical;
      const bool adaptive = is_scale_free(recipe_.train());
      statement.because =
          rule == RateRuleKind::kLinear
              ? (adaptive ? "the linear rule is for SGD (Goyal et al. 2017): for " +
                                text_of(recipe_.train().optimizer.kind) + " it does not hold even to first order"
                          : "Goyal et al. 2017: holds to first order in the rate, with warm-up, up to a limit")
              : (adaptive ? "Malladi et al. 2022, where 1 - beta grows with the batch, too, and eps falls with its root"
                          : "Krizhevsky 2014: keeps the variance of an update");
      statement.instead = "call it a recipe, never the same training";
    }
  }

  Derivation& derivation_;
  const Recipe& recipe_;
  const Range& range_;
  std::int64_t world_size_;
};

}  // namespace

Range range_of(const Recipe& recipe, std::vector<std::int64_t> ranks, std::int64_t steps, std::int64_t samples) {
  std::sort(ranks.begin(), ranks.end());
  ranks.erase(std::unique(ranks.begin(), ranks.end()), ranks.end());
  const std::int64_t base = ranks.front();
  const auto batch = recipe.global_batch(base);
  if (!batch || *batch < 1)
    throw InputError({.what = "the recipe's batch is unknown",
                      .where = "variant '" + recipe.variant().name + "'",
                      .expected = "\"batch\" in the program's promises"});
  const std::int64_t own = recipe.train().batch.accumulation;
  const std::int64_t tried = recipe.has_place_for_accumulation() ? 2 : 1;
  Range range{.ranks = ranks, .base = base, .batch = 1, .accumulation = own > 1 ? own : tried};
  std::int64_t unit = range.accumulation;
  for (const std::int64_t world_size : ranks) unit = std::lcm(unit, world_size * range.accumulation);
  range.batch = std::max(std::int64_t{1}, *batch / unit) * unit;
  range.steps = steps;
  range.samples = samples;
  if (samples > 0 && samples < unit && recipe.is_ours())
    throw InputError({.what = "the data hold fewer samples than one update of all ranks takes",
                      .where = "variant '" + recipe.variant().name + "'",
                      .expected = "at least " + std::to_string(unit) + " samples, for --ranks up to " +
                                  std::to_string(ranks.back()) + " and " + std::to_string(range.accumulation) +
                                  " micro-batches",
                      .actual = std::to_string(samples) + " samples",
                      .next = "audit fewer ranks, or more data"});
  if (samples > 0 && recipe.is_ours()) range.batch = std::min(range.batch, samples / unit * unit);
  if (range.batch != *batch) {
    const std::string why =
        samples > 0 && samples < *batch
            ? "the data hold " + std::to_string(samples) + " samples"
            : std::to_string(*batch) + " is no multiple of " + std::to_string(unit) + ", as ranks" +
                  (range.accumulation > 1 ? " and " + std::to_string(range.accumulation) + " micro-batches" : "") +
                  " divide it";
    range.instead = " (with a batch of " + std::to_string(range.batch) + ": " + why + ")";
  }
  // An epoch's end is another question: there are shares of unequal size, and micro-batches that are left over.
  if (samples >= range.batch) range.steps = std::min(steps, samples / range.batch);
  return range;
}

void add_recipe_checks(Derivation& derivation, const Recipe& recipe, const Range& range) {
  for (const std::int64_t world_size : range.ranks) {
    const Json patch = recipe.as_written(world_size);
    const auto hold = [&](const char* id, const char* text, CheckKind that) {
      derivation.hold(
          {.id = at(id, world_size), .section = Section::kRecipe, .text = ranks_text(world_size) + ": " + text}, patch,
          that);
    };
    hold("ledger", "rates, denominators and counters follow the recipe", CheckKind::kLedger);
    if (world_size > 1) hold("reduction", "each update takes the mean of the ranks' gradients", CheckKind::kReduction);
    hold("laws", "the laws of one run hold", CheckKind::kLaws);
  }
}

void add_identities(Derivation& derivation, const Recipe& recipe, const Range& range) {
  Identities identities(derivation, recipe, range);
  for (const std::int64_t world_size : range.ranks) {
    if (world_size == 1) continue;
    identities.one_batch(world_size);
    identities.epoch_end(world_size);
  }
  for (const std::int64_t world_size : range.ranks) {
    if (world_size == 1) continue;
    identities.sum(world_size);
    identities.hidden_factor(world_size);
  }
  for (const std::int64_t world_size : range.ranks) identities.accumulation(world_size);
  identities.momentum(range.ranks.back());
  for (const std::int64_t world_size : range.ranks) {
    if (world_size > 1) identities.order(world_size);
  }
}

void add_matrix(Derivation& derivation, const Recipe& recipe, const Range& range) {
  for (const std::int64_t world_size : range.ranks) {
    if (world_size != range.base) Cells(derivation, recipe, range, world_size).add();
  }
}

}  // namespace lockstep::audit
