#include "harness/diagnosis/replicas_causes.h"

#include <algorithm>
#include <cmath>
#include <tuple>

#include "harness/base/text.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/own_gradients.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;
using trace::Record;

std::string ranks_of(const std::vector<std::size_t>& ranks) { return "rank " + listed(ranks); }

/// An update this long, relative to the weights, changes a float32 weight.
constexpr double kMoves = 0x1p-18;

/// Less left over than this, and a difference is a part of an earlier one.
constexpr double kPartRest = 0.05;

double size_of(const Held& held, Channel channel) {
  double squares = 0;
  for (const Record* record : held.all(channel)) squares += record->norm ? *record->norm * *record->norm : 0;
  return std::sqrt(squares);
}

/// Whether rate and gradients are large enough to move float32 weights.
bool must_move(const Held& now) {
  const double rate = laws::number_at(now, Channel::kLedger, "learning_rate");
  return rate > 0 && rate * laws::total_norm(laws::final_gradients(now)) > kMoves * size_of(now, Channel::kWeight);
}

}  // namespace

std::vector<Suspect> suspects_in_moving(const trace::RunTrace& run, std::int64_t step) {
  std::vector<std::size_t> resting, moving;
  bool moves_state = false;  // of a rank that rests
  std::string seen;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Held before(run, rank, step - 1), now(run, rank, step);
    if (before.all(Channel::kWeight).empty() || now.all(Channel::kWeight).empty()) return {};
    if (!laws::same(before, now, Channel::kWeight)) {
      moving.push_back(rank);
    } else if (must_move(now)) {
      if (!now.all(Channel::kOptimizer).empty() && !laws::same(now, before, Channel::kOptimizer)) moves_state = true;
      resting.push_back(rank);
      seen = "gradients of norm " + rounded(laws::total_norm(laws::final_gradients(now)), 4) + " and a rate of " +
             to_decimal(laws::number_at(now, Channel::kLedger, "learning_rate"));
    }
  }
  if (resting.empty() || resting.size() + moving.size() != run.ranks.size()) return {};
  const std::string evidence =
      place_of(run, step) + ": all weights of " + ranks_of(resting) + " stay unchanged, with " + seen;
  if (moving.empty()) {
    // An optimizer that holds other tensors never moves these.
    const std::vector<trace::Step>& steps = run.ranks[0].steps;
    const bool never = laws::same(Held(run, 0, steps.front().step), Held(run, 0, steps.back().step), Channel::kWeight);
    return never ? std::vector<Suspect>{{"opt.no_effect", {evidence}}} : std::vector<Suspect>{};
  }
  if (moves_state) return {};
  return {{"step.skip_disagree", {evidence, "the weights of " + ranks_of(moving) + " move"}}};
}

std::vector<Suspect> suspects_in_averages(const trace::RunTrace& run, const scenario::Promises& promises,
                                          std::int64_t step) {
  if (!promises.train.ema_decay || run.ranks.empty()) return {};
  const Held first(run, 0, step);
  std::vector<std::size_t> apart, resting;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Held before(run, rank, step - 1), now(run, rank, step);
    const bool rests = laws::same(now, before, Channel::kEma) && !now.all(Channel::kWeight).empty() &&
                       !laws::same(now, before, Channel::kWeight);
    if (rests) resting.push_back(rank);
    const bool held = !now.all(Channel::kEma).empty() && !first.all(Channel::kEma).empty();
    if (rank > 0 && held && laws::same(now, first, Channel::kWeight) && !laws::same(now, first, Channel::kEma))
      apart.push_back(rank);
  }
  std::vector<std::string> evidence;
  if (!resting.empty())
    evidence.push_back(place_of(run, step) + ": the averages of " + ranks_of(resting) +
                       " stay unchanged while the weights move");
  if (!apart.empty())
    evidence.push_back(place_of(run, step) + ": the averages of " + ranks_of(apart) +
                       " differ from rank 0's, although the weights agree");
  if (evidence.empty()) return {};
  return {{"ema.not_synced", evidence}};
}

namespace {

/// Ranks that hold other buffers than rank 0 and the same weights.
std::vector<Suspect> buffers_apart(const trace::RunTrace& run, const scenario::Promises& promises, std::int64_t step) {
  if (promises.train.has_own_buffers()) return {};
  std::vector<std::size_t> apart;
  const Held first(run, 0, step), before(run, 0, step - 1);
  bool were_same = true;
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    const Held now(run, rank, step);
    if (now.all(Channel::kBuffer).empty() || !laws::same(now, first, Channel::kWeight)) continue;
    if (!laws::same(now, first, Channel::kBuffer)) apart.push_back(rank);
    were_same = were_same && laws::same(Held(run, rank, step - 1), before, Channel::kBuffer);
  }
  // What ranks that held the same make of one batch is no matter of a broadcast.
  if (apart.empty() || (were_same && promises.train.ddp.broadcast_buffers)) return {};
  return {{"buffer.not_synced",
           {place_of(run, step) + ": the buffers of " + ranks_of(apart) +
            " differ from rank 0's, although the weights agree"}}};
}

/// What a rank's buffers have more than the other side's is a part of what they were apart from rank 0's before: a
/// broadcast would have wiped it out.
std::vector<Suspect> leftovers(const Side& side, const Side& other, std::int64_t step) {
  if (side.run->world_size() != other.run->world_size()) return {};
  // What rank 0 would broadcast is its own, whoever gets it.
  if (!laws::same(Held(*side.run, 0, step), Held(*other.run, 0, step), Channel::kBuffer)) return {};
  for (std::size_t rank = 1; rank < side.run->ranks.size(); ++rank) {
    const auto buffers = [&](const trace::RunTrace& run, std::size_t of, std::int64_t at) {
      return laws::made_of(Held(run, of, at).all(Channel::kBuffer));
    };
    laws::Made more = buffers(*side.run, rank, step), had = buffers(*side.run, rank, step - 1);
    for (auto& [name, sketch] : buffers(*other.run, rank, step))
      more[name] = laws::sum_of({{1, &more[name]}, {-1, &sketch}});
    for (auto& [name, sketch] : buffers(*side.run, 0, step - 1))
      had[name] = laws::sum_of({{1, &had[name]}, {-1, &sketch}});
    const auto part = laws::fit(more, {&had});
    if (!part || part->residual > kPartRest || part->coefficients[0] <= 0 || part->coefficients[0] > 1) continue;
    return {{"buffer.not_synced",
             {place_of(*side.run, step) + ": the buffers of rank " + std::to_string(rank) + " keep " +
                  rounded(part->coefficients[0], 4) + " of their earlier distance to rank 0's",
              "the other side's do not"}}};
  }
  return {};
}

/// Whether both update with the same: gradients, states and rates.
bool update_alike(const Held& one, const Held& other) {
  const auto rates_of = [](const Held& held) {
    std::vector<double> rates;
    for (const Record* entry : held.all(Channel::kLedger)) {
      if (entry->name.find(trace::entry::kLearningRate) != std::string::npos)
        rates.push_back(entry->number.value_or(NAN));
    }
    return rates;
  };
  return !laws::final_gradients(one).empty() && laws::same_final_gradients(one, other) &&
         (one.all(Channel::kOptimizer).empty() || laws::same(one, other, Channel::kOptimizer)) &&
         rates_of(one) == rates_of(other);
}

/// Whether two ranks change their weights by multiples of each other, at other rates, or one of them not at all; or
/// nearly by the same.
bool change_by_multiples(const Held& before, const Held& one, const Held& other) {
  const laws::Made was = laws::made_of(before.all(Channel::kWeight));
  const auto change = [&](const Held& held) {
    laws::Made change = laws::made_of(held.all(Channel::kWeight));
    for (auto& [name, sketch] : change) {
      if (const auto found = was.find(name); found != was.end()) sketch = trace::difference(sketch, found->second);
    }
    return change;
  };
  const laws::Made ours = change(one), theirs = change(other);
  const auto factor = laws::fit(theirs, {&ours});
  if (!factor) return true;
  const double apart = factor->coefficients[0] - 1;
  if (std::fabs(apart) > kPartRest) return factor->residual < kPartRest;
  return !(laws::apart(laws::made_of(other.all(Channel::kWeight)), laws::made_of(one.all(Channel::kWeight))) > kMoves);
}

/// The rank that goes on from its average, as far as the difference to another rank shows; empty: none does.
std::string average_in(const Held& before, const Held& one, const Held& other) {
  for (const Record* average : before.all(Channel::kEma)) {
    const Record *was = before.find(Channel::kWeight, average->name), *its = one.find(Channel::kWeight, average->name),
                 *others = other.find(Channel::kWeight, average->name);
    for (const Record* record : {static_cast<const Record*>(average), was, its, others}) {
      if (record == nullptr || !record->sketch) return "";
    }
    const auto apart = trace::scale_between(trace::difference(*average->sketch, *was->sketch),
                                            trace::difference(*its->sketch, *others->sketch));
    if (!apart || apart->residual > kPartRest || std::fabs(apart->factor - 1) > kPartRest) return "";
    return average->name;
  }
  return "";
}

/// Whether weights differ that no module in DDP has.
bool differs_outside(const Json& ddp, const Held& one, const Held& other) {
  const Json outside = ddp.value("outside", Json::array());
  return std::any_of(outside.begin(), outside.end(), [&](const Json& name) {
    const std::string weight = name.is_string() ? name.get<std::string>() : "";
    return !trace::same_bits(one.find(Channel::kWeight, weight), other.find(Channel::kWeight, weight));
  });
}

}  // namespace

std::vector<Suspect> suspects_in_written_weights(const Side& side, std::int64_t step) {
  if (!side.promises->known) return {};
  const trace::RunTrace& run = *side.run;
  const Json ddp = seen_of(run, "ddp");
  const bool are_given = ddp.is_object() && ddp.value("wrap", Json()) == true;
  const Held first(run, 0, step), before(run, 0, step - 1);
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    const Held its(run, rank, step), its_before(run, rank, step - 1);
    if (first.all(Channel::kWeight).empty() || laws::same(first, its, Channel::kWeight)) continue;
    const bool are_whole = trace::mesh_of(run).empty();
    const std::string ranks =
        "rank 0 and rank " + std::to_string(rank) + (are_whole ? "" : ", with the ranks that share their tensors,");
    if (run.ranks[0].steps.front().step == step) {
      if (!are_given || differs_outside(ddp, first, its)) return {};
      return {{"model.written_on_rank",
               {run.run + ", before the first update: the weights of " + ranks +
                " differ; DDP gave all ranks rank 0's when it wrapped the model"}}};
    }
    if (!laws::same(before, its_before, Channel::kWeight) || !update_alike(first, its) ||
        change_by_multiples(before, first, its))
      return {};
    std::vector<std::string> evidence{
        place_of(run, step) + ": " + ranks +
        " hold the same weights after the step before, and update with the same gradients, states and rates; the "
        "weights differ then"};
    for (const auto& [who, one, other] : {std::tuple(std::size_t{0}, &first, &its), std::tuple(rank, &its, &first)}) {
      if (!average_in(before, *one, *other).empty())
        evidence.push_back("rank " + std::to_string(who) +
                           " differs by what its average differs from its weights: it continued from the average");
    }
    return {{"model.written_on_rank", evidence}};
  }
  return {};
}

std::vector<Suspect> suspects_in_buffers(const Scene& scene) {
  const std::int64_t step = scene.at.step;
  if (scene.within_one_run() && scene.right.promises->train.has_own_buffers())
    return {{"model.batchnorm_local",
             {place_of(*scene.right.run, step) +
              ": each rank has normalised its own part of the batch since DDP broadcast the buffers"}}};
  auto found = between(scene, [&](const Side& side) { return buffers_apart(*side.run, *side.promises, step); });
  if (!found.empty() || !scene.left || !scene.right) return found;
  found = leftovers(scene.right, scene.left, step);
  return found.empty() ? leftovers(scene.left, scene.right, step) : found;
}

}  // namespace lockstep::diagnosis
