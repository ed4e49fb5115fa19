#include "harness/experiment/closeup.h"

#include <filesystem>
#include <optional>
#include <utility>
#include <vector>

#include "harness/base/files.h"
#include "harness/checks/check.h"
#include "harness/compare/pattern.h"

namespace lockstep::experiment {
namespace {

namespace fs = std::filesystem;

/// A reduced gradient and the ranks' own ones, if they were all captured.
struct Captured {
  std::vector<trace::StoredTensor> own;
  trace::StoredTensor reduced;
};

std::optional<Captured> captured_reduction(const Side& side, const Divergence& at) {
  const auto captured = [&](const trace::Trace& rank, trace::Channel channel) {
    return trace::read_captured(fs::path(rank.origin).parent_path(), at.step, rank.rank, channel, at.tensor);
  };
  std::vector<trace::StoredTensor> own;
  for (const trace::Trace& rank : side.run->ranks) {
    auto tensor = captured(rank, trace::Channel::kGradientLocal);
    if (!tensor) return std::nullopt;
    own.push_back(std::move(*tensor));
  }
  auto reduced = captured(side.run->ranks[side.rank], trace::Channel::kGradient);
  if (!reduced) return std::nullopt;
  return Captured{std::move(own), std::move(*reduced)};
}

/// The addends of the reduced gradients of both sides, and whether their elements follow from them.
void look_at_reductions(Closeup& closeup, const Divergence& at, const Side& left, const Side& right) {
  std::vector<bool> are_made_of_it;
  for (const Side& side : {right, left}) {
    const auto captured = side.run == nullptr ? std::nullopt : captured_reduction(side, at);
    if (!captured) continue;
    if (!closeup.detour) closeup.detour = compare::detour_of(captured->own, captured->reduced);
    if (const auto is_it = compare::is_reduction_of(captured->own, captured->reduced)) are_made_of_it.push_back(*is_it);
  }
  if (left.run != right.run || are_made_of_it.size() != 2 || are_made_of_it[0] == are_made_of_it[1]) return;
  closeup.is_no_rounding = true;  // no order of additions makes what one of the ranks holds
}

}  // namespace

Closeup closeup_of(const Divergence& at, const Side& left, const Side& right, Looked looked) {
  Closeup closeup;
  if (at.channel == trace::Channel::kGradient) look_at_reductions(closeup, at, left, right);
  if (left.run == nullptr || right.run == nullptr) return closeup;
  const trace::Trace& a = left.run->ranks[left.rank];
  const trace::Trace& b = right.run->ranks[right.rank];
  const fs::path left_folder = fs::path(a.origin).parent_path(), right_folder = fs::path(b.origin).parent_path();
  const auto x = trace::read_captured(left_folder, at.step, a.rank, at.channel, at.tensor);
  const auto y = trace::read_captured(right_folder, at.step, b.rank, at.channel, at.tensor);
  if (x && y) closeup.element = compare::first_unequal_element(*x, *y, looked != Looked::kFromTheStart);
  const bool computed = trace::info(at.channel).part != trace::Part::kTaken;
  const fs::path left_log = trace::captured_operators_path(left_folder, at.step, a.rank);
  const fs::path right_log = trace::captured_operators_path(right_folder, at.step, b.rank);
  if (left.run == right.run || !computed || !compare::same_shape(*left.run, *right.run)) return closeup;
  // Where the two part before, the step's first operator that differs is not where they began to.
  const trace::Channel reached = looked == Looked::kFromTheStart ? trace::Channel::kSamples : at.channel;
  const std::int64_t begin = looked == Looked::kFromOneState ? at.step : trace::kInitialStep;
  if (compare::part_before(*left.run, *right.run, at.step, reached, begin)) return closeup;
  if (!is_there(left_log) || !is_there(right_log)) return closeup;
  closeup.operator_ = compare::first_operator(trace::read_operators(left_log), trace::read_operators(right_log));
  return closeup;
}

}  // namespace lockstep::experiment
