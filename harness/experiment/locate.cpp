#include "harness/experiment/locate.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "harness/compare/check.h"
#include "harness/compare/pattern.h"

namespace lockstep::experiment {
namespace {

namespace fs = std::filesystem;

using compare::Divergence;

/// What the addends of a reduced gradient went through, if they were all captured.
std::optional<compare::Detour> detour_in(const Side& side, const Divergence& at) {
  const auto captured = [&](const trace::Trace& rank, trace::Channel channel) {
    return trace::read_captured(fs::path(rank.origin).parent_path(), at.step, rank.rank, channel, at.tensor);
  };
  std::vector<trace::StoredTensor> own;
  for (const trace::Trace& rank : side.run->ranks) {
    auto tensor = captured(rank, trace::Channel::kGradientLocal);
    if (!tensor) return std::nullopt;
    own.push_back(std::move(*tensor));
  }
  const auto reduced = captured(side.run->ranks[side.rank], trace::Channel::kGradient);
  return reduced ? compare::detour_of(own, *reduced) : std::nullopt;
}

}  // namespace

void locate(Divergence& at, const Side& left, const Side& right, Looked looked) {
  for (const Side& side : {right, left}) {
    const bool reduced = side.run != nullptr && at.channel == trace::Channel::kGradient;
    if (reduced && !at.detour) at.detour = detour_in(side, at);
  }
  if (left.run == nullptr || right.run == nullptr) return;
  const trace::Trace& a = left.run->ranks[left.rank];
  const trace::Trace& b = right.run->ranks[right.rank];
  const fs::path left_folder = fs::path(a.origin).parent_path(), right_folder = fs::path(b.origin).parent_path();
  const auto x = trace::read_captured(left_folder, at.step, a.rank, at.channel, at.tensor);
  const auto y = trace::read_captured(right_folder, at.step, b.rank, at.channel, at.tensor);
  if (x && y) at.element = compare::first_unequal_element(*x, *y, looked != Looked::kFromTheStart);
  const bool computed = at.channel != trace::Channel::kSamples && at.channel != trace::Channel::kInput;
  const fs::path left_log = trace::captured_operators_path(left_folder, at.step, a.rank);
  const fs::path right_log = trace::captured_operators_path(right_folder, at.step, b.rank);
  if (left.run == right.run || !computed || !compare::same_shape(*left.run, *right.run)) return;
  // Where the two part before, the step's first operator that differs is not where they began to.
  const trace::Channel reached = looked == Looked::kFromTheStart ? trace::Channel::kSamples : at.channel;
  const std::int64_t begin = looked == Looked::kFromOneState ? at.step : trace::kInitialStep;
  if (compare::part_before(*left.run, *right.run, at.step, reached, begin)) return;
  if (!fs::exists(left_log) || !fs::exists(right_log)) return;
  at.operator_ = compare::first_operator(trace::read_operators(left_log), trace::read_operators(right_log));
}

}  // namespace lockstep::experiment
