#pragma once

#include <initializer_list>
#include <string>
#include <utility>
#include <vector>

#include "tests/support/tiny/investigated.h"

/// Two trainings of a small network, and what control runs make of their difference.
namespace lockstep::test {

using scenario::Class;
using trace::Channel;

inline const Json kNone = Json::object();

/// Several changes in one.
inline Json merged(std::initializer_list<Json> changes) {
  Json result = Json::object();
  for (const Json& change : changes) merge_json(result, change);
  return result;
}

inline Json on_ranks(int world_size) { return {{"world_size", world_size}}; }

/// {"train": …} with one key.
inline Json train(const char* key, Json value) { return {{"train", {{key, std::move(value)}}}}; }

inline Json mistake(const char* kind, std::int64_t step, Json options = Json::object()) {
  options.update({{"kind", kind}, {"step", step}});
  return options;
}

/// A mistake that is planted from a step on.
inline Json planted(const char* kind, std::int64_t step, Json options = Json::object()) {
  return train("faults", Json::array({mistake(kind, step, std::move(options))}));
}

inline Json check_of(const std::string& that, Json more = Json::object()) {
  more["that"] = that;
  return more;
}

inline Json check_between(const std::string& that, const std::vector<std::string>& variants) {
  return check_of(that, {{"variants", variants}});
}

/// The scenario with other variants and checks.
inline Json small_training(const Json& changes) {
  const Json small = {{"train", {{"model", {{"kind", "mlp"}, {"hidden", {6}}}}, {"data", {{"size", 48}}}}}};
  return merged({small, changes});
}

/// Variants "one" and "other", and one check of them.
inline Json pair(const std::string& that, const Json& one, const Json& other, const Json& changes = Json::object()) {
  const Json two = {{"variants", {{"one", one}, {"other", other}}},
                    {"checks", Json::array({check_between(that, {"one", "other"})})}};
  return small_training(merged({two, changes}));
}

/// A training whose updates do not depend on how large gradients are.
inline Json with_rmsprop(int ranks) {
  return merged({on_ranks(ranks), train("optimizer", {{"kind", "rmsprop"}, {"lr", 0.01}}),
                 train("batch", {{"global", 24}}), train("steps", 8)});
}

/// One layer is written to beside the update, in step 4.
inline Json decayed(bool float32_only = true) {
  return planted("weights_decayed", 4,
                 {{"factor", 1 + 0x1p-10}, {"parameter", "fc1.bias"}, {"float32_only", float32_only}});
}

/// A run whose recipe has a mistake. Where it is, and why it is one.
inline void expect_found(const Investigated& one, const char* row, const std::string& place,
                         Class class_ = Class::kSemantic, std::size_t check = 0) {
  const judge::CheckReport& report = one.check(check);
  EXPECT_EQ(report.status, judge::Status::kDivergence) << one.told(check);
  EXPECT_EQ(report.decided_by, row) << one.told(check);
  ASSERT_TRUE(report.result.divergence) << one.told(check);
  EXPECT_EQ(report.result.divergence->place_and_rank(), place) << one.told(check);
  EXPECT_EQ(report.result.divergence->class_, class_) << one.told(check);
}

inline void expect_open(const Investigated& one, const char* row, const std::string& why, std::size_t check = 0) {
  const judge::CheckReport& report = one.check(check);
  EXPECT_EQ(report.status, judge::Status::kInconclusive) << one.told(check);
  EXPECT_EQ(report.decided_by, row) << one.told(check);
  EXPECT_NE(report.result.why.find(why), std::string::npos) << one.told(check);
}

inline void expect_agreement(const Investigated& one, const char* row, std::size_t check = 0) {
  EXPECT_EQ(one.check(check).status, judge::Status::kAgree) << one.told(check);
  EXPECT_GT(one.check(check).result.compared, 0U) << one.told(check);
  EXPECT_EQ(one.check(check).decided_by, row) << one.told(check);
}

/// Whether what a control run has shown holds these words.
inline testing::AssertionResult shows(const Investigated& one, const char* control, const std::string& words,
                                      std::size_t check = 0) {
  if (one.shown(control, check).find(words) != std::string::npos) return testing::AssertionSuccess();
  return testing::AssertionFailure() << "'" << words << "' is not in what " << control << " shows\n" << one.told(check);
}

}  // namespace lockstep::test
