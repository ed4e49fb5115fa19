#include <algorithm>
#include <set>
#include <string>

#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/held.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/collective_record.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;

/// Numbers of elements that a rank gathers in a step, and gives back.
struct Exchanged {
  std::multiset<std::int64_t> gathered;
  std::multiset<std::int64_t> returned;  ///< by what the backward pass of a gathering may issue
  std::multiset<std::string> others;
};

/// Operations by which a rank gives back gradients of what it gathered.
const std::set<std::string> kReturning = {"scatter", "reduce_scatter", "reduce", "alltoall", "allreduce"};

Exchanged exchanged_in(const Held& held) {
  Exchanged exchanged;
  for (const trace::Record* record : held.all(Channel::kCollective)) {
    const auto collective = trace::collective_of(*record);
    if (!collective || !collective->elements) continue;
    const std::string operation(collective->operation);
    if (operation == "allgather")
      exchanged.gathered.insert(*collective->elements);
    else if (kReturning.contains(operation))
      exchanged.returned.insert(*collective->elements);
    else
      exchanged.others.insert(record->text);
  }
  return exchanged;
}

/// What one side gives back and the other does not.
std::multiset<std::int64_t> more_of(const Exchanged& side, const Exchanged& other) {
  std::multiset<std::int64_t> more;
  std::set_difference(side.returned.begin(), side.returned.end(), other.returned.begin(), other.returned.end(),
                      std::inserter(more, more.end()));
  return more;
}

/// Whether the losses of all ranks are equal, and there are some.
bool same_losses(const Scene& scene) {
  for (std::size_t rank = 0; rank < scene.right.run->ranks.size(); ++rank) {
    if (!laws::same(Held(*scene.left.run, rank, scene.at.step), Held(*scene.right.run, rank, scene.at.step),
                    Channel::kLoss))
      return false;
  }
  return true;
}

}  // namespace

std::vector<Suspect> suspects_in_gathered(const Scene& scene) {
  if (!is_between_programs(scene) || scene.left.run->world_size() != scene.right.run->world_size()) return {};
  const auto gathers_weights = [](const Side& side) { return laws::ddp_has(*side.run, "sharded"); };
  if (gathers_weights(scene.left) || gathers_weights(scene.right)) return {};
  const std::int64_t step = scene.at.step, ranks = scene.right.run->world_size();
  const Exchanged left = exchanged_in(Held(*scene.left.run, scene.left.rank, step)),
                  right = exchanged_in(Held(*scene.right.run, scene.right.rank, step));
  if (left.gathered.empty() || left.gathered != right.gathered || left.others != right.others) return {};
  const auto lefts = more_of(left, right), rights = more_of(right, left);
  if (lefts.empty() == rights.empty() || !same_losses(scene)) return {};
  const std::multiset<std::int64_t>& more = lefts.empty() ? rights : lefts;
  const bool are_theirs = std::all_of(more.begin(), more.end(), [&](std::int64_t elements) {
    return left.gathered.contains(elements) || (elements % ranks == 0 && left.gathered.contains(elements / ranks));
  });
  if (!are_theirs) return {};
  const Side &with = lefts.empty() ? scene.right : scene.left, &without = lefts.empty() ? scene.left : scene.right;
  return {
      {"grad.gather_detached",
       {place_of(*without.run, step) + ": both sides gather the same numbers of elements, and their losses are equal",
        with.run->run + " gives gradients of " + std::to_string(*more.begin()) +
            " elements back to the ranks that they came from, " + without.run->run + " does not"}}};
}

}  // namespace lockstep::diagnosis
