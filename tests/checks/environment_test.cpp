// Ranks and runs that are not in one environment: found by the check, and named where they are why bits part.
#include <utility>

#include "harness/compare/environments.h"
#include "harness/compare/rounding.h"
#include "harness/diagnosis/diagnosers.h"

#include "tests/support/tiny/diagnosed.h"

namespace lockstep::checks {
namespace {

using test::agrees;
using test::Bench;
using test::floats;
using test::is_inconclusive;
using test::put;
using trace::Channel;

const Json kManifest = {{"build", "1"},
                        {"cpu_model", "one"},
                        {"threads", 1},
                        {"libraries", {{"libtorch_cpu.so", "ab"}}},
                        {"variables", {{"OMP_NUM_THREADS", "1"}}}};

Json with(const std::string& pointer, const Json& value) {
  Json manifest = kManifest;
  manifest[Json::json_pointer(pointer)] = value;
  return manifest;
}

void place(trace::RunTrace& run, const Json& manifest) {
  for (trace::Trace& rank : run.ranks) rank.header["environment"] = manifest;
}

/// Three ranks in one environment, in "a" and "b".
struct Placed : Bench {
  explicit Placed(const Json& check = {{"that", "environment"}}) : Bench({{"world_size", 3}, {"checks", {check}}}) {
    for (const char* variant : {"a", "b"}) place(run(variant), kManifest);
  }
};

const Json kEqual = {{"that", "equal"}, {"variants", {"a", "b"}}};

TEST(Environment, KernelsAreBuildsLibrariesAndInstructions) {
  for (const auto& [pointer, same] : {std::pair{"/build", false},
                                      {"/libraries/libtorch_cpu.so", false},
                                      {"/cpu_capability", false},
                                      {"/compiler_flags", false},
                                      {"/cpu_model", true},
                                      {"/threads", true},
                                      {"/variables/OMP_NUM_THREADS", true}}) {
    Placed bench;
    place(bench.run("b"), with(pointer, "2"));
    EXPECT_EQ(compare::same_kernels({&bench.run("a"), 0}, {&bench.run("b"), 2}), same) << pointer;
  }
}

/// Weights that other kernels drew: the last bit is theirs, more is not, and without them not even that.
TEST(Environment, OtherKernelsDrawOtherLastBits) {
  const auto told = [](float factor, const char* instructions) {
    Placed bench;
    place(bench.run("b"), with("/cpu_capability", instructions));
    place(bench.run("a"), with("/cpu_capability", "AVX2"));
    for (std::int64_t rank = 0; rank < 3; ++rank)
      put(bench.run("b"), rank, -1, floats(Channel::kWeight, "fc.bias", {0.5F * factor, 0.25F, 1.0F, 0.125F}));
    for (std::int64_t rank = 0; rank < 3; ++rank)
      put(bench.run("a"), rank, -1, floats(Channel::kWeight, "fc.bias", {0.5F, 0.25F, 1.0F, 0.125F}));
    return compare::draw_otherwise(bench.run("a"), bench.run("b"));
  };
  EXPECT_TRUE(told(1 + 0x1p-22F, "AVX512"));
  EXPECT_FALSE(told(1, "AVX512")) << "the same";
  EXPECT_FALSE(told(1 + 0x1p-12F, "AVX512"));
  EXPECT_FALSE(told(1 + 0x1p-22F, "AVX2"));
}

TEST(Environment, OneForAllRanksAgrees) { EXPECT_TRUE(agrees(Placed().check())); }

TEST(Environment, NoneRecordedIsNoAgreement) {
  Placed bench;
  for (const char* variant : {"a", "b"}) {
    for (trace::Trace& rank : bench.run(variant).ranks) rank.header.erase("environment");
  }
  EXPECT_TRUE(is_inconclusive(bench.check()));
}

TEST(Environment, EveryKindOfEntryHasItsCause) {
  const std::tuple<const char*, Json, const char*> rows[] = {
      {"/build", "2", "env.version_mismatch"},
      {"/libraries/libtorch_cpu.so", "cd", "env.version_mismatch"},
      {"/libraries/libother.so", "", "env.version_mismatch"},
      {"/compiler_flags", "-O2 -ffast-math", "env.build_flags"},
      {"/variables/OMP_NUM_THREADS", "4", "env.variable_mismatch"},
      {"/variables/MKL_CBWR", "AVX2", "env.variable_mismatch"},
      {"/cpu_model", "another", "env.processor"},
      {"/threads", 2, "env.flag_mismatch"},
      {"/tf32_cublas", true, "env.flag_mismatch"}};
  for (const auto& [pointer, value, cause] : rows) {
    for (const std::size_t odd : {0, 1, 2}) {
      SCOPED_TRACE(std::string(pointer) + " of rank " + std::to_string(odd));
      Placed bench;
      bench.run("b").ranks[odd].header["environment"] = with(pointer, value);
      const CheckResult result = bench.check();
      ASSERT_EQ(result.status, CheckResult::Status::kDivergence);
      EXPECT_EQ(result.divergence->cause_id(), cause);
      EXPECT_EQ(result.divergence->class_, scenario::Class::kEnvironment);
      EXPECT_EQ(result.divergence->rank, static_cast<std::int64_t>(odd));
      EXPECT_EQ(result.divergence->place(), "before the first step");
    }
  }
}

TEST(Environment, ARankThatRecordedNoneIsElsewhere) {
  Placed bench;
  bench.run("a").ranks[2].header.erase("environment");
  EXPECT_EQ(bench.check().status, CheckResult::Status::kDivergence);
}

/// A gradient of "b" that parted by rounding.
std::string cause_of_rounding(const Bench& bench, scenario::Class class_ = scenario::Class::kRounding) {
  compare::Divergence at = test::parted(1, Channel::kGradientLocal, "fc.weight", 1);
  at.class_ = class_;
  return test::cause_named(bench, at, diagnosis::suspects_in_environment);
}

TEST(Environment, ExplainsRoundingOfARunWhoseRanksDiffer) {
  Placed bench(kEqual);
  EXPECT_EQ(cause_of_rounding(bench), "");
  bench.run("b").ranks[1].header["environment"] = with("/variables/OMP_NUM_THREADS", "4");
  EXPECT_EQ(cause_of_rounding(bench), "env.variable_mismatch");
  EXPECT_EQ(cause_of_rounding(bench, scenario::Class::kSemantic), "");
  bench.run("a").ranks[1].header["environment"] = with("/variables/OMP_NUM_THREADS", "4");
  EXPECT_EQ(cause_of_rounding(bench), "") << "both sides have it in common";
}

TEST(Environment, ExplainsRoundingBetweenMachines) {
  Placed bench(kEqual);
  place(bench.run("b"), with("/cpu_model", "another"));
  EXPECT_EQ(cause_of_rounding(bench), "env.processor");
}

TEST(Environment, AnotherReleaseRoundsOtherwise) {
  Placed bench(kEqual);
  place(bench.run("b"), with("/libraries/libtorch_cpu.so", "cd"));
  EXPECT_EQ(cause_of_rounding(bench), "fp.library_version");
  EXPECT_EQ(cause_of_rounding(bench, scenario::Class::kSemantic), "");
}

TEST(Environment, WhatTheRecipesAskForIsNoMismatch) {
  Bench bench({{"variants", {{"a", Json::object()}, {"b", {{"train", {{"determinism", {{"threads", 2}}}}}}}}},
               {"checks", {kEqual}}});
  place(bench.run("a"), kManifest);
  place(bench.run("b"), with("/threads", 2));
  EXPECT_EQ(cause_of_rounding(bench), "");
}

}  // namespace
}  // namespace lockstep::checks
