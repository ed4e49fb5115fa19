#include <algorithm>

#include "harness/compare/check.h"

namespace lockstep::compare {
namespace {

using trace::Channel;

bool is_state(Channel channel) {
  return channel == Channel::kRng || channel == Channel::kOptimizer || channel == Channel::kWeight || channel == Channel::kBuffer || channel == Channel::kEma;
}

}  // namespace

/// The resumed run's first line is its state after loading: it must be the straight run's state after the same update.
/// From there on every record must be equal, to the straight run's last step.
CheckResult check_resumes(const CheckInput& input) {
  const trace::RunTrace& straight = *input.of(input.spec.straight).front();
  const trace::RunTrace& resumed = *input.of(input.spec.interrupted).front();
  if (resumed.ranks[0].steps.empty()) return {.status = CheckResult::Status::kInconclusive, .why = "the resumed run recorded no step"};
  const std::int64_t loaded = resumed.ranks[0].steps.front().step;
  const trace::Step* last = straight.ranks[0].steps.empty() ? nullptr : &straight.ranks[0].steps.back();
  if (last == nullptr || loaded >= last->step) {
    return {.status = CheckResult::Status::kInconclusive, .why = "the two runs have no step in common after the checkpoint", .next = "save earlier, or train longer"};
  }
  Walk walk{.pairs = pairs_between(straight, resumed), .channels = channels_of(input, straight.world_size() == resumed.world_size()), .relation = bitwise, .first_step = loaded, .left_name = straight.run, .right_name = resumed.run};
  // A resumed run rebuilds its buckets once more and broadcasts the layout: an extra collective, not another result.
  if (input.spec.channels.empty()) std::erase(walk.channels, Channel::kCollective);
  walk.skip = [loaded](Channel channel, const std::string&, std::int64_t step) { return step == loaded && !is_state(channel); };
  CheckResult result = result_of(compare(walk));
  if (result.divergence) {
    result.divergence->cause = "the resumed training is not the interrupted one; " + result.divergence->cause;
    if (result.divergence->step == loaded) result.divergence->cause += " (already in the state after loading)";
  }
  return result;
}

}  // namespace lockstep::compare
