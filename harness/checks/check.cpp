#include "harness/checks/check.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::checks {
namespace {

using compare::Comparison;
using trace::Channel;

int severity(CheckResult::Status status) {
  switch (status) {
    case CheckResult::Status::kDivergence:
      return 3;
    case CheckResult::Status::kInconclusive:
      return 2;
    case CheckResult::Status::kBaseline:
      return 1;
    case CheckResult::Status::kAgree:
      return 0;
  }
  return 3;
}

/// Whether a result is the worse one, or an agreement that has something to say.
bool says_more(const CheckResult& one, const CheckResult& other) {
  if (one.status == other.status) return one.status == CheckResult::Status::kAgree && other.why.empty();
  return severity(one.status) > severity(other.status);
}

}  // namespace

const scenario::Promises& CheckInput::promises_of(const trace::RunTrace& run) const {
  for (const auto& [variant, runs] : traces) {
    if (std::find(runs.begin(), runs.end(), &run) != runs.end()) return scenario.variant(variant);
  }
  throw InternalError({.what = "a check was asked about a run that it does not hold", .where = run.run});
}

diagnosis::Question question_of(const CheckInput& input) {
  diagnosis::Question question{
      .that = input.spec.that, .straight = input.spec.straight, .traces = input.traces, .promises = {}};
  for (const scenario::Variant& variant : input.scenario.variants) question.promises[variant.name] = &variant;
  return question;
}

CheckResult for_each_repeat(const CheckInput& input, const std::string& left, const std::string& right,
                            const std::function<CheckResult(const trace::RunTrace&, const trace::RunTrace&)>& judge) {
  CheckResult total;
  const auto& lefts = input.of(left);
  const auto& rights = input.of(right);
  const auto of = [](const auto& runs, std::size_t i) { return runs.at(std::min(i, runs.size() - 1)); };
  for (std::size_t i = 0; i < std::max(lefts.size(), rights.size()); ++i)
    combine(total, judge(*of(lefts, i), *of(rights, i)));
  return total;
}

std::vector<Channel> channels_of(const std::vector<Channel>& named, const std::vector<const scenario::Promises*>& sides,
                                 bool same_shape) {
  return trace::channels_that([&](const trace::ChannelInfo& row) {
    const bool wanted = named.empty() || std::find(named.begin(), named.end(), row.channel) != named.end();
    const bool recorded = std::all_of(sides.begin(), sides.end(), [&](const scenario::Promises* side) {
      return side->train.record.holds(row.channel);
    });
    return wanted && recorded && (same_shape || row.across == trace::Across::kAllShapes);
  });
}

std::vector<Channel> channels_of(const CheckInput& input, const trace::RunTrace& run) {
  return channels_of(input.spec.channels, {&input.promises_of(run)}, true);
}

std::vector<Channel> channels_of(const CheckInput& input, const trace::RunTrace& left, const trace::RunTrace& right) {
  return channels_of(input.spec.channels, {&input.promises_of(left), &input.promises_of(right)},
                     compare::same_shape(left, right));
}

void hide_from(CheckResult& result, const laws::RecordPlace& first, const std::string& whose) {
  if (result.status != CheckResult::Status::kAgree) return;
  result.status = CheckResult::Status::kInconclusive;
  result.why = whose + ": NaN or infinity hides every difference from there on, first at " + first.text();
  result.next = kMendTheTraining;
}

CheckResult result_of(const Comparison& comparison) {
  CheckResult result{.compared = comparison.compared, .divergence = comparison.first};
  if (comparison.first) {
    result.status = CheckResult::Status::kDivergence;
  } else if (comparison.compared == 0) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = "there was nothing to compare";
  } else if (comparison.hidden) {
    hide_from(result, *comparison.hidden, comparison.sides);
  } else if (comparison.unread) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = comparison.sides + ": not every record could be read on both sides: first " +
                 comparison.unread->text() + "; all others are equal";
    result.next = "compare channels that both record";
  }
  return result;
}

CheckResult result_of(const Comparison& comparison, const CheckInput& input) {
  CheckResult result = result_of(comparison);
  for (const Channel channel : input.spec.channels) {
    if (result.status != CheckResult::Status::kAgree || comparison.channels.contains(channel)) continue;
    result.status = CheckResult::Status::kInconclusive;
    result.why = "the channel '" + std::string(trace::name_of(channel)) +
                 "' could not be compared: it was not recorded, or these world sizes do not share it";
    result.next = "remove it from \"on\", or record it";
  }
  return result;
}

std::optional<CheckResult> lacking_promise(const scenario::Promises& promises, const std::vector<std::string>& parts) {
  std::vector<std::string> lacking;
  for (const std::string& part : parts) {
    if (!promises.knows(part)) lacking.push_back("promises." + part);
  }
  if (lacking.empty()) return std::nullopt;
  CheckResult result;
  result.status = CheckResult::Status::kInconclusive;
  result.why =
      "'" + promises.name + "' lacks a promise that this check needs: the scenario lacks " + join(lacking, ", ");
  result.next = "say it in the scenario, or remove the check";
  return result;
}

CheckResult concluded(CheckResult total) {
  if (total.status == CheckResult::Status::kAgree && total.compared == 0) {
    total.status = CheckResult::Status::kInconclusive;
    total.why = "there was nothing to compare";
  }
  return total;
}

void combine(CheckResult& total, CheckResult next) {
  const std::size_t compared = total.compared + next.compared;
  if (says_more(next, total)) std::swap(total, next);
  total.compared = compared;
  std::vector<CheckResult> others = std::exchange(next.others, {});
  if (next.status != CheckResult::Status::kAgree) total.others.push_back(std::move(next));
  std::move(others.begin(), others.end(), std::back_inserter(total.others));
}

void keep_worst(CheckResult& total, CheckResult next) {
  const std::size_t compared = total.compared + next.compared;
  if (says_more(next, total)) total = std::move(next);
  total.compared = compared;
}

}  // namespace lockstep::checks
