#include <algorithm>
#include <map>
#include <numeric>
#include <random>

#include "harness/trace/line.h"

#include "tests/support/tiny/sampling.h"
#include "tests/support/tiny/tiny_trace.h"

namespace lockstep::test {
namespace {

using trace::Channel;

using Tensors = std::map<std::string, std::vector<float>>;  ///< "fc.bias", "fc.weight"

std::vector<std::int64_t> shape_of(const std::string& name) {
  return name == "fc.bias" ? std::vector<std::int64_t>{kOutputs} : std::vector<std::int64_t>{kOutputs, kInputs};
}

Tensors zeros() {
  return {{"fc.bias", std::vector<float>(kOutputs)}, {"fc.weight", std::vector<float>(kOutputs * kInputs)}};
}

/// As harness/train/sampler: permuted, padded or cut to a multiple of the world size, dealt out.
std::vector<std::int64_t> share_of(const scenario::Variant& variant, std::int64_t rank, std::int64_t epoch) {
  const Json& options = variant.train.sampler.options;
  const auto samples = variant.train.data.options.at("size").get<std::int64_t>();
  const bool alone = variant.train.sampler.kind == recipe::SamplerKind::kNone;
  const std::int64_t world = alone ? 1 : variant.world_size;
  std::vector<std::int64_t> order(static_cast<std::size_t>(samples));
  std::iota(order.begin(), order.end(), std::int64_t{0});
  if (options.at("shuffle").get<bool>()) {
    const bool told = options.value("set_epoch", true);
    std::mt19937_64 generator(options.value("seed", std::uint64_t{0}) + static_cast<std::uint64_t>(told ? epoch : 0) +
                              (alone ? 1000 * static_cast<std::uint64_t>(rank) : 0));
    for (std::size_t i = order.size(); i > 1; --i) std::swap(order[i - 1], order[generator() % i]);
  }
  const std::int64_t each = options.value("drop_last", false) ? samples / world : (samples + world - 1) / world;
  for (std::size_t i = order.size(); i < static_cast<std::size_t>(each * world); ++i)
    order.push_back(order[i % static_cast<std::size_t>(samples)]);
  order.resize(static_cast<std::size_t>(each * world));
  std::vector<std::int64_t> mine;
  for (std::int64_t i = 0; i < each; ++i) {
    const std::int64_t from = alone                                                            ? i
                              : variant.train.sampler.kind == recipe::SamplerKind::kContiguous ? rank * each + i
                                                                                               : rank + i * world;
    mine.push_back(order[static_cast<std::size_t>(from)]);
  }
  return mine;
}

/// One rank's place in the data.
struct Reader {
  std::int64_t rank = 0, epoch = -1, taken = 0;
  std::vector<std::int64_t> order;
  std::size_t position = 0;

  std::vector<std::int64_t> next(const scenario::Variant& variant) {
    if (position >= order.size()) {
      order = share_of(variant, rank, ++epoch);
      position = 0;
    }
    const auto size = static_cast<std::size_t>(variant.train.batch.micro_size(variant.world_size));
    const std::size_t end = std::min(position + size, order.size());
    const std::vector<std::int64_t> ids(order.begin() + static_cast<std::ptrdiff_t>(position),
                                        order.begin() + static_cast<std::ptrdiff_t>(end));
    position = end;
    return ids;
  }
};

/// Adds the mean gradient of `ids`, over `divisor`, to `gradient`; returns the mean loss over `divisor`.
float backward(const Tensors& weights, const std::vector<std::int64_t>& ids, float divisor, Tensors& gradient) {
  const float scale = 1.0F / (divisor * static_cast<float>(ids.size()));
  Tensors sum = zeros();
  float loss = 0;
  for (const std::int64_t id : ids) {
    const std::vector<float>&x = input_of(id), &y = target_of(id);
    for (std::size_t o = 0; o < kOutputs; ++o) {
      float error = weights.at("fc.bias")[o] - y[o];
      for (std::size_t i = 0; i < kInputs; ++i) error += weights.at("fc.weight")[o * kInputs + i] * x[i];
      loss += 0.5F * error * error;
      sum["fc.bias"][o] += error;
      for (std::size_t i = 0; i < kInputs; ++i) sum["fc.weight"][o * kInputs + i] += error * x[i];
    }
  }
  for (auto& [name, values] : gradient) {
    for (std::size_t i = 0; i < values.size(); ++i) values[i] += sum[name][i] * scale;
  }
  return loss * scale;
}

class Training {
 public:
  Training(const scenario::Variant& variant, const std::string& name, const Faults& faults)
      : variant_(variant), faults_(faults) {
    run_.run = name;
    for (std::int64_t rank = 0; rank < variant.world_size; ++rank) {
      readers_.push_back({.rank = rank});
      const Json header = {{"format", trace::kTraceFormat},
                           {"rank", rank},
                           {"world_size", variant.world_size},
                           {"scenario", "tiny"},
                           {"variant", variant.name},
                           {"train_digest", "digest of " + variant.name},
                           {"cpu", variant.train.determinism.cpu},
                           {"samples", variant.train.data.options.at("size")},
                           {"targets_per_sample", 1}};
      run_.ranks.push_back({.origin = name + "/rank" + std::to_string(rank),
                            .header = header,
                            .rank = rank,
                            .world_size = variant.world_size,
                            .complete = true});
    }
    std::uint64_t seed = 77;
    for (auto& [parameter, values] : weights_) values = drawn(seed++, values.size());
    rate_ = recipe::base_learning_rates(variant.train, variant.world_size)[0];
  }

  trace::RunTrace run() {
    record_state(-1);
    for (std::int64_t step = 0; step < variant_.train.steps; ++step) update(step);
    return std::move(run_);
  }

 private:
  using Rows = std::vector<std::vector<trace::Record>>;  ///< of each rank

  void update(std::int64_t step) {
    rows_.assign(readers_.size(), {});
    std::vector<Tensors> locals;
    std::vector<std::vector<std::int64_t>> taken;
    std::vector<float> losses;
    for (Reader& reader : readers_) {
      Tensors local = zeros();
      std::vector<std::int64_t> all;
      float loss = 0;
      for (std::int64_t k = 0; k < variant_.train.batch.accumulation; ++k) {
        std::vector<std::int64_t> ids = reader.next(variant_);
        if (faults_.ids) faults_.ids(step, reader.rank, ids);
        loss += backward(weights_, ids, static_cast<float>(variant_.train.batch.accumulation), local);
        all.insert(all.end(), ids.begin(), ids.end());
      }
      reader.taken += static_cast<std::int64_t>(all.size());
      locals.push_back(local);
      taken.push_back(all);
      losses.push_back(loss);
    }
    const Tensors gradient = reduced(step, locals);
    const double rate = faults_.learning_rate ? faults_.learning_rate(step, rate_) : rate_;
    step_weights(step, gradient, rate);
    const float mean_loss = std::accumulate(losses.begin(), losses.end(), 0.0F) / static_cast<float>(losses.size());
    for (std::size_t rank = 0; rank < readers_.size(); ++rank) {
      std::vector<trace::Record>& row = rows_[rank];
      row.push_back(integers(Channel::kSamples, "ids", taken[rank]));
      row.push_back(floats(Channel::kInput, "x", inputs_of(taken[rank]),
                           {static_cast<std::int64_t>(taken[rank].size()), kInputs}));
      row.push_back(scalar(Channel::kLoss, "local", losses[rank]));
      row.push_back(scalar(Channel::kLoss, "reduced", mean_loss));
      for (const auto& [name, values] : locals[rank])
        row.push_back(floats(Channel::kGradientLocal, name, values, shape_of(name)));
      for (const auto& [name, values] : gradient)
        row.push_back(floats(Channel::kGradient, name, values, shape_of(name)));
      row.push_back(number("learning_rate", rate));
      row.push_back(integer("loss_denominator", static_cast<std::int64_t>(taken[rank].size())));
      row.push_back(integer("samples_taken", readers_[rank].taken));
      row.push_back(integer("updates", step + 1));
      row.push_back(integer("epoch", readers_[rank].epoch));
      row.push_back(text(Channel::kCollective, "0", "allreduce Float[36] SUM"));
    }
    record_state(step);
    const Json& schedule = variant_.train.schedule.options;
    if (variant_.train.schedule.kind == recipe::ScheduleKind::kStep &&
        (step + 1) % schedule.at("every").get<std::int64_t>() == 0)
      rate_ *= schedule.at("gamma").get<double>();
  }

  /// Mean over the ranks, added in rank order.
  Tensors reduced(std::int64_t step, const std::vector<Tensors>& locals) const {
    Tensors sum = locals[0];
    const float divisor = variant_.train.ddp.average ? static_cast<float>(locals.size()) : 1.0F;
    for (auto& [name, values] : sum) {
      for (std::size_t i = 0; i < values.size(); ++i) {
        for (std::size_t rank = 1; rank < locals.size(); ++rank) values[i] += locals[rank].at(name)[i];
        values[i] /= divisor;
      }
      if (faults_.gradient) faults_.gradient(step, name, values);
    }
    return sum;
  }

  void step_weights(std::int64_t step, const Tensors& gradient, double rate) {
    if (faults_.silent_rate) rate = faults_.silent_rate(step, rate);
    const auto momentum = static_cast<float>(variant_.train.optimizer.options.at("momentum").get<double>());
    for (auto& [name, values] : weights_) {
      std::vector<float>& buffer = buffers_[name];
      buffer.resize(values.size());
      for (std::size_t i = 0; i < values.size(); ++i) {
        buffer[i] = buffer[i] * momentum + gradient.at(name)[i];
        values[i] -= static_cast<float>(rate) * buffer[i];
      }
      if (faults_.weight) faults_.weight(step, name, values);
    }
  }

  void record_state(std::int64_t step) {
    rows_.resize(readers_.size());
    for (std::size_t rank = 0; rank < readers_.size(); ++rank) {
      std::vector<trace::Record>& row = rows_[rank];
      row.push_back(text(Channel::kRng, "cpu", "state after " + std::to_string(step + 1) + " updates"));
      for (const auto& [name, values] : buffers_)
        row.push_back(floats(Channel::kOptimizer, name + ".momentum_buffer", values, shape_of(name)));
      for (const auto& [name, values] : weights_) row.push_back(floats(Channel::kWeight, name, values, shape_of(name)));
      std::erase_if(row, [&](const trace::Record& record) { return !variant_.train.record.holds(record.channel); });
      std::stable_sort(row.begin(), row.end(), [](const auto& a, const auto& b) { return a.channel < b.channel; });
      if (step < 0 || step % variant_.train.record.every == 0 || step == variant_.last_recorded_step())
        run_.ranks[rank].steps.push_back({.step = step, .records = row});
    }
  }

  const scenario::Variant& variant_;
  const Faults& faults_;
  trace::RunTrace run_;
  std::vector<Reader> readers_;
  Tensors weights_ = zeros(), buffers_;
  double rate_ = 0;
  Rows rows_;
};

bool is_state(Channel channel) {
  return channel == Channel::kRng || channel == Channel::kOptimizer || channel == Channel::kWeight;
}

}  // namespace

trace::RunTrace tiny_run(const scenario::Variant& variant, const std::string& name, const Faults& faults) {
  return Training(variant, name, faults).run();
}

trace::RunTrace resumed_from(const trace::RunTrace& straight, std::int64_t updates, const std::string& name) {
  trace::RunTrace run = straight;
  run.run = name;
  for (trace::Trace& rank : run.ranks) {
    std::erase_if(rank.steps, [&](const trace::Step& step) { return step.step < updates - 1; });
    std::erase_if(rank.steps.front().records, [](const trace::Record& record) { return !is_state(record.channel); });
  }
  return run;
}

}  // namespace lockstep::test
