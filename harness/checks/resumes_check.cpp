#include <algorithm>

#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/checks/checkpoint_law.h"
#include "harness/checks/numbers.h"
#include "harness/compare/continuation.h"
#include "harness/compare/rounding.h"

namespace lockstep::checks {
namespace {

using compare::Scope;
using trace::Channel;

/// Step after which the checkpoint was saved, by the scenario.
std::optional<std::int64_t> saved_step(const scenario::Scenario& scenario, const scenario::CheckSpec& spec) {
  const auto& load = scenario.variant(spec.interrupted).train.checkpoint.load;
  if (!load || load->from.empty()) return std::nullopt;
  return scenario::newest_saved(*load, scenario.variant(load->from)) - 1;
}

/// "; train.checkpoint.load.restore leaves out: buckets", where the scenario leaves parts of the checkpoint out.
std::string parts_left_out(const CheckInput& input) {
  const auto& load = input.scenario.variant(input.spec.interrupted).train.checkpoint.load;
  const bool averages = input.scenario.variant(input.spec.straight).train.ema_decay.has_value();
  std::vector<std::string> parts;
  for (const char* part : {"weights", "optimizer", "ema", "schedule", "sampler", "rng", "buckets", "buffers"}) {
    if (load && !load->restores(part) && (averages || std::string(part) != "ema")) parts.emplace_back(part);
  }
  return parts.empty() ? "" : "; train.checkpoint.load.restore leaves out: " + join(parts, ", ");
}

/// The resumed run's first line is its state after loading: it must be the straight run's state after the same update.
/// From there on every record must be equal, to the straight run's last step; equal up to rounding, where the
/// checkpoint was saved, or is gone on with, at another world size.
CheckResult judge_resumption(const trace::RunTrace& straight, const trace::RunTrace& resumed, const CheckInput& input) {
  if (!resumed.unplaced.empty()) return {.status = CheckResult::Status::kInconclusive, .why = resumed.unplaced};
  if (resumed.ranks[0].steps.empty())
    return {.status = CheckResult::Status::kInconclusive, .why = "the resumed run recorded no step"};
  const std::int64_t begin = resumed.ranks[0].steps.front().step;
  const trace::Step* last = straight.ranks[0].steps.empty() ? nullptr : &straight.ranks[0].steps.back();
  const std::int64_t saved = saved_step(input.scenario, input.spec).value_or(begin);
  const scenario::Variant& interrupted = input.scenario.variant(input.spec.interrupted);
  const std::int64_t every = interrupted.train.record.every;
  const bool is_program = interrupted.known.has_value();  // whose state after loading is recorded always
  if (is_program && every > 1 && (saved + 1) % every != 0)
    return {.status = CheckResult::Status::kInconclusive,
            .why = resumed.run + " continues after update " + std::to_string(saved + 1) +
                   ": with program.record.every " + std::to_string(every) +
                   " the straight run recorded none of its steps",
            .next = "record every step, or save after a multiple of program.record.every"};
  const std::int64_t first_recorded =
      saved < 0 || is_program ? saved : std::min((saved + every - 1) / every * every, interrupted.last_recorded_step());
  if (begin != first_recorded)  // a run that ignores its checkpoint is a straight run: equal, and no proof of anything
    return {.status = CheckResult::Status::kDivergence, .divergence = begins_elsewhere(resumed, first_recorded, begin)};
  if (last == nullptr || begin >= last->step) {
    return {.status = CheckResult::Status::kInconclusive,
            .why = "the runs share no step after the checkpoint",
            .next = "save earlier, or train longer"};
  }
  std::vector<Channel> channels = channels_of(input, straight, resumed);
  const Scope scope = after_loading(input.scenario, input.spec, resumed);
  if (resumes_at_another_world_size(input.scenario, input.spec)) {
    CheckResult result =
        judge_rounding(straight, resumed, rounding_channels(input.spec, std::move(channels)), input, scope);
    if (result.divergence) result.divergence->cause += parts_left_out(input);
    return result;
  }
  // A resumed run rebuilds its buckets once more and broadcasts the layout: an extra collective, not another result.
  if (input.spec.channels.empty()) std::erase(channels, Channel::kCollective);
  CheckResult result = compare_numbers(straight, resumed, channels, input, scope);
  if (result.divergence) {
    compare::name_rounding(*result.divergence, straight, resumed);
    const bool is_loaded = result.divergence->step == saved && result.divergence->class_ != scenario::Class::kRounding;
    result.divergence->cause =
        is_loaded ? "the resumed training differs from the uninterrupted one already in the state after loading; look "
                    "at what was saved, and at what is loaded"
                  : "the resumed training differs from the uninterrupted one; " + result.divergence->cause;
    result.divergence->cause += parts_left_out(input);
  }
  return result;
}

}  // namespace

bool resumes_at_another_world_size(const scenario::Scenario& scenario, const scenario::CheckSpec& spec) {
  if (spec.traits().sides != scenario::Sides::kResumption) return false;
  const scenario::Variant& interrupted = scenario.variant(spec.interrupted);
  const std::int64_t straight = scenario.variant(spec.straight).world_size;
  const auto& load = interrupted.train.checkpoint.load;
  const bool saved_elsewhere = load && !load->from.empty() && scenario.variant(load->from).world_size != straight;
  return saved_elsewhere || interrupted.world_size != straight;
}

Scope after_loading(const scenario::Scenario& scenario, const scenario::CheckSpec& spec,
                    const trace::RunTrace& resumed) {
  const std::int64_t begin = resumed.ranks[0].steps.front().step;
  const std::int64_t saved = saved_step(scenario, spec).value_or(begin);
  const scenario::Variant& interrupted = scenario.variant(spec.interrupted);
  const bool is_program = interrupted.known.has_value();
  const auto lacks = [&resumed, begin](Channel channel, const std::string& name, std::int64_t step) {
    const trace::Record* record = resumed.ranks[0].find(step, channel, name);
    const bool may_lack = step == begin || compare::may_lack_count(name);  // before its first update it counts nothing
    return record == nullptr && channel == Channel::kLedger && may_lack;
  };
  return {.first_step = begin,
          .common_steps_only = is_program && interrupted.train.record.every > 1,
          .skip = [=](Channel channel, const std::string& name, std::int64_t step) {
            // A program's state is recorded at its first forward pass, when a loader has drawn already.
            const bool is_drawn_from = is_program && channel == Channel::kRng;
            if (step == saved && (is_drawn_from || !trace::info(channel).is_carried())) return true;
            return is_program && lacks(channel, name, step);
          }};
}

CheckResult check_resumes(const CheckInput& input) {
  const auto judge = [&input](const trace::RunTrace& straight, const trace::RunTrace& resumed) {
    return judge_resumption(straight, resumed, input);
  };
  return for_each_repeat(input, input.spec.straight, input.spec.interrupted, judge);
}

}  // namespace lockstep::checks
