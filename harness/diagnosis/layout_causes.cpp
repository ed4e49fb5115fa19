#include <cmath>

#include "harness/diagnosis/diagnosers.h"
#include "harness/laws/held.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Record;

/// Whether two matrices have their largest element and their norm in common, and neither their bits nor, but for the
/// sign, their directions: they are made of the same numbers.
bool made_of_the_same(const Record& a, const Record& b) {
  if (a.digest == b.digest || a.shape != b.shape || a.shape.size() < 2 || !a.norm || !b.norm || !a.max_abs)
    return false;
  constexpr double kOrderOfAdding = 1e-12;  // the norm is a float64 sum of squares
  const bool alike = a.max_abs == b.max_abs && *a.norm > 0 && std::fabs(*a.norm - *b.norm) <= kOrderOfAdding * *a.norm;
  if (!alike || !a.sketch || !b.sketch) return false;
  constexpr double kOneDirection = 0.03;
  const auto scale = trace::scale_between(*a.sketch, *b.sketch);
  return scale && scale->residual > kOneDirection;
}

std::vector<Suspect> suspects_among_ranks(const Side& side, const compare::Divergence& at) {
  if (trace::info(at.channel).sharing != trace::Sharing::kReplicated) return {};
  const Record* first = Held(*side.run, 0, at.step).find(at.channel, at.tensor);
  for (std::size_t rank = 1; rank < side.run->ranks.size() && first != nullptr; ++rank) {
    const Record* its = Held(*side.run, rank, at.step).find(at.channel, at.tensor);
    if (its == nullptr || !made_of_the_same(*first, *its)) continue;
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
