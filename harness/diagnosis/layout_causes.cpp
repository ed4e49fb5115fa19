#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/same_numbers.h"
#include "harness/laws/held.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Record;

std::vector<Suspect> suspects_among_ranks(const Side& side, const compare::Divergence& at) {
  if (trace::info(at.channel).sharing != trace::Sharing::kReplicated) return {};
  const Record* first = Held(*side.run, 0, at.step).find(at.channel, at.tensor);
  for (std::size_t rank = 1; rank < side.run->ranks.size() && first != nullptr; ++rank) {
    const Record* its = Held(*side.run, rank, at.step).find(at.channel, at.tensor);
    if (its == nullptr || its->shape.size() < 2 || !same_numbers(*first, *its)) continue;
    return {{"comm.noncontiguous",
             {at.place() + ", " + side.run->run + ": rank " + std::to_string(rank) +
              " has rank 0's norm and largest element, but other bits: the same numbers in another layout"}}};
  }
  return {};
}

}  // namespace

std::vector<Suspect> suspects_in_layout(const Scene& scene) {
  return between(scene, [&](const Side& side) { return suspects_among_ranks(side, scene.at); });
}

}  // namespace lockstep::diagnosis
