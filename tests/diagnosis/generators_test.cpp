// Programs whose generators differ before the first update.
#include <gtest/gtest.h>

#include "harness/diagnosis/diagnose.h"

#include "tests/support/tiny/diagnosed.h"

namespace lockstep::test {
namespace {

using trace::Channel;

/// The cause of a difference of generators at the start, where "b" shards its data by another sampler, or not at all.
std::string cause_behind_generators(const Json& sampler_of_b, bool is_program) {
  Json document = pair(2, 2);
  document["variants"]["b"]["train"]["sampler"] = sampler_of_b;
  Bench bench(document);
  for (scenario::Variant& variant : bench.scenario.variants) {
    if (is_program) variant.known.emplace();
  }
  compare::Divergence at = parted(trace::kInitialStep, Channel::kRng, "cpu");
  at.class_ = scenario::Class::kSemantic;
  diagnosis::diagnose(bench.question(), at, {});
  return at.suspects.empty() ? "" : at.suspects[0].cause;
}

TEST(Generators, TheNextDifferenceTellsWhyASamplerDrew) {
  EXPECT_EQ(cause_behind_generators({{"kind", "none"}}, true), "data.not_sharded");
}

TEST(Generators, NothingBehindThemTellsNothing) {
  EXPECT_EQ(cause_behind_generators({{"kind", "distributed"}}, true), "");
}

TEST(Generators, ARecipeTellsMoreThanTheNextDifference) {
  EXPECT_EQ(cause_behind_generators({{"kind", "none"}}, false), "");
}

}  // namespace
}  // namespace lockstep::test
