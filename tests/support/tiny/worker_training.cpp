#include "tests/support/tiny/worker_training.h"

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <cstring>
#include <optional>

#include "harness/recipe/sampler_rule.h"
#include "harness/recipe/schedule_rule.h"
#include "harness/recipe/seeds.h"

#include "tests/support/tiny/planted.h"
#include "tests/support/tiny/rank_log.h"
#include "tests/support/tiny/replica.h"
#include "tests/support/tiny/ring.h"
#include "tests/support/tiny/tiny_trace.h"
#include "tests/support/tiny/update_rule.h"

namespace lockstep::test {
namespace {

using trace::Channel;

/// A training in one precision, all ranks of it.
template <typename Real>
class MemoryTraining {
 public:
  MemoryTraining(const scenario::Variant& variant, const Surroundings& around)
      : variant_(variant),
        spec_(variant.train),
        around_(around),
        planted_(spec_.faults),
        network_(spec_),
        world_(variant.world_size) {
    result_.trace.run = around.name;
    base_rate_ = recipe::base_learning_rates(spec_, world_)[0];
    for (std::int64_t rank = 0; rank < world_; ++rank) {
      ranks_.emplace_back();
      Rank& one = ranks_.back();
      one.share.rank = rank;
      one.seed = seed_of(rank);
      one.weights = network_.initial<Real>(seed_of_weights(), spec_.determinism.cpu == "portable-v1");
      if (normalizes(spec_)) one.means["bn.running_mean"].resize(kInputs);
      logs_.emplace_back(around, spec_, rank, world_);
    }
    if (spec_.checkpoint.load) load(*spec_.checkpoint.load);
    for (Rank& rank : ranks_) {
      if (spec_.ema_decay && rank.averages.empty()) rank.averages = rank.weights;
    }
  }

  Trained train() {
    record_state(updates_ - 1);
    while (updates_ < spec_.steps) {
      follow();
      update();
      if (spec_.checkpoint.saves_after(updates_)) result_.saved[updates_] = snapshot();
    }
    for (RankLog& log : logs_) result_.trace.ranks.push_back(log.finished());
    return std::move(result_);
  }

 private:
  using Rank = Replica<Real>;

  /// What one rank makes of its micro-batches.
  struct Local {
    Tensors<Real> gradient;
    std::vector<std::int64_t> ids;
    Real loss = 0;
  };

  std::uint64_t seed_of(std::int64_t rank) const {
    const bool fixed = spec_.seed.policy != recipe::SeedPolicy::kUnseeded;
    return recipe::seed_of_rank(spec_.seed, rank) + (fixed ? 0 : 7919 * around_.chance);
  }

  std::uint64_t seed_of_weights() const {
    return spec_.seed.seeds_before_model() ? ranks_[0].seed : 7919 * around_.chance;
  }

  // ---- checkpoints ----

  Snapshot snapshot() const {
    Snapshot all{.updates = updates_,
                 .samples_taken = ranks_[0].taken,
                 .schedule_steps = schedule_steps_,
                 .rate = rate(),
                 .reduces_as_later = reduces_as_later_};
    for (const Rank& rank : ranks_) all.ranks.push_back(rank.state());
    return all;
  }

  void load(const recipe::LoadSpec& load) {
    if (!load.file.empty()) {
      for (Rank& rank : ranks_) rank.weights = converted<Real>(weights_in(load.file, load.keys.strip));
      return;
    }
    const Snapshot& saved = load.number ? around_.loaded->at(*load.number) : around_.loaded->rbegin()->second;
    for (std::int64_t r = 0; r < world_; ++r) {
      if (load.who == recipe::LoadWho::kRank0 && r != 0) continue;
      ranks_[static_cast<std::size_t>(r)].take(saved, variant_);
    }
    for (Rank& rank : ranks_) {
      if (load.when == recipe::LoadWhen::kBeforeWrap &&
          spec_.ddp.wrap) {  // which sends rank 0's weights and buffers to all
        rank.weights = ranks_[0].weights;
        rank.means = ranks_[0].means;
      }
      if (load.restores("buffers") && (load.who != recipe::LoadWho::kRank0 || rank.rank() == 0)) rank.take_means(saved);
    }
    if (load.restores("schedule")) {
      updates_ = saved.updates;
      schedule_steps_ = saved.schedule_steps;
    }
    if (planted_.find("counter_off", updates_, 0) != nullptr && load.restores("schedule")) ++updates_;
    reduces_as_later_ = load.restores("buckets") && saved.reduces_as_later;
  }

  /// Takes the state that the leader had before this update.
  void follow() {
    if (around_.followed == nullptr || updates_ <= around_.followed_after) return;
    for (Rank& rank : ranks_) rank.follow(around_.followed->at(updates_).ranks[0]);
  }

  // ---- one update ----

  double rate() const {
    const auto by_schedule = recipe::ScheduleForm(spec_.schedule, base_rate_).after(schedule_steps_, {});
    return by_schedule.value().rate * recipe::rule_warmup(spec_, recipe::rule_factor(spec_, world_), schedule_steps_);
  }

  void update() {
    for (RankLog& log : logs_) log.begin(updates_);
    std::vector<Local> locals;
    for (Rank& rank : ranks_) locals.push_back(local_of(rank));
    for (std::int64_t r = 0; r < world_; ++r) {
      Rank& rank = ranks_[static_cast<std::size_t>(r)];
      Tensors<Real> gradient = reduced_on(locals, r);
      spoil_gradient(gradient, r);
      record_batch(rank, locals, gradient);
      clip(gradient, r);
      step_rank(rank, gradient);
      record_ledger(rank, locals[static_cast<std::size_t>(r)]);
    }
    reduces_as_later_ = true;
    record_state(updates_);
    const std::int64_t steps =
        spec_.schedule_every == recipe::ScheduleEvery::kRank || planted_.find("schedule_wrong", updates_, 0) ? world_
                                                                                                             : 1;
    ++updates_;
    schedule_steps_ += steps;
  }

  /// The seed of a sampler without one: each rank draws its own, or all copy rank 0's, where there are several.
  std::uint64_t order_of(Rank& rank) const {
    if (!recipe::draws_from_shared_generator(spec_.sampler)) return 0;
    return spec_.sampler.kind == recipe::SamplerKind::kNone ? rank.draw() : world_ > 1 ? 1000 : 2000;
  }

  Local local_of(Rank& rank) {
    const std::int64_t r = rank.rank(), accumulation = spec_.batch.accumulation;
    Local local{.gradient = network_.zeros<Real>()};
    if (normalizes(spec_) && spec_.ddp.broadcast_buffers) rank.means = r == 0 ? rank.means : first_means_;
    if (normalizes(spec_) && r == 0) first_means_ = rank.means;
    for (std::int64_t k = 0; k < accumulation; ++k) {
      if (rank.share.at_end()) {
        rank.order = order_of(rank);
        rank.share.begin_epoch(variant_, rank.order, drops_last(spec_));
      }
      const std::vector<std::int64_t> ids = rank.share.next(variant_);
      if (k > 0 && planted_.find("accumulation_lost", updates_, r)) local.gradient = network_.zeros<Real>();
      pass(rank, ids, local);
    }
    rank.taken += static_cast<std::int64_t>(local.ids.size());
    const auto round = [&](const Json& options) {
      if (options.at("place") == "backward") round_to_16_bits(local.gradient, r);
    };
    planted_.each<Real>("gradient_rounded", updates_, r, "", round);
    return local;
  }

  void pass(Rank& rank, const std::vector<std::int64_t>& ids, Local& local) {
    const std::int64_t r = rank.rank();
    const Json* const divisor = planted_.find("accumulation_divisor", updates_, r);
    const auto parts = static_cast<Real>(divisor ? divisor->at("divisor").get<double>()
                                                 : static_cast<double>(spec_.batch.accumulation));
    const std::uint64_t mask = network_.dropout > 0 ? rank.draw() : 0;
    Tensors<Real> sum = network_.zeros<Real>();
    Real loss = 0;
    std::vector<Real> means(kInputs);
    for (const std::int64_t id : ids) {
      const std::vector<float>& x = input_of(id);
      for (std::size_t i = 0; i < kInputs; ++i) means[i] += static_cast<Real>(x[i]) / static_cast<Real>(ids.size());
      loss += network_.backward<Real>(rank.weights, {x.begin(), x.end()}, target_of(id),
                                      mask + static_cast<std::uint64_t>(id), sum);
    }
    if (normalizes(spec_)) {
      for (std::size_t i = 0; i < kInputs; ++i)
        rank.means["bn.running_mean"][i] += static_cast<Real>(0.1) * (means[i] - rank.means["bn.running_mean"][i]);
    }
    const Json* const factor = planted_.find("loss_factor", updates_, r);
    const Real scale =
        static_cast<Real>(factor ? factor->at("factor").get<double>() : 1) / (parts * static_cast<Real>(ids.size()));
    for (auto& [name, values] : sum) {
      for (std::size_t i = 0; i < values.size(); ++i) local.gradient[name][i] += on_grid(values[i] * scale);
    }
    local.loss += on_grid(loss * scale);
    local.ids.insert(local.ids.end(), ids.begin(), ids.end());
    logs_[static_cast<std::size_t>(r)].passed(network_, rank.weights, ids, sum, factor != nullptr);
  }

  /// What an exact training sums: a sum of such numbers does not round.
  Real on_grid(Real value) const { return network_.is_exact ? std::round(value * Real(0x1p30)) / Real(0x1p30) : value; }

  static void to_16_bits(Tensors<Real>& gradient) {
    for (auto& [name, values] : gradient) {
      for (Real& value : values) value = to_bfloat16(static_cast<float>(value));
    }
  }

  void round_to_16_bits(Tensors<Real>& gradient, std::int64_t rank) {
    to_16_bits(gradient);
    for (const auto& [name, values] : gradient) {
      logs_[static_cast<std::size_t>(rank)].called("aten::to", name, "backward");
    }
  }

  bool averages() const {
    const Json* const wrong = planted_.find("ddp_wrong", updates_, 0);
    return wrong ? wrong->value("average", spec_.ddp.average) : spec_.ddp.average;
  }

  Tensors<Real> reduced_on(const std::vector<Local>& locals, std::int64_t rank) const {
    std::vector<Tensors<Real>> own;
    for (std::size_t r = 0; r < locals.size(); ++r) {
      own.push_back(locals[r].gradient);
      const Json* const sent = planted_.find("sent_rounded", updates_, -1);
      if (sent != nullptr && sent->at("of_rank") == r) to_16_bits(own.back());
    }
    if (!spec_.ddp.wrap) return own[static_cast<std::size_t>(rank)];
    return reduced(own, Ring{.in_rank_order = spec_.ddp.reduction == "rank_order",
                             .averages = averages(),
                             .one_bucket = has_one_bucket(),
                             .shift = reduces_as_later_ ? std::size_t{0} : std::size_t{1},
                             .by_hand = planted_.find("rank_order", updates_, rank) != nullptr,
                             .by_rank = static_cast<std::size_t>(rank)});
  }

  bool has_one_bucket() const { return !spec_.ddp.bucket_mb || *spec_.ddp.bucket_mb >= 1; }

  void spoil_gradient(Tensors<Real>& gradient, std::int64_t rank) {
    RankLog& log = logs_[static_cast<std::size_t>(rank)];
    for (auto& [name, values] : gradient) {
      const std::string& parameter = name;
      std::vector<Real>& numbers = values;
      planted_.each<Real>("gradient_factor", updates_, rank, name, [&](const Json& options) {
        for (Real& value : numbers) value *= static_cast<Real>(options.at("factor").get<double>());
        log.called("aten::mul_", parameter, "backward");
      });
      planted_.each<Real>("gradient_rounded", updates_, rank, name, [&](const Json& options) {
        for (Real& value : numbers) {
          if (options.at("place") == "reduction") value = to_bfloat16(static_cast<float>(value));
        }
      });
      planted_.each<Real>("gradient_uninitialised", updates_, rank, name, [&](const Json&) {
        const auto& environment = variant_.launch.environment;
        const auto fill = environment.find("MALLOC_PERTURB_");
        const auto byte = fill == environment.end() ? around_.chance : std::stoull(fill->second);
        for (Real& value : numbers) value = static_cast<Real>(byte) * static_cast<Real>(0x1p-10);
      });
    }
  }

  void clip(Tensors<Real>& gradient, std::int64_t rank) {
    if (!spec_.gradient.clip_norm) return;
    Real square = 0;
    for (const auto& [name, values] : gradient) {
      for (const Real value : values) square += value * value;
    }
    const Real factor = static_cast<Real>(*spec_.gradient.clip_norm) / (std::sqrt(square) + static_cast<Real>(1e-6));
    for (auto& [name, values] : gradient) {
      for (Real& value : values) value *= std::min(factor, Real{1});
      logs_[static_cast<std::size_t>(rank)].take(Channel::kGradient, "clipped " + name, values,
                                                 network_.shape_of(name));
    }
  }

  void step_rank(Rank& rank, const Tensors<Real>& gradient) {
    const std::int64_t r = rank.rank();
    RankLog& log = logs_[static_cast<std::size_t>(r)];
    const UpdateRule<Real> rule(spec_.optimizer, planted_, updates_, r);
    const Json* const factor = planted_.find("learning_rate_factor", updates_, r);
    rank_rate_ = rate() * (factor ? factor->at("factor").get<double>() : 1);
    ++rank.optimizer_steps;
    for (auto& [name, values] : rank.weights) {
      const std::vector<Real> before = values;
      const std::string& parameter = name;
      std::vector<Real>& weights = values;
      rule.update(name, values, gradient.at(name), rank.optimizer, rank_rate_, rank.optimizer_steps);
      log.updated(name, before, gradient.at(name), rank_rate_, values);
      planted_.each<Real>("weights_decayed", updates_, r, name, [&](const Json& options) {
        for (Real& value : weights) value *= static_cast<Real>(options.at("factor").get<double>());
        log.called("aten::mul_", parameter, "optimizer");
      });
      flip_bit(r, name, values);
    }
    for (auto& [name, values] : rank.averages) {
      const auto keep = static_cast<Real>(*spec_.ema_decay);
      for (std::size_t i = 0; i < values.size(); ++i)
        values[i] = keep * values[i] + (1 - keep) * rank.weights.at(name)[i];
    }
  }

  /// The first parameter, as the worker's, where none is named.
  void flip_bit(std::int64_t rank, const std::string& name, std::vector<Real>& values) {
    const Json* const options = planted_.find("flip_weight_bit", updates_, rank);
    if (options == nullptr) return;
    const auto wanted = options->at("parameter").get<std::string>();
    if (name != (wanted.empty() ? ranks_[0].weights.begin()->first : wanted)) return;
    if (options->at("once").get<bool>() && options->at("step") != updates_) return;
    std::uint32_t bits = 0;
    std::memcpy(&bits, &values[options->at("element").get<std::size_t>()], sizeof bits);
    bits ^= std::uint32_t{1} << options->at("bit").get<int>();
    std::memcpy(&values[options->at("element").get<std::size_t>()], &bits, sizeof bits);
  }

  // ---- records ----

  void record_batch(const Rank& rank, const std::vector<Local>& locals, const Tensors<Real>& gradient) {
    RankLog& log = logs_[static_cast<std::size_t>(rank.rank())];
    const Local& local = locals[static_cast<std::size_t>(rank.rank())];
    log.take(integers(Channel::kSamples, "ids", local.ids));
    log.take(
        floats(Channel::kInput, "x", inputs_of(local.ids), {static_cast<std::int64_t>(local.ids.size()), kInputs}));
    Real mean = 0;
    for (const Local& one : locals) mean += one.loss;
    log.take_scalar(Channel::kLoss, spec_.batch.accumulation > 1 ? "local.0" : "local", local.loss);
    log.take_scalar(Channel::kLoss, "reduced", mean / static_cast<Real>(world_));
    for (const auto& [name, values] : local.gradient)
      log.take(Channel::kGradientLocal, name, values, network_.shape_of(name));
    for (const auto& [name, values] : gradient) log.take(Channel::kGradient, name, values, network_.shape_of(name));
    log.take(text(Channel::kCollective, "0",
                  has_one_bucket() ? "allreduce Float SUM" : "allreduce Float SUM of parameters"));
  }

  void record_ledger(const Rank& rank, const Local& local) {
    RankLog& log = logs_[static_cast<std::size_t>(rank.rank())];
    log.take(number("learning_rate", rank_rate_));
    log.take(integer("loss_denominator", static_cast<std::int64_t>(local.ids.size())));
    log.take(integer("samples_taken", rank.taken));
    log.take(integer("updates", updates_ + 1));
    log.take(integer("epoch", rank.share.epoch));
  }

  void record_state(std::int64_t step) {
    for (std::size_t r = 0; r < ranks_.size(); ++r) {
      const Rank& rank = ranks_[r];
      RankLog& log = logs_[r];
      if (step < updates_) log.begin(step);  // the state before the first update
      log.take(text(Channel::kRng, "cpu",
                    "seed " + std::to_string(rank.seed) + " after " + std::to_string(rank.draws) + " draws"));
      for (const auto& [name, values] : rank.optimizer)
        log.take(Channel::kOptimizer, name, values, network_.shape_of(name.substr(0, name.rfind('.'))));
      for (const auto& [name, values] : rank.weights) log.take(Channel::kWeight, name, values, network_.shape_of(name));
      for (const auto& [name, values] : rank.means) log.take(Channel::kBuffer, name, values, network_.shape_of(name));
      for (const auto& [name, values] : rank.averages) log.take(Channel::kEma, name, values, network_.shape_of(name));
      log.end();
    }
  }

  const scenario::Variant& variant_;
  const recipe::TrainSpec& spec_;
  const Surroundings& around_;
  const Planted planted_;
  const Network network_;
  const std::int64_t world_;
  double base_rate_ = 0, rank_rate_ = 0;
  std::int64_t updates_ = 0, schedule_steps_ = 0;
  bool reduces_as_later_ = false;
  std::vector<Rank> ranks_;
  Tensors<Real> first_means_;
  std::vector<RankLog> logs_;
  Trained result_;
};

}  // namespace

Trained train_in_memory(const scenario::Variant& variant, const Surroundings& around) {
  const bool wide = variant.train.precision == recipe::Precision::kFloat64 || variant.train.exact;
  return wide ? MemoryTraining<double>(variant, around).train() : MemoryTraining<float>(variant, around).train();
}

}  // namespace lockstep::test
