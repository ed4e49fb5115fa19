#pragma once

#include <algorithm>
#include <map>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "harness/decision/decision.h"

/// Facts made by hand. A trial that a test does not mind gets a fact that changes nothing.
namespace lockstep::test {
using namespace lockstep::decision;
using diagnosis::Again;
using scenario::Class;
using trace::Channel;
using Status = checks::CheckResult::Status;
using Trials = std::vector<Trial>;

inline Divergence difference(std::int64_t step, Channel channel = Channel::kGradient) {
  Divergence at;
  at.step = step;
  at.channel = channel;
  at.tensor = channel == Channel::kSamples ? "ids" : "fc.weight";
  at.left.run = "a/0";
  at.right.run = "b/0";
  at.relation = "differs";
  at.class_ = channel == Channel::kSamples ? Class::kSemantic : Class::kUndecided;
  return at;
}

inline Finding red(Divergence at = difference(3)) {
  return {.result = {.status = Status::kDivergence, .compared = 10, .divergence = std::move(at)}, .sides = {"a", "b"}};
}

/// A check equal.
inline Finding equal(Divergence at = difference(3)) {
  Finding finding = red(std::move(at));
  finding.wants_same_bits = true;
  return finding;
}

/// A check up to rounding that is red beyond its bound.
inline Finding rounding(Divergence at = difference(3)) {
  Finding finding = red(std::move(at));
  finding.is_up_to_rounding = true;
  return finding;
}

/// A check up to rounding that its bound leaves open.
inline Finding open() {
  return {.result = {.status = Status::kInconclusive, .compared = 10, .why = "rounding has grown"},
          .sides = {"a", "b"},
          .is_up_to_rounding = true};
}

inline Finding named(std::string cause) {
  Divergence at = difference(3);
  at.class_ = Class::kSemantic;
  at.suspects = {{std::move(cause), {"seen"}}};
  Finding finding = equal(at);
  finding.differs_slightly = false;
  return finding;
}

inline constexpr compare::Ladder kShrinks{.in_float32 = 1e-7, .in_float64 = 1e-16};
inline constexpr compare::Ladder kStays{.in_float32 = 1e-3, .in_float64 = 1e-3};
inline constexpr compare::Ladder kNeither{.in_float32 = 1e-7, .in_float64 = 1e-11};

inline InFloat64 pair(std::optional<compare::Ladder> rungs = std::nullopt) {
  InFloat64 facts{.rungs = rungs, .is_small = true};
  facts.judged.compared = 10;
  return facts;
}

inline Float64 shrinks() { return {.at_finding = pair(kShrinks), .pairs = {pair()}}; }

inline Steps steps(Steps::Show shows, std::int64_t step = 2, Channel channel = Channel::kGradient) {
  Steps one{.side = "b", .shows = shows};
  one.compared.compared = 10;
  const bool differs = shows == Steps::Show::kDifferInFloat64 || shows == Steps::Show::kDifferInFloat32 ||
                       shows == Steps::Show::kUpdateDiffers;
  if (differs) one.compared.first = difference(step, channel);
  return one;
}

/// Facts by the trial that they come from.
using Answers = std::map<Trial, Fact>;

/// A fact that leaves everything as it is.
inline Fact nothing_new(Trial trial, const Decision& now) {
  const std::vector<Repeated> same = {{.run = "a/0"}, {.run = "b/0"}};
  switch (trial) {
    case Trial::kReplay:
      return Replay{.runs = same};
    case Trial::kDiagnosis:
      return Diagnosis{now.at()};
    case Trial::kFloat64:
      return shrinks();
    case Trial::kOneState:
      return OneState{{steps(Steps::Show::kAgree)}};
    case Trial::kAnotherState:
      return AnotherState{.sides = {steps(Steps::Show::kAgree)}};
    case Trial::kOneStateThere:
      return OneStateThere{.closeup = {}, .runs = same};
    case Trial::kReplayOften:
      return ReplayOften{same};
    case Trial::kReplayTwice:
      return ReplayTwice{.run = {.run = "b/0"}};
    case Trial::kReplayThere:
      return ReplayThere{};
    case Trial::kFill:
      return Fill{{{.variant = "a"}, {.variant = "b"}}};
    case Trial::kFillAgain:
      return FillAgain{{{.variant = "b"}}};
  }
  return Broken{"no such trial"};
}

/// A finding, decided to its end.
struct Decided {
  Decision end;
  Trials tried;

  Decided(const Finding& finding, const Answers& answers = {}) {
    std::vector<Fact> facts;
    end = decide(finding, facts);
    while (end.next && tried.size() < 20) {
      tried.push_back(*end.next);
      const auto own = answers.find(*end.next);
      facts.push_back(own == answers.end() ? nothing_new(*end.next, end) : own->second);
      end = decide(finding, facts);
    }
  }

  Row row() const { return end.row; }
  Status status() const { return end.result.status; }
  std::optional<Class> class_() const { return end.differs() ? end.at().class_ : std::nullopt; }
  bool made(Trial trial) const { return std::find(tried.begin(), tried.end(), trial) != tried.end(); }
  std::string shown() const {
    std::string all;
    for (const judge::Experiment& one : end.shown) all += one.control + ": " + one.shows + "\n";
    return all;
  }
};

inline Replay differs_once(const std::string& run = "b/0") {
  Replay fact;
  for (const char* name : {"a/0", "b/0"}) {
    fact.runs.push_back({.run = name});
    if (name == run) fact.runs.back().apart = difference(1);
  }
  return fact;
}

}  // namespace lockstep::test
