#include "harness/compare/difference.h"

#include <algorithm>
#include <map>
#include <set>
#include <string_view>
#include <unordered_map>
#include <unordered_set>
#include <utility>

#include "harness/base/text.h"

namespace lockstep::compare {
namespace {

using trace::Channel;
using trace::Record;
using trace::Step;
using trace::Trace;

/// Records of one channel of one step, by name; in the order met where a name comes more than once.
using Index = std::unordered_map<std::string_view, std::vector<const Record*>>;

Index index_of(const Step& step, Channel channel) {
  Index index;
  for (const Record& record : step.records) {
    if (record.channel == channel) index[record.name].push_back(&record);
  }
  return index;
}

/// What one rank holds of a channel at one step.
struct Side {
  const Step* step = nullptr;
  Index index;
  const std::vector<const Record*>* named = nullptr;  ///< the records of the name that is looked at
};

/// A pair of ranks at one step.
struct Sides {
  const Pair* pair = nullptr;
  const Side *left = nullptr, *right = nullptr;
};

/// Names of a channel in the order of the first side, then those that only later ones have.
std::vector<std::string> names_in(Channel channel, const std::vector<Side>& sides) {
  std::vector<std::string> names;
  std::unordered_set<std::string_view> seen;
  for (const Side& side : sides) {
    for (const Record& record : side.step->records) {
      if (record.channel == channel && seen.insert(record.name).second) names.push_back(record.name);
    }
  }
  return names;
}

const std::vector<const Record*>& records_named(const Index& index, const std::string& name) {
  static const std::vector<const Record*> none;
  const auto found = index.find(name);
  return found == index.end() ? none : found->second;
}

/// Steps that any side of any pair has.
std::set<std::int64_t> steps_of(const Walk& walk) {
  std::set<std::int64_t> steps;
  for (const Channel channel : walk.channels) {
    for (const Pair& pair : walk.pairs(channel)) {
      for (const Trace* trace : {pair.left, pair.right}) {
        for (const Step& step : trace->steps) {
          if (step.step >= walk.first_step && step.step < walk.end_step) steps.insert(step.step);
        }
      }
    }
  }
  return steps;
}

class Walker {
 public:
  explicit Walker(const Walk& walk) : walk_(walk) {
    result_.sides = walk.left_name + (walk.left_name == walk.right_name ? "" : " and " + walk.right_name);
  }

  Comparison run() {
    for (const std::int64_t step : steps_of(walk_)) {
      seen_ = {};
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
    std::vector<Sides> all;
    std::vector<Side> sides;  // each once: one may stand in all pairs
    sides.reserve(2 * pairs.size());
    const auto side_of = [&](const Step& step) {
      const auto found = std::find_if(sides.begin(), sides.end(), [&](const Side& side) { return side.step == &step; });
      return found != sides.end() ? &*found : &sides.emplace_back(Side{&step, index_of(step, channel)});
    };
    for (const Pair& pair : pairs) {
      const Step* left = pair.left->find(step);
      const Step* right = pair.right->find(step);
      if (left == nullptr && right == nullptr) continue;
      if (left != nullptr && right != nullptr) {
        all.push_back({&pair, side_of(*left), side_of(*right)});
      } else if (walk_.watch) {
        if (!walk_.common_steps_only)
          show_missing_step(step, channel, pair, left != nullptr ? *left : *right, right == nullptr);
      } else if (!walk_.common_steps_only) {
        note_missing({.step = step, .channel = channel}, pair, Missing::kStep, right == nullptr, "step is there");
        return;
      }
    }
    for (const std::string& name : names_in(channel, sides)) {
      if (trace::is_note(channel, name)) continue;
      if (walk_.skip && walk_.skip(channel, name, step)) continue;
      for (Side& side : sides) side.named = &records_named(side.index, name);
      for (const Sides& pair : all) {
        compare_name({.step = step, .channel = channel, .tensor = name, .rank = pair.pair->rank}, pair);
        if (result_.first) return;
      }
    }
  }

  void compare_name(const laws::RecordPlace& at, const Sides& sides) {
    const auto &left = *sides.left->named, &right = *sides.right->named;
    for (std::size_t i = 0; i < std::max(left.size(), right.size()) && !result_.first; ++i) {
      if (walk_.watch) {
        walk_.watch({at, i < left.size() ? left[i] : nullptr, i < right.size() ? right[i] : nullptr});
      } else if ((i >= right.size() && is_unread(at, *sides.right->step)) ||
                 (i >= left.size() && is_unread(at, *sides.left->step)) ||
                 (i < left.size() && i < right.size() && !trace::are_comparable(*left[i], *right[i]))) {
        if (!result_.unread) result_.unread = at;
      } else if (i >= right.size()) {
        note_missing(at, *sides.pair, Missing::kRecord, /*on_the_right=*/true, shown(*left[i]));
      } else if (i >= left.size()) {
        note_missing(at, *sides.pair, Missing::kRecord, /*on_the_right=*/false, shown(*right[i]));
      } else {
        compare_record(at, sides, *left[i], *right[i]);
      }
    }
  }

  /// Whether a recorder met the tensor, and could not read it.
  static bool is_unread(const laws::RecordPlace& at, const Step& step) {
    const std::string note = "seen.unread " + std::string(trace::name_of(at.channel)) + " " + at.tensor;
    return step.find(Channel::kLedger, note) != nullptr;
  }

  /// Shows the records of a step that one side lacks.
  void show_missing_step(std::int64_t step, Channel channel, const Pair& pair, const Step& held, bool on_the_left) {
    for (const Record& record : held.records) {
      const bool is_skipped = walk_.skip && walk_.skip(channel, record.name, step);
      if (record.channel != channel || is_note(channel, record.name) || is_skipped) continue;
      const laws::RecordPlace at{.step = step, .channel = channel, .tensor = record.name, .rank = pair.rank};
      walk_.watch({at, on_the_left ? &record : nullptr, on_the_left ? nullptr : &record});
    }
  }

  void compare_record(const laws::RecordPlace& at, const Sides& sides, const Record& left, const Record& right) {
    ++result_.compared;
    result_.channels.insert(at.channel);
    if (!result_.hidden && laws::hides(left, *sides.left->step, *sides.pair->left) &&
        laws::hides(right, *sides.right->step, *sides.pair->right))
      result_.hidden = at;
    const std::optional<std::string> difference = walk_.relation(left, right, at.step, at.rank);
    if (!difference) {
      (trace::same_bits(&left, &right) ? seen_.equal : seen_.unequal).insert(at.channel);
      return;
    }
    seen_.factor = factor_between(left, right);
    note(at, *sides.pair, left, right, *difference);
  }

  /// One side lacks what the other holds.
  void note_missing(const laws::RecordPlace& at, const Pair& pair, Missing what, bool on_the_right,
                    const std::string& held) {
    const std::string lacking = what == Missing::kStep ? "no such step" : "not recorded";
    Divergence divergence = divergence_at(at, pair);
    (on_the_right ? divergence.right : divergence.left).missing = what;
    divergence.expected = on_the_right ? held : lacking;
    divergence.actual = on_the_right ? lacking : held;
    conclude(std::move(divergence), pair);
  }

  void note(const laws::RecordPlace& at, const Pair& pair, const Record& left, const Record& right,
            std::string relation) {
    Divergence divergence = divergence_at(at, pair);
    const bool by_sum = left.is_joined || right.is_joined;
    divergence.expected = shown(left, by_sum);
    divergence.actual = shown(right, by_sum);
    divergence.relation = std::move(relation);
    name_parts(divergence, left, right);
    conclude(std::move(divergence), pair);
  }

  /// Of two tensors that lie in the same parts, those that differ, and the ranks that hold them.
  static void name_parts(Divergence& divergence, const Record& left, const Record& right) {
    const auto same_box = [](const trace::RankPart& a, const trace::RankPart& b) { return a.box == b.box; };
    if (!std::equal(left.parts.begin(), left.parts.end(), right.parts.begin(), right.parts.end(), same_box)) return;
    std::vector<std::string> places;
    for (std::size_t i = 0; i < left.parts.size(); ++i) {
      const trace::RankPart &its = left.parts[i], &theirs = right.parts[i];
      if (its.digest == theirs.digest) continue;
      const bool is_of_one_rank = its.rank == theirs.rank;
      if (places.empty() && is_of_one_rank) divergence.rank = its.rank;
      places.push_back(its.box + " on rank " + std::to_string(its.rank) +
                       (is_of_one_rank ? "" : " and rank " + std::to_string(theirs.rank)));
    }
    if (places.empty() || places.size() == left.parts.size()) return;
    divergence.relation += (divergence.relation.empty() ? "" : ", ") + ("in " + some_of(places, 3)) + " only";
  }

  Divergence divergence_at(const laws::RecordPlace& at, const Pair& pair) const {
    return {.step = at.step,
            .channel = at.channel,
            .tensor = at.tensor,
            .rank = pair.rank,
            .left = walk_.left_name,
            .right = walk_.right_name};
  }

  void conclude(Divergence divergence, const Pair& pair) {
    seen_.world_size = pair.right->world_size;
    explain(divergence, seen_);
    result_.first = std::move(divergence);
  }

  const Walk& walk_;
  Comparison result_;
  Seen seen_;  ///< of the step
};

}  // namespace

std::string Divergence::place() const {
  if (!phase.empty()) return step < 0 ? "before the first step" : "step " + std::to_string(step) + ", in " + phase;
  return "step " + std::to_string(step) + ", " + std::string(trace::name_of(channel)) +
         (tensor.empty() ? "" : " " + tensor);
}

std::string Divergence::place_and_rank() const { return place() + ", rank " + std::to_string(rank); }

void Divergence::call_rounding(scenario::Class as, std::string why) {
  if (unless_rounding.empty()) unless_rounding = cause;
  class_ = as;
  cause = std::move(why);
}

void Divergence::deny_rounding() {
  class_ = scenario::Class::kSemantic;
  if (!unless_rounding.empty()) cause = std::exchange(unless_rounding, "");
}

Comparison compare(const Walk& walk) { return Walker(walk).run(); }

std::optional<std::string> bitwise(const Record& left, const Record& right, std::int64_t, std::int64_t) {
  if (trace::same_bits(&left, &right)) return std::nullopt;
  return relation_between(left, right);
}

}  // namespace lockstep::compare
