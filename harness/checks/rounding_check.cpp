#include <algorithm>
#include <map>
#include <utility>

#include "harness/base/text.h"
#include "harness/checks/across_layouts.h"
#include "harness/checks/check.h"
#include "harness/checks/steep_updates.h"
#include "harness/compare/beyond_rounding.h"
#include "harness/compare/rounding.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::checks {
namespace {

using laws::Reduction;
using laws::ReductionLaw;

std::string place(std::int64_t step, trace::Channel channel, const std::string& tensor) {
  return "step " + std::to_string(step) + ", " + std::string(trace::name_of(channel)) + " " + tensor;
}

/// Makes ranks of one run that disagree the finding, unless the runs part before. Where they part in the same channel
/// of the same step, that says more.
void deny_where_ranks_disagree(CheckResult& result, const trace::RunTrace& run,
                               const std::vector<trace::Channel>& channels) {
  auto apart = ranks_apart(run, channels);
  if (!apart) return;
  const auto when = [](const compare::Divergence& at) { return std::pair(at.step, at.channel); };
  if (!result.divergence || when(*apart) < when(*result.divergence)) {
    result = {.status = CheckResult::Status::kDivergence,
              .compared = result.compared,
              .divergence = std::move(apart),
              .is_no_rounding = true};
  } else if (when(*apart) == when(*result.divergence)) {
    result.is_no_rounding = true;
  }
}

/// Whether a record is not finite, or near where float32 ends: rounding decides which.
bool overflows(const trace::Record* record) {
  constexpr double kNearTheEnd = 0x1p120;
  return record != nullptr && record->norm && !(*record->norm <= kNearTheEnd);
}

/// Whether an optimizer makes its update in bfloat16, whatever its weights have: Muon orthogonalizes so.
bool updates_coarsely(const trace::RunTrace& run) {
  const Json optimizers = laws::seen_of(run, "optimizer");
  return std::any_of(optimizers.begin(), optimizers.end(),
                     [](const Json& one) { return one.is_object() && one.value("class", Json()) == Json("Muon"); });
}

/// Reduced gradients of two runs, each held against what the ranks' own make: sharper than any bound on what two
/// trainings may have come to, and blind to everything else.
class Reductions {
 public:
  Reductions(const trace::RunTrace& left, const trace::RunTrace& right, const CheckInput& input)
      : left_(law_of(left, input)), right_(law_of(right, input)) {}

  /// What one side's gradient is, where the other's is the mean that was promised; nothing where both are, or neither.
  std::optional<std::string> odd_one(const trace::Record& gradient, std::int64_t step, std::int64_t rank) {
    if (laws::changed_by_hand(left_.run, step) || laws::changed_by_hand(right_.run, step)) return std::nullopt;
    const auto left = left_.broken(gradient.name, step, rank), right = right_.broken(gradient.name, step, rank);
    if (left.has_value() == right.has_value()) return std::nullopt;
    return std::string(left ? "the left" : "the right") +
           " side's does not follow from the ranks' own gradients: " + (left ? *left : *right);
  }

 private:
  struct Judged {
    const trace::RunTrace& run;
    ReductionLaw law;
    std::map<std::pair<std::int64_t, std::int64_t>, Reduction> judged = {};

    std::optional<std::string> broken(const std::string& name, std::int64_t step, std::int64_t rank) {
      const std::pair at(step, rank < run.world_size() ? rank : 0);
      const auto [found, is_new] = judged.try_emplace(at);
      if (is_new) found->second = law.judge(at.first, at.second);
      const Reduction& reduction = found->second;
      if (std::find(reduction.broken.begin(), reduction.broken.end(), name) == reduction.broken.end())
        return std::nullopt;
      return reduction.broken[0] + " is " + rounded(reduction.distance, 3) + " away; rounding explains " +
             rounded(reduction.bound, 3);
    }
  };

  static Judged law_of(const trace::RunTrace& run, const CheckInput& input) {
    return {run, ReductionLaw(run, input.promises_of(run))};
  }

  Judged left_, right_;
};

}  // namespace

std::vector<trace::Channel> rounding_channels(const scenario::CheckSpec& spec, std::vector<trace::Channel> all) {
  if (!spec.channels.empty()) return all;
  std::erase_if(all, [](trace::Channel channel) {
    const trace::Part part = trace::info(channel).part;
    return part == trace::Part::kExchanged || part == trace::Part::kGenerator;
  });
  return all;
}

std::vector<trace::Channel> rounding_channels(const scenario::CheckSpec& spec, std::vector<trace::Channel> all,
                                              const trace::RunTrace& left, const trace::RunTrace& right) {
  all = rounding_channels(spec, std::move(all));
  const auto lacks = [](const trace::RunTrace& run) {
    return laws::ddp_has(run, "sharded") && !laws::records(run, trace::Channel::kGradientLocal);
  };
  if (spec.channels.empty() && lacks(left) != lacks(right)) std::erase(all, trace::Channel::kGradientLocal);
  return all;
}

CheckResult judge_rounding(const trace::RunTrace& reference, const trace::RunTrace& other,
                           const std::vector<trace::Channel>& channels, const CheckInput& input,
                           const compare::Scope& scope, Rerun rerun) {
  const bool are_programs = input.promises_of(reference).known && input.promises_of(other).known;
  const bool believes_steep = are_programs || rerun == Rerun::kNever;
  const compare::RoundingBound bound(reference, other);
  Reductions reductions(reference, other, input);
  SteepUpdates steep(reference, other, input);
  std::string may_be_factor;
  const compare::Relation relation = [&](const trace::Record& a, const trace::Record& b, std::int64_t step,
                                         std::int64_t rank) -> std::optional<std::string> {
    const auto beyond = compare::within(bound)(a, b, step, rank);
    if (beyond && believes_steep && steep.explain(bound, a, b, step)) return std::nullopt;
    if (beyond || trace::same_bits(&a, &b)) return beyond;
    if (may_be_factor.empty() && !steep.left_out(a)) {
      const auto rounding = bound.judge(a, b, step, rank);
      if (rounding && rounding->may_be_factor()) may_be_factor = place(step, a.channel, a.name);
    }
    return a.channel == trace::Channel::kGradient ? reductions.odd_one(a, step, rank) : beyond;
  };
  const compare::Scope comparable = across_layouts(reference, other, scope);
  CheckResult result = result_of(compare::compare_runs(reference, other, channels, relation, comparable), input);
  const auto leave_open = [&](const std::string& why, const std::string& next) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = reference.run + " and " + other.run + ": " + why;
    result.next = next;
    if (result.divergence) result.divergence->call_rounding(scenario::Class::kUndecided, why);
  };
  const std::string shorter = "compare fewer steps: rounding grows with every update";
  if (result.divergence) {
    const compare::Divergence at = *result.divergence;
    if (overflows(compare::record_at(reference, at)) && overflows(compare::record_at(other, at))) {
      leave_open("NaN or infinity on both sides hides every difference, first at " + at.place(), kMendTheTraining);
      return result;
    }
  }
  for (const trace::RunTrace* run : {&reference, &other}) deny_where_ranks_disagree(result, *run, channels);
  if (result.is_no_rounding) return result;
  if (result.divergence && result.divergence->channel == trace::Channel::kWeight && updates_coarsely(reference) &&
      updates_coarsely(other)) {
    leave_open(
        "Muon makes its update in bfloat16, whose rounding no bound covers, first at " + result.divergence->place(),
        "compare gradients of the first update, or train with another optimizer");
  } else if (result.divergence) {
    const compare::Divergence at = *result.divergence;
    const bool kinks = compare::have_kinks(input.promises_of(reference), input.promises_of(other));
    if (const auto why = bound.undecided(at, kinks)) leave_open(*why + " (" + at.place() + ")", shorter);
  } else if (const auto limit = bound.horizon(); limit && result.status == CheckResult::Status::kAgree) {
    leave_open("no difference exceeds rounding, but from step " + std::to_string(*limit) +
                   " on one lost sample would no longer show",
               shorter);
  } else if (result.status == CheckResult::Status::kAgree && !may_be_factor.empty()) {
    leave_open("no difference exceeds rounding, but from " + may_be_factor +
                   " on a wrong factor of 1 + 2^-10 would no longer show",
               shorter);
  } else if (result.status == CheckResult::Status::kAgree) {
    const std::string left_out = left_out_across_layouts(reference, other);
    result.why = steep.says() + (steep.says().empty() || left_out.empty() ? "" : "; ") + left_out;
  }
  return result;
}

/// Every later variant against the first: equal up to rounding.
CheckResult check_rounding(const CheckInput& input) {
  CheckResult total;
  const auto judge = [&input](const trace::RunTrace& reference, const trace::RunTrace& other) {
    const std::vector<trace::Channel> channels = channels_of(input, reference, other);
    return judge_rounding(reference, other, rounding_channels(input.spec, channels, reference, other), input);
  };
  for (std::size_t i = 1; i < input.spec.variants.size(); ++i)
    combine(total, for_each_repeat(input, input.spec.variants[0], input.spec.variants[i], judge));
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
