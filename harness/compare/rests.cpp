#include "harness/compare/rests.h"

#include <algorithm>
#include <string>
#include <utility>
#include <vector>

namespace lockstep::compare {
namespace {

using trace::Rest;

using Shown = std::pair<std::string, std::string>;

/// The first entries that differ, as texts.
template <typename Values, typename Show>
Shown first_unlike(const Values& left, const Values& right, const std::string& what, Show show) {
  const auto [one, other] = std::mismatch(left.begin(), left.end(), right.begin(), right.end());
  return {what + (one == left.end() ? "not there" : show(*one)),
          what + (other == right.end() ? "not there" : show(*other))};
}

/// What of the two differs first: expected and actual.
Shown difference_of(const Rest& left, const Rest& right) {
  if (left.micro_batches != right.micro_batches)
    return {"micro-batches: " + std::to_string(left.micro_batches),
            "micro-batches: " + std::to_string(right.micro_batches)};
  if (left.samples != right.samples)
    return first_unlike(left.samples, right.samples, "sample ", [](std::int64_t id) { return std::to_string(id); });
  return first_unlike(left.losses, right.losses,
                      "loss: ", [](const std::string& digest) { return "digest " + digest; });
}

}  // namespace

std::optional<Divergence> compare_rests(const RankAndRest& left, const RankAndRest& right, std::int64_t rank) {
  if (left.rest == right.rest || left.run.ranks.empty() || left.run.ranks[0].steps.empty()) return std::nullopt;
  const auto [expected, actual] = difference_of(left.rest.value_or(Rest()), right.rest.value_or(Rest()));
  return Divergence{.step = left.run.ranks[0].steps.back().step + 1,
                    .rank = rank,
                    .phase = "passes that no update follows",
                    .left = left.run.run,
                    .right = right.run.run,
                    .expected = expected,
                    .actual = actual,
                    .class_ = scenario::Class::kSemantic,
                    .cause =
                        "the trainings are equal bit for bit up to their last update, but not after it; look at the "
                        "batches that are left over"};
}

}  // namespace lockstep::compare
