#include "harness/laws/first_weights.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <random>
#include <set>
#include <string_view>

#include "harness/base/text.h"
#include "harness/laws/scales.h"
#include "harness/recipe/seeds.h"
#include "harness/trace/sketch.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// Whether a model is made of such layers alone.
bool is_drawn(recipe::ModelKind model) {
  using recipe::ModelKind;
  return model == ModelKind::kLinear || model == ModelKind::kMlp || model == ModelKind::kLenet;
}

/// More draws are not made again.
constexpr double kMostDraws = 67'108'864;

/// A draw is a product and a sum in float32, of a bound in float64.
constexpr double kDrawError = 0x1p-22;

/// The last of the 24 bits of a draw.
constexpr double kDrawUnit = 0x1p-24;

/// Other seeds that a mistake may take.
constexpr std::int64_t kSeedsNearby = 8;

/// Weight and bias of a layer, in the order in which they are drawn.
struct Drawn {
  const trace::Record* record = nullptr;
  double bound = 0;
};

/// Empty where a parameter is of another kind.
std::vector<Drawn> drawn_in(const trace::Step& step) {
  std::vector<Drawn> all;
  double draws = 0;
  for (const trace::Record& record : step.records) {
    if (record.channel != Channel::kWeight) continue;
    draws += count_of(record);
    const std::string_view name = record.name;
    const bool is_weight = name.ends_with("weight") && record.shape.size() >= 2;
    const bool is_bias = name.ends_with("bias") && record.shape.size() == 1 && !all.empty() &&
                         all.back().record->name.ends_with("weight") && record.shape[0] == all.back().record->shape[0];
    if ((!is_weight && !is_bias) || record.elements.empty() || draws > kMostDraws) return {};
    const double inputs = is_weight ? count_of(record) / static_cast<double>(record.shape[0]) : 0;
    all.push_back({&record, is_weight ? 1 / std::sqrt(inputs) : all.back().bound});
  }
  return all;
}

/// The sampled elements of each parameter, between -1 and 1.
using Draws = std::vector<std::vector<double>>;

/// As a seed draws them.
Draws draws_by(std::uint64_t seed, const std::vector<Drawn>& all) {
  std::mt19937 generator(static_cast<std::uint32_t>(seed));
  Draws draws;
  for (const Drawn& one : all) {
    const auto count = static_cast<std::size_t>(count_of(*one.record));
    std::size_t drawn = 0;
    std::vector<double>& sample = draws.emplace_back();
    for (const std::size_t place : trace::sampled_places(count)) {
      generator.discard(place - drawn);
      sample.push_back(2 * static_cast<double>(generator() & 0xFFFFFFU) * kDrawUnit - 1);
      drawn = place + 1;
    }
    generator.discard(count - drawn);
  }
  return draws;
}

/// Where the elements are not those draws times `factor`: parameter and element. Nothing where all are.
std::optional<std::pair<std::size_t, std::size_t>> drawn_otherwise(const std::vector<Drawn>& all, const Draws& draws,
                                                                   double factor) {
  for (std::size_t p = 0; p < all.size(); ++p) {
    for (std::size_t i = 0; i < draws[p].size(); ++i) {
      const double expected = factor * all[p].bound * draws[p][i];
      if (!(std::fabs(all[p].record->elements[i] - expected) <= kDrawError * factor * all[p].bound)) return {{p, i}};
    }
  }
  return std::nullopt;
}

/// What draws the elements instead, in words; empty: unknown.
std::string drawn_by(const std::vector<Drawn>& all, std::uint64_t seed) {
  for (std::int64_t by = -kSeedsNearby; by <= kSeedsNearby; ++by) {
    const std::uint64_t other = seed + static_cast<std::uint64_t>(by);
    if (!drawn_otherwise(all, draws_by(other, all), 1))
      return "they are what the seed " + std::to_string(other) + " draws";
  }
  const Draws draws = draws_by(seed, all);
  if (draws[0][0] == 0) return "";
  const double factor = all[0].record->elements[0] / (all[0].bound * draws[0][0]);
  const bool is_one = std::isfinite(factor) && factor > 0 && !drawn_otherwise(all, draws, factor);
  return is_one ? "they are " + rounded(factor, 5) + " times what it draws" : "";
}

}  // namespace

std::optional<Breach> first_weights_broken(const trace::RunTrace& run, const scenario::Promises& promises,
                                           std::size_t& judged) {
  const recipe::TrainSpec& train = promises.train;
  if (!is_drawn(train.model.kind) || train.checkpoint.load || train.exact || !train.seed.seeds_before_model())
    return std::nullopt;
  std::map<std::uint64_t, Draws> known;  // by seed: DDP sends rank 0's weights
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const trace::Step* const first = run.ranks[rank].find(trace::kInitialStep);
    const std::vector<Drawn> all = first == nullptr ? std::vector<Drawn>() : drawn_in(*first);
    if (all.empty()) continue;
    const std::uint64_t seed = recipe::seed_of_rank(train.seed, train.ddp.wrap ? 0 : static_cast<std::int64_t>(rank));
    if (!known.contains(seed)) known[seed] = draws_by(seed, all);
    const Draws& draws = known[seed];
    judged += all.size();
    const auto apart = drawn_otherwise(all, draws, 1);
    if (!apart) continue;
    const Drawn& one = all[apart->first];
    Breach breach{.at = {trace::kInitialStep, Channel::kWeight, one.record->name, static_cast<std::int64_t>(rank)},
                  .expected = rounded(one.bound * draws[apart->first][apart->second], 7) + ", which the seed " +
                              std::to_string(seed) + " draws",
                  .actual = rounded(one.record->elements[apart->second], 7)};
    if (std::string other = drawn_by(all, seed); !other.empty()) {
      breach.relation = breach.evidence = other;
      breach.cause = "init.weights";
    }
    return breach;
  }
  return std::nullopt;
}

}  // namespace lockstep::laws
