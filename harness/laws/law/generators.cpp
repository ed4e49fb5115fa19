#include <algorithm>

#include "harness/laws/law.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

constexpr const char* kDefault = "cpu";  ///< the generator that a training draws from by default

/// Seed of a rank, where the recipe says it in numbers.
std::optional<std::int64_t> seed_of(const scenario::SeedSpec& spec, std::int64_t rank) {
  const auto base = static_cast<std::int64_t>(spec.base);
  if (spec.policy == "same" || spec.policy == "after_model") return base;
  if (spec.policy == "add_rank") return base + rank;
  return std::nullopt;
}

bool has_own_seeds(const scenario::SeedSpec& spec) { return spec.policy == "add_rank" || spec.policy == "mt_list"; }

/// Whether every rank draws as often as the others in each step. Crops are drawn until they fit, and a dispatching
/// rank 0 draws the order for all.
bool draw_alike(const scenario::TrainSpec& train) {
  return train.sampler.kind != "dispatch" && train.data.options.value("augment", "none") != "rank" &&
         !train.checkpoint.load;
}

Breach breach_at(std::int64_t step, std::int64_t rank, std::string expected, std::string actual) {
  return {.at = {step, Channel::kRng, kDefault, rank}, .expected = std::move(expected), .actual = std::move(actual)};
}

/// A rank keeps the seed that its recipe gives it.
std::optional<Breach> seed_broken(const trace::Trace& rank, const trace::Step& step, const Record& now,
                                  const scenario::TrainSpec& train) {
  if (train.checkpoint.load || now.integers.empty()) return std::nullopt;
  const Record* first = rank.steps.front().find(Channel::kRng, kDefault);
  if (const auto expected = seed_of(train.seed, rank.rank); expected && now.integers[0] != *expected)
    return breach_at(step.step, rank.rank, "the seed " + std::to_string(*expected),
                     "the seed " + std::to_string(now.integers[0]));
  if (first == nullptr || first->integers.empty() || first->integers[0] == now.integers[0]) return std::nullopt;
  return breach_at(step.step, rank.rank, "the seed that the training began with",
                   "it is seeded again: " + std::to_string(now.integers[0]));
}

std::string clone_of(const scenario::TrainSpec& train) {
  if (train.data.options.value("augment", "none") == "rank") return "rng.augment_rank_clone";
  return train.model.options.value("dropout", 0.0) > 0 ? "rng.dropout_clone" : "";
}

/// Two ranks draw different numbers, equally many.
std::optional<Breach> ranks_broken(const Record& now, const Record& other, std::int64_t step, std::size_t rank,
                                   const scenario::TrainSpec& train) {
  const auto index = static_cast<std::int64_t>(rank);
  if (has_own_seeds(train.seed) && trace::same_bits(&now, &other)) {
    Breach breach = breach_at(step, index, "another state than rank 0's", "the same state");
    breach.cause = clone_of(train);
    breach.evidence = "the recipe gives each rank a seed of its own, and rank 0 and rank " + std::to_string(rank) +
                      " draw the same numbers";
    return breach;
  }
  const bool counts = now.integers.size() > 1 && other.integers.size() > 1 && draw_alike(train);
  if (counts && now.integers[1] != other.integers[1])
    return breach_at(step, index, "as many draws as rank 0", "more draws, or fewer");
  return std::nullopt;
}

}  // namespace

std::string no_generators_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  if (promises.known) return "nobody promises the seeds of this program";
  return promises.train.seed.policy == "unseeded" ? "the recipe seeds nothing" : "";
}

/// *Source*: torch.manual_seed, and "Reproducibility" (PyTorch 2.11).
Outcome judge_generators(const trace::RunTrace& run, const scenario::Promises& promises) {
  Outcome outcome;
  for (const trace::Step& step : run.ranks[0].steps) {
    const Record* first = step.find(Channel::kRng, kDefault);
    for (std::size_t rank = 0; rank < run.ranks.size() && !outcome.broken; ++rank) {
      const trace::Trace& of_rank = run.ranks[rank];
      const Record* now = of_rank.find(step.step, Channel::kRng, kDefault);
      if (now == nullptr) continue;
      ++outcome.judged;
      outcome.broken = seed_broken(of_rank, step, *now, promises.train);
      if (!outcome.broken && rank > 0 && first != nullptr)
        outcome.broken = ranks_broken(*now, *first, step.step, rank, promises.train);
    }
    if (outcome.broken) break;
  }
  return outcome;
}

}  // namespace lockstep::laws
