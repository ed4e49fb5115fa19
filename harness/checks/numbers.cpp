#include "harness/checks/numbers.h"

#include <algorithm>
#include <array>
#include <set>
#include <string_view>
#include <tuple>
#include <utility>

#include "harness/base/text.h"
#include "harness/checks/across_layouts.h"
#include "harness/compare/rounding.h"
#include "harness/laws/held.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/entry.h"

namespace lockstep::checks {
namespace {

using compare::Divergence;
using compare::Missing;
using trace::Channel;
using trace::RunTrace;

/// Options of torch's optimizers that choose a kernel, and no formula.
constexpr std::array<std::string_view, 4> kKernels = {"foreach", "fused", "capturable", "differentiable"};

/// What scripts record by lockstep.record.
constexpr std::array<Channel, 2> kOwnRecords = {Channel::kEma, Channel::kMetric};

/// Weights and what belongs to them.
constexpr std::array<Channel, 6> kOfWeights = {Channel::kWeight,    Channel::kGradient, Channel::kGradientLocal,
                                               Channel::kOptimizer, Channel::kBuffer,   Channel::kEma};

/// Whether a loader's samples are drawn from a generator of their own, which each epoch seeds.
bool samples_by_epoch(const RunTrace& run) {
  const Json sampler = laws::seen_of(run, "sampler");
  return sampler.is_object() && sampler.value("class", Json()) == "DistributedSampler";
}

/// Whether its inputs are a loader's batches: the training calls parts of its model, and never the whole.
bool takes_batches(const RunTrace& run) {
  const auto is_batch = [](const trace::Record& record) {
    return record.channel == Channel::kInput && record.name.starts_with("batch.");
  };
  return std::any_of(run.ranks[0].steps.begin(), run.ranks[0].steps.end(), [&](const trace::Step& step) {
    return std::any_of(step.records.begin(), step.records.end(), is_batch);
  });
}

bool rounds(Divergence at, const RunTrace& left, const RunTrace& right) {
  compare::name_rounding(at, left, right);
  return at.class_ == scenario::Class::kRounding;
}

/// Whether what the updates come to is equal, weights among it, and only the way there is not.
bool comes_to_the_same(const RunTrace& left, const RunTrace& right, std::vector<Channel> channels,
                       const compare::Scope& scope) {
  std::erase_if(channels, [](Channel channel) {
    return channel == Channel::kGradient || channel == Channel::kLedger || channel == Channel::kRng ||
           channel == Channel::kCollective;
  });
  const compare::Comparison rest = compare::compare_runs(left, right, channels, compare::bitwise, scope);
  return !rest.first && rest.channels.contains(Channel::kWeight) && rest.channels.contains(Channel::kLoss);
}

/// What the comparison looks behind.
class SetAside {
 public:
  /// `asked`: channels that somebody names; these are compared as they are.
  SetAside(const RunTrace& left, const RunTrace& right, const std::vector<Channel>& asked)
      : left_(left), right_(right), asked_(asked.begin(), asked.end()) {}

  /// Whether this is no difference of numbers; then it is not seen again.
  bool takes(const Divergence& at) {
    if (asked_.contains(at.channel)) return false;
    if (at.channel == Channel::kRng) return take_channel(at, "generators differ");
    if (at.channel == Channel::kCollective) return take_channel(at, "collectives differ");
    if (chooses_kernel(at.channel, at.tensor)) return take_name(at, "the option " + at.tensor + " differs");
    if (at.lacks(Missing::kRecord) && at.channel == Channel::kInput && takes_batches(left_) != takes_batches(right_))
      return take_channel(at, "one side alone calls its model as a whole, and inputs are named otherwise");
    if (at.lacks(Missing::kRecord) && is_own_record(at)) return lacks_.insert({at.channel, at.tensor, at.step}).second;
    if (at.lacks(Missing::kRecord) && at.channel == Channel::kLedger && is_in_effect(at))
      return lacks_.insert({at.channel, at.tensor, at.step}).second;
    if (at.lacks(Missing::kRecord) && at.channel == Channel::kGradientLocal &&
        !laws::records(side_that_lacks(at), at.channel))
      return take_channel(at, "one side alone has gradients before a reduction by DDP");
    if (at.lacks(Missing::kRecord) && at.tensor == trace::entry::kSamplesTaken &&
        !laws::records(side_that_lacks(at), Channel::kSamples))
      return take_name(at, "one side alone counts samples");
    if (at.channel == Channel::kGradient && final_gradients_agree())
      return take_channel(at, "gradients differ on the way to the same update");
    return at.lacks(Missing::kRecord) && take_weights(at);
  }

  bool skips(Channel channel, const std::string& name, std::int64_t step) const {
    return channels_.contains(channel) || names_.contains({channel, name}) || lacks_.contains({channel, name, step});
  }

  /// Whether a difference behind it may come of what was set aside. First weights are drawn; an update draws nothing
  /// and exchanges nothing. What else is drawn shows in the loss.
  bool may_explain(const Divergence& behind) const {
    const trace::Part part = trace::info(behind.channel).part;
    const bool is_of_update =
        part == trace::Part::kUpdated || part == trace::Part::kCounted || behind.channel == Channel::kEma;
    const bool is_drawn = behind.channel == Channel::kWeight && behind.step == trace::kInitialStep;
    if (is_of_update) return is_drawn && channels_.contains(Channel::kRng);
    if (trace::info(behind.channel).is_gradient() && laws::records(left_, Channel::kLoss))
      return channels_.contains(Channel::kCollective) || is_reduced_otherwise();
    const bool by_epoch = samples_by_epoch(left_) && samples_by_epoch(right_);
    if (behind.channel == Channel::kSamples && by_epoch) return channels_.contains(Channel::kCollective);
    return channels_.contains(Channel::kRng) || channels_.contains(Channel::kCollective) || is_reduced_otherwise();
  }

  /// The first of the channels that were set aside.
  const std::optional<Divergence>& first_channel() const { return first_channel_; }

  const std::string& lacking() const { return lacking_; }
  const std::vector<std::string>& notes() const { return notes_; }

 private:
  /// Whether one side reduces by DDP, and the other in a way of its own. Tensor parallelism reduces none.
  bool is_reduced_otherwise() const {
    return channels_.contains(Channel::kGradientLocal) && !laws::ddp_has(left_, "sharded") &&
           !laws::ddp_has(right_, "sharded");
  }

  /// Whether all updates of all ranks use the same gradients, whatever was recorded on the way to them.
  bool final_gradients_agree() const {
    for (std::size_t rank = 0; rank < left_.ranks.size(); ++rank) {
      for (const trace::Step& step : left_.ranks[rank].steps) {
        const laws::Held ours(left_, rank, step.step), theirs(right_, rank, step.step);
        if (!laws::same_final_gradients(ours, theirs)) return false;
      }
    }
    return true;
  }

  bool take_channel(const Divergence& at, const std::string& what) {
    channels_.insert(at.channel);
    if (!first_channel_) first_channel_ = at;
    notes_.push_back(what + " (first at " + at.place_and_rank() + ")");
    return true;
  }

  bool take_name(const Divergence& at, const std::string& what) {
    if (!names_.insert({at.channel, at.tensor}).second) return false;
    notes_.push_back(what);
    return true;
  }

  const RunTrace& side_that_lacks(const Divergence& at) const {
    return at.left.missing == Missing::kRecord ? left_ : right_;
  }

  /// A script's own record that a side lacks at its first step alone.
  bool is_own_record(const Divergence& at) const {
    const auto& steps = side_that_lacks(at).ranks[0].steps;
    return std::find(kOwnRecords.begin(), kOwnRecords.end(), at.channel) != kOwnRecords.end() && !steps.empty() &&
           at.step == steps.front().step;
  }

  /// A hyperparameter is recorded where it changes: the side without a record has the value that it had before. On all
  /// ranks both sides have the same.
  bool is_in_effect(const Divergence& at) const {
    const auto last = [&](const trace::Trace& rank) {
      const trace::Record* found = nullptr;
      for (const trace::Step& step : rank.steps) {
        const trace::Record* const here = step.step > at.step ? nullptr : step.find(at.channel, at.tensor);
        if (here != nullptr) found = here;
      }
      return found;
    };
    for (std::size_t rank = 0; rank < std::min(left_.ranks.size(), right_.ranks.size()); ++rank) {
      const trace::Record *const ours = last(left_.ranks[rank]), *const theirs = last(right_.ranks[rank]);
      if (ours == nullptr || theirs == nullptr || !trace::same_bits(ours, theirs)) return false;
    }
    return true;
  }

  bool take_weights(const Divergence& at) {
    if (std::find(kOfWeights.begin(), kOfWeights.end(), at.channel) == kOfWeights.end()) return false;
    const RunTrace& side = side_that_lacks(at);
    if (!lacking_.empty() || laws::records(side, Channel::kWeight)) return false;
    lacking_ = side.run + " recorded no weight";
    for (const Channel channel : kOfWeights) channels_.insert(channel);
    return true;
  }

  const RunTrace &left_, &right_;
  std::set<Channel> asked_;
  std::set<Channel> channels_;
  std::optional<Divergence> first_channel_;
  std::set<std::pair<Channel, std::string>> names_;
  std::set<std::tuple<Channel, std::string, std::int64_t>> lacks_;  ///< what a side has not at its first step
  std::vector<std::string> notes_;
  std::string lacking_;
};

}  // namespace

/// Without the prefix of one optimizer of several and the suffix of one group of several.
bool chooses_kernel(Channel channel, const std::string& name) {
  return channel == Channel::kLedger && std::any_of(kKernels.begin(), kKernels.end(), [&](std::string_view option) {
           const std::size_t place = name.find(option);
           if (place == std::string::npos) return false;
           const std::string_view behind = std::string_view(name).substr(place + option.size());
           return (place == 0 || name[place - 1] == '.') && (behind.empty() || behind[0] == '.' || behind[0] == '[');
         });
}

CheckResult compare_numbers(const RunTrace& left, const RunTrace& right, std::vector<Channel> channels,
                            const CheckInput& input, const compare::Scope& within) {
  const compare::Scope scope = across_layouts(left, right, within);
  const std::string unlike = leave_collectives_out(left, right, input, channels);
  CheckResult result = result_of(compare::compare_runs(left, right, channels, compare::bitwise, scope), input);
  if (!input.promises_of(left).known || !input.promises_of(right).known) return result;
  SetAside aside(left, right, input.spec.channels);
  compare::Scope behind = scope;
  behind.skip = [&](Channel channel, const std::string& name, std::int64_t step) {
    return aside.skips(channel, name, step) || (scope.skip && scope.skip(channel, name, step));
  };
  while (result.divergence && aside.takes(*result.divergence)) {
    result = result_of(compare::compare_runs(left, right, channels, compare::bitwise, behind), input);
  }
  if (result.divergence && comes_to_the_same(left, right, channels, scope)) {
    Divergence& at = *result.divergence;
    at.class_ = scenario::Class::kExpected;
    at.cause = "all weights, losses and states are equal: the two sides compute them in different ways";
    return result;
  }
  if (result.divergence) {
    const bool is_behind = !rounds(*result.divergence, left, right) && aside.may_explain(*result.divergence);
    if (is_behind) result.divergence = aside.first_channel();
    return result;
  }
  std::vector<std::string> notes = aside.notes();
  if (!unlike.empty()) notes.push_back(unlike);
  if (std::string left_out = left_out_across_layouts(left, right); !left_out.empty()) notes.push_back(left_out);
  if (result.status == CheckResult::Status::kAgree && !notes.empty())
    result.why = "all numbers are equal; " + join(notes, "; ");
  if (result.status == CheckResult::Status::kAgree && !aside.lacking().empty()) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = aside.lacking() + (result.why.empty() ? "" : "; " + result.why);
    result.next = "record the weights on both sides";
  }
  return result;
}

void name_equal_numbers(Divergence& at, const RunTrace& left, const RunTrace& right, std::vector<Channel> channels,
                        const CheckInput& input) {
  if (at.channel != Channel::kCollective || !input.spec.channels.empty()) return;
  std::erase(channels, Channel::kCollective);
  const compare::Comparison rest = compare::compare_runs(left, right, channels, compare::bitwise);
  if (rest.first || !rest.channels.contains(Channel::kWeight)) return;
  at.cause = "all numbers are equal; collectives differ: look at buckets, and at what else is exchanged";
  if (at.class_ == scenario::Class::kSemantic) at.class_ = scenario::Class::kExpected;
}

}  // namespace lockstep::checks
