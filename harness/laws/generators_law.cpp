#include <algorithm>
#include <map>
#include <set>
#include <utility>
#include <vector>

#include "harness/laws/first_weights.h"
#include "harness/laws/law.h"
#include "harness/recipe/seeds.h"
#include "harness/trace/entry.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::Record;

constexpr const char* kDefault = "cpu";  ///< the generator that data and weights are drawn from
constexpr std::int64_t kBlock = 624;     ///< numbers in a block of the Mersenne Twister

/// Seed of a rank, where the recipe says it in numbers.
std::optional<std::int64_t> seed_of(const recipe::SeedSpec& spec, std::int64_t rank) {
  if (spec.policy == recipe::SeedPolicy::kUnseeded) return std::nullopt;
  return static_cast<std::int64_t>(recipe::seed_of_rank(spec, rank));
}

bool has_own_seeds(const recipe::SeedSpec& spec) {
  return spec.policy == recipe::SeedPolicy::kAddRank || spec.policy == recipe::SeedPolicy::kMtList;
}

/// Whether every rank draws as often as the others in each step. Crops are drawn until they fit, and a dispatching
/// rank 0 draws the order for all.
bool draw_alike(const recipe::TrainSpec& train) {
  return train.sampler.kind != recipe::SamplerKind::kDispatch && train.augmentation() != recipe::Augmentation::kRank &&
         !train.checkpoint.load;
}

Breach generator_breach(std::int64_t step, std::int64_t rank, std::string expected, std::string actual,
                        const std::string& generator = kDefault) {
  return {.at = {step, Channel::kRng, generator, rank}, .expected = std::move(expected), .actual = std::move(actual)};
}

/// A rank keeps the seed that its recipe gives it.
std::optional<Breach> seed_broken(const trace::Trace& rank, const trace::Step& step, const Record& now,
                                  const recipe::TrainSpec& train) {
  if (now.integers.empty()) return std::nullopt;
  const Record* first = rank.steps.front().find(Channel::kRng, kDefault);
  const auto expected = train.checkpoint.load ? std::nullopt : seed_of(train.seed, rank.rank);
  if (expected && now.integers[0] != *expected)
    return generator_breach(step.step, rank.rank, "the seed " + std::to_string(*expected),
                            "the seed " + std::to_string(now.integers[0]));
  if (first == nullptr || first->integers.empty() || first->integers[0] == now.integers[0]) return std::nullopt;
  return generator_breach(step.step, rank.rank, "the seed that the training began with",
                          "it is seeded again: " + std::to_string(now.integers[0]));
}

std::string clone_of(const recipe::TrainSpec& train) {
  if (train.augmentation() == recipe::Augmentation::kRank) return "rng.augment_rank_clone";
  return train.drops() ? "rng.dropout_clone" : "";
}

/// Two ranks draw different numbers, equally many.
std::optional<Breach> ranks_broken(const Record& now, const Record& other, std::int64_t step, std::size_t rank,
                                   const recipe::TrainSpec& train) {
  const auto index = static_cast<std::int64_t>(rank);
  if (has_own_seeds(train.seed) && trace::same_bits(&now, &other)) {
    Breach breach = generator_breach(step, index, "another state than rank 0's", "the same state", now.name);
    breach.cause = clone_of(train);
    breach.evidence = "the recipe gives each rank a seed of its own, and rank 0 and rank " + std::to_string(rank) +
                      " draw the same numbers";
    return breach;
  }
  return std::nullopt;
}

/// All ranks draw equally many numbers. The one to blame is not of the majority, or where there is none, draws more.
std::optional<Breach> counts_broken(const trace::RunTrace& run, std::int64_t step, const recipe::TrainSpec& train) {
  std::vector<std::int64_t> counts;
  for (const trace::Trace& rank : run.ranks) {
    const Record* now = rank.find(step, Channel::kRng, kDefault);
    if (now == nullptr || now->integers.size() < 2 || !draw_alike(train)) return std::nullopt;
    counts.push_back(now->integers[1]);
  }
  const auto ahead = [&](std::size_t rank) {  // of rank 0
    const std::int64_t more = (counts[rank] - counts[0] + kBlock) % kBlock;
    return more > kBlock / 2 ? more - kBlock : more;
  };
  std::size_t blamed = 0;
  for (std::size_t rank = 0; rank < counts.size(); ++rank) {
    const auto alike = std::count(counts.begin(), counts.end(), counts[rank]);
    if (alike == std::ssize(counts)) return std::nullopt;
    const auto alike_blamed = std::count(counts.begin(), counts.end(), counts[blamed]);
    if (alike < alike_blamed || (alike == alike_blamed && ahead(rank) > ahead(blamed))) blamed = rank;
  }
  return generator_breach(step, static_cast<std::int64_t>(blamed), "as many draws as the other ranks",
                          "more draws, or fewer");
}

/// A generator goes on: no state comes again, and what a model drops is drawn.
std::optional<Breach> goes_back(const trace::Trace& rank, const std::string& generator, bool drops) {
  std::map<std::pair<std::uint64_t, std::uint64_t>, std::int64_t> seen;
  std::optional<trace::Digest> last;
  for (const trace::Step& step : rank.steps) {
    const Record* now = step.find(Channel::kRng, generator);
    if (now == nullptr) continue;
    const auto [before, is_new] = seen.try_emplace({now->digest.high, now->digest.low}, step.step);
    const bool stands = last && *last == now->digest;
    if (stands && drops)
      return generator_breach(step.step, rank.rank, "the draws of the model's dropout",
                              "the state of the step before: nothing was drawn, or it was seeded again", generator);
    if (!is_new && !stands)
      return generator_breach(
          step.step, rank.rank, "a state that it has not had",
          "the state of step " + std::to_string(before->second) + ": it was seeded again, or restored", generator);
    last = now->digest;
  }
  return std::nullopt;
}

/// The device's generator, from which a model drops, and the default one.
std::optional<Breach> generators_go_back(const trace::Trace& rank, const recipe::TrainSpec& train) {
  std::optional<Breach> first = goes_back(rank, train.device, train.drops());
  if (train.device == kDefault) return first;
  std::optional<Breach> other = goes_back(rank, kDefault, /*drops=*/false);
  return other && (!first || other->at.step < first->at.step) ? other : first;
}

/// A few numbers more, as a seed for another generator takes.
constexpr std::int64_t kFewDraws = 16;

/// So many steps tell how much is drawn.
constexpr std::size_t kSteps = 3;

/// Steps that have to draw equally many numbers: of one epoch's inner steps, with inputs of equal shapes.
struct DrawCount {
  std::int64_t step = 0, count = 0;  ///< modulo a block
};

using Alike = std::pair<std::vector<std::vector<std::int64_t>>, std::int64_t>;

std::vector<std::vector<std::int64_t>> shapes_of(const trace::Step& step) {
  std::vector<std::vector<std::int64_t>> shapes;
  for (const Record& record : step.records) {
    if (record.channel == Channel::kInput) shapes.push_back(record.shape);
  }
  return shapes;
}

std::int64_t epoch_of(const trace::Step& step) {
  const Record* epoch = step.find(Channel::kLedger, trace::entry::kEpoch);
  return epoch == nullptr || epoch->integers.empty() ? -1 : epoch->integers[0];
}

std::map<Alike, std::vector<DrawCount>> draws_of(const trace::Trace& rank, const recipe::TrainSpec& train) {
  std::map<Alike, std::vector<DrawCount>> draws;
  const std::int64_t every = train.evaluation ? std::max<std::int64_t>(train.evaluation->every, 1) : 1;
  for (std::size_t i = 1; i + 1 < rank.steps.size(); ++i) {
    const trace::Step &before = rank.steps[i - 1], &step = rank.steps[i];
    const Record *was = before.find(Channel::kRng, kDefault), *now = step.find(Channel::kRng, kDefault);
    const auto shapes = shapes_of(step);
    const bool inner = epoch_of(step) >= 0 && epoch_of(before) == epoch_of(step) &&
                       epoch_of(rank.steps[i + 1]) == epoch_of(step) && before.step + 1 == step.step;
    if (!inner || shapes.empty() || was == nullptr || now == nullptr) continue;
    if (was->integers.size() < 2 || now->integers.size() < 2 || was->integers[0] != now->integers[0]) continue;
    draws[{shapes, step.step % every}].push_back({step.step, (now->integers[1] - was->integers[1] + kBlock) % kBlock});
  }
  return draws;
}

/// Most steps with the same inputs draw the same; one draws more, or fewer.
std::optional<Breach> draws_otherwise(const trace::Trace& rank, const recipe::TrainSpec& train) {
  if (!draw_alike(train) || train.record.every != 1) return std::nullopt;
  std::optional<Breach> first;
  for (const auto& [alike, steps] : draws_of(rank, train)) {
    std::map<std::int64_t, std::size_t> times;
    for (const DrawCount& of : steps) ++times[of.count];
    const auto most =
        std::max_element(times.begin(), times.end(), [](const auto& a, const auto& b) { return a.second < b.second; });
    if (2 * most->second <= steps.size() || most->second < kSteps) continue;
    for (const DrawCount& of : steps) {
      if (of.count == most->first || (first && first->at.step <= of.step)) continue;
      const std::int64_t more = (of.count - most->first + kBlock) % kBlock;
      first = generator_breach(of.step, rank.rank, "as many draws as in other steps with such inputs",
                               more <= kFewDraws ? std::to_string(more) + " numbers more" : "more draws, or fewer");
      if (more <= kFewDraws) first->cause = "rng.loader_draw";
      first->evidence = "this step draws " + std::to_string(more) + " numbers more than " +
                        std::to_string(most->second) + " other steps with inputs of the same shapes";
    }
  }
  return first;
}

/// Numbers of the Mersenne Twister that a loop over a loader draws: a seed of 64 bits.
constexpr std::int64_t kOfLoop = 2;

/// What most of these steps draw; nothing where too few agree.
std::optional<std::int64_t> usual(const std::vector<DrawCount>& steps) {
  std::map<std::int64_t, std::size_t> times;
  for (const DrawCount& of : steps) ++times[of.count];
  for (const auto& [count, often] : times) {
    if (2 * often > steps.size() && often >= kSteps - 1) return count;
  }
  return std::nullopt;
}

/// An evaluation draws what its loops over a loader draw, and no more: it drops nothing and augments nothing.
std::optional<Breach> evaluation_draws(const trace::Trace& rank, const recipe::TrainSpec& train) {
  if (!train.evaluation || train.evaluation->every < 2 || !draw_alike(train) || train.record.every != 1)
    return std::nullopt;
  const std::int64_t every = train.evaluation->every;
  const bool has_rest =
      train.evaluation->shares == recipe::Shares::kLeftovers && train.evaluation->samples % rank.world_size != 0;
  const std::int64_t expected = kOfLoop * (has_rest ? 2 : 1);
  const auto draws = draws_of(rank, train);
  for (const auto& [alike, steps] : draws) {
    if (alike.second != every - 1) continue;  // the steps that an evaluation follows
    for (std::int64_t phase = 0; phase + 1 < every; ++phase) {
      const auto without = draws.find({alike.first, phase});
      if (without == draws.end()) continue;
      const auto with = usual(steps), bare = usual(without->second);
      if (!with || !bare) continue;
      const std::int64_t more = (*with - *bare + kBlock) % kBlock;
      if (more == expected) continue;
      return generator_breach(steps.front().step, rank.rank,
                              std::to_string(expected) + " numbers for the loaders of its evaluation",
                              std::to_string(more) + " numbers more than a step without evaluation");
    }
  }
  return std::nullopt;
}

}  // namespace

std::string no_generators_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  if (promises.known) return "this program's seeds are not promised";
  return promises.train.seed.policy == recipe::SeedPolicy::kUnseeded ? "the recipe seeds nothing" : "";
}

/// *Source*: torch.manual_seed, and "Reproducibility" (PyTorch 2.11).
Outcome judge_generators(const trace::RunTrace& run, const scenario::Promises& promises) {
  Outcome outcome;
  outcome.broken = first_weights_broken(run, promises, outcome.judged);
  if (outcome.broken) return outcome;
  const std::set<std::string> generators{kDefault, promises.train.device};
  for (const trace::Step& step : run.ranks[0].steps) {
    for (std::size_t rank = 0; rank < run.ranks.size() && !outcome.broken; ++rank) {
      const trace::Trace& of_rank = run.ranks[rank];
      const Record* now = of_rank.find(step.step, Channel::kRng, kDefault);
      if (now == nullptr) continue;
      ++outcome.judged;
      outcome.broken = seed_broken(of_rank, step, *now, promises.train);
      for (const std::string& generator : generators) {
        const Record *its = of_rank.find(step.step, Channel::kRng, generator),
                     *first = step.find(Channel::kRng, generator);
        if (!outcome.broken && rank > 0 && its != nullptr && first != nullptr)
          outcome.broken = ranks_broken(*its, *first, step.step, rank, promises.train);
      }
    }
    if (!outcome.broken) outcome.broken = counts_broken(run, step.step, promises.train);
    if (outcome.broken) break;
  }
  for (const trace::Trace& rank : run.ranks) {
    for (const auto& rule : {generators_go_back, draws_otherwise, evaluation_draws}) {
      const auto found = rule(rank, promises.train);
      const bool is_earlier = found && outcome.broken && found->at.step < outcome.broken->at.step;
      // A rank that draws otherwise than in its other steps is told with the number.
      const bool tells_more = found && outcome.broken && !found->cause.empty() && outcome.broken->cause.empty() &&
                              found->at.step == outcome.broken->at.step && found->at.rank == outcome.broken->at.rank;
      if (found && (!outcome.broken || is_earlier || tells_more)) outcome.broken = found;
    }
  }
  return outcome;
}

}  // namespace lockstep::laws
