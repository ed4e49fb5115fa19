#include "harness/compare/difference.h"

#include <algorithm>
#include <set>

#include "harness/base/text.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;
using trace::Step;
using trace::Trace;

/// Names of a channel in the order of the left side, then those that only the right side has.
std::vector<std::string> names_in(Channel channel, const std::vector<const Step*>& steps) {
  std::vector<std::string> names;
  for (const Step* step : steps) {
    for (const Record& record : step->records) {
      if (record.channel == channel && std::find(names.begin(), names.end(), record.name) == names.end()) names.push_back(record.name);
    }
  }
  return names;
}

/// Steps that any side of any pair has.
std::set<std::int64_t> steps_of(const Walk& walk) {
  std::set<std::int64_t> steps;
  for (const Channel channel : walk.channels) {
    for (const Pair& pair : walk.pairs(channel)) {
      for (const Trace* trace : {pair.left, pair.right}) {
        for (const Step& step : trace->steps) {
          if (step.step >= walk.first_step) steps.insert(step.step);
        }
      }
    }
  }
  return steps;
}

class Walker {
 public:
  explicit Walker(const Walk& walk) : walk_(walk) {}

  Comparison run() {
    for (const std::int64_t step : steps_of(walk_)) {
      for (const Channel channel : walk_.channels) {
        compare_channel(step, channel);
        if (result_.first) return result_;
      }
    }
    return result_;
  }

 private:
  void compare_channel(std::int64_t step, Channel channel) {
    const std::vector<Pair> pairs = walk_.pairs(channel);
    std::vector<const Step*> steps;
    for (const Pair& pair : pairs) {
      const Step* left = pair.left->find(step);
      const Step* right = pair.right->find(step);
      if (left == nullptr || right == nullptr) {
        note(step, channel, "", pair, left == nullptr ? "no such step" : "step is there", right == nullptr ? "no such step" : "step is there");
        return;
      }
      steps.push_back(left);
      steps.push_back(right);
    }
    for (const std::string& name : names_in(channel, steps)) {
      if (walk_.skip && walk_.skip(channel, name, step)) continue;
      for (std::size_t i = 0; i < pairs.size(); ++i) {
        compare_record(step, channel, name, pairs[i], steps[2 * i]->find(channel, name), steps[2 * i + 1]->find(channel, name));
        if (result_.first) return;
      }
    }
  }

  void compare_record(std::int64_t step, Channel channel, const std::string& name, const Pair& pair, const Record* left, const Record* right) {
    if (left == nullptr || right == nullptr) {
      note(step, channel, name, pair, left == nullptr ? "not recorded" : shown(*left), right == nullptr ? "not recorded" : shown(*right));
      return;
    }
    ++result_.compared;
    const std::optional<std::string> difference = walk_.relation(*left, *right, step, pair.rank);
    if (!difference) return;
    note(step, channel, name, pair, shown(*left), shown(*right));
    result_.first->relation = *difference;
  }

  void note(std::int64_t step, Channel channel, const std::string& name, const Pair& pair, std::string expected, std::string actual) {
    result_.first = Divergence{.step = step, .channel = channel, .tensor = name, .rank = pair.rank, .left = walk_.left_name, .right = walk_.right_name, .expected = std::move(expected), .actual = std::move(actual)};
    explain(*result_.first, pair.right->world_size);
  }

  const Walk& walk_;
  Comparison result_;
};

}  // namespace

Comparison compare(const Walk& walk) {
  Comparison result = Walker(walk).run();
  return result;
}

std::optional<std::string> bitwise(const Record& left, const Record& right, std::int64_t, std::int64_t) {
  if (left.dtype == right.dtype && left.shape == right.shape && left.digest == right.digest) return std::nullopt;
  return relation_between(left, right);
}

}  // namespace lockstep::compare
