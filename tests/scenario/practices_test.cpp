#include "harness/scenario/practices.h"

#include <gtest/gtest.h>

#include "harness/plan/mutations.h"

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::checked;
using test::load;
using test::names_of;
using test::problem_of;
using test::with_variants;
using Names = std::vector<std::string>;

const Json kLongerRun = {{"train", {{"steps", 7}}}};

/// Variants a, b and c, of which c loads from b; checks "same", "ledger" and two of covers.
Json practised(const std::vector<Json>& practices) {
  Json document =
      checked(with_variants({{"a", Json::object()},
                             {"b", {{"train", {{"steps", 1}, {"checkpoint", {{"save_after", 1}}}}}}},
                             {"c", {{"train", {{"steps", 2}, {"checkpoint", {{"load", {{"from", "b"}}}}}}}}}}),
              {{{"that", "equal"}, {"name", "same"}, {"variants", {"a", "b"}}, {"on", {"weight"}}},
               {{"that", "ledger"}},
               {{"that", "covers"}, {"variants", {"a"}}},
               {{"that", "covers"}, {"variants", {"b"}}}});
  document["practices"] = practices;
  return document;
}

Json practice(const Names& proven_by, const Json& change = {{"a", kLongerRun}}) {
  return {{"name", "p"}, {"proven_by", proven_by}, {"mutations", {{{"name", "m"}, {"change", change}}}}};
}

TEST(Practices, AreReadWithTheirChecksAndChanges) {
  const Scenario scenario =
      load(practised({practice({"same", "ledger"}, {{"*", kLongerRun}, {"b", {{"train", {{"steps", 8}}}}}})}));
  ASSERT_EQ(scenario.practices.size(), 1U);
  const Practice& read = scenario.practices[0];
  EXPECT_EQ(read.name, "p");
  EXPECT_EQ(read.proven_by, (std::vector<std::size_t>{0, 1}));
  ASSERT_EQ(read.mutations.size(), 1U);
  EXPECT_EQ(read.mutations[0].change.at("a"), kLongerRun);
  EXPECT_EQ(read.mutations[0].change.at("b")["train"]["steps"], 8);  // the variant's own name comes after '*'
  EXPECT_EQ(scenario.checks[1].name, "ledger");
}

TEST(Practices, ACheckThatDoesNotExistNamesTheNearest) {
  const Problem problem = problem_of(practised({practice({"smae"})}));
  EXPECT_PROBLEM(problem, "a check that does not exist", ": practices.0.proven_by", "same, ledger, covers", "'smae'");
  EXPECT_EQ(problem.next, "did you mean 'same'?");
}

TEST(Practices, ANameOfSeveralChecksIsRefused) {
  EXPECT_PROBLEM(problem_of(practised({practice({"covers"})})), "several checks at once", ": practices.0.proven_by",
                 "one check alone", "checks 2, 3");
}

TEST(Practices, APracticeWithoutCheckOrMutationDoesNotLoad) {
  Json without = practice({"same"});
  without.erase("mutations");
  EXPECT_PROBLEM(problem_of(practised({without})), "", ": practices.0", "mutations", "");
  without["mutations"] = Json::array();
  EXPECT_PROBLEM(problem_of(practised({without})), "", ": practices.0.mutations", "at least 1", "");
  EXPECT_PROBLEM(problem_of(practised({practice(Names())})), "", ": practices.0.proven_by", "at least 1", "");
  EXPECT_PROBLEM(problem_of(practised({"p"})), "wrong type", ": practices.0", "object", "\"p\"");
}

TEST(Practices, AMutationOfAnUnknownVariantIsRefused) {
  EXPECT_PROBLEM(problem_of(practised({practice({"same"}, {{"d", kLongerRun}})})), "a mutation names a variant",
                 ": practices.0.mutations.0.change", "a, b, c", "'d'");
}

TEST(Mutations, RunOnceWhatTheyShareAndNothingThatNoCheckSees) {
  Json same = practice({"same"}, {{"*", kLongerRun}}), ledger = practice({"ledger"}, {{"*", kLongerRun}});
  ledger["name"] = "q";
  const auto made = plan::mutate({load(practised({same, ledger}))}, {});
  ASSERT_EQ(made.size(), 1U);
  EXPECT_EQ(made[0].own_checks, 4U);
  ASSERT_EQ(made[0].trials.size(), 2U);
  EXPECT_EQ(made[0].trials[0].variants, (Names{"a~1", "b~2"}));
  EXPECT_EQ(made[0].trials[1].variants, (Names{"a~1", "b~2", "c~3"}));
  EXPECT_EQ(names_of(made[0].scenario), (Names{"a", "b", "c", "a~1", "b~2", "c~3"}));
  const CheckSpec& check = made[0].scenario.checks.at(made[0].trials[0].checks.at(0));
  EXPECT_EQ(check.variants, (Names{"a~1", "b~2"}));
  const Variant& loads = made[0].scenario.variant("c~3");
  EXPECT_EQ(loads.train.checkpoint.load->from, "b~2");
  EXPECT_EQ(loads.mutation_of, "c");
  EXPECT_EQ(loads.repeats, 1);
}

TEST(Mutations, OfAVariantReachThoseThatLoadFromIt) {
  const auto made =
      plan::mutate({load(practised({practice({"ledger"}, {{"b", {{"train", {{"seed", {{"base", 9}}}}}}}})}))}, {});
  EXPECT_EQ(made[0].trials[0].variants, (Names{"b~1", "c~2"}));
  const CheckSpec& check = made[0].scenario.checks.at(made[0].trials[0].checks.at(0));
  EXPECT_EQ(check.variants, (Names{"b~1", "c~2"}));  // 'a' is as it was, and a law judges each run by itself
}

TEST(Mutations, APartLeavesTheChecksOfItsPractices) {
  Json other = practice({"ledger"}, {{"a", kLongerRun}});
  other["name"] = "q";
  const std::vector<Scenario> both = {load(practised({practice({"same"}), other}))};
  const auto first = plan::mutate(both, {.number = 1, .of = 2});
  EXPECT_EQ(first[0].own_checks, 1U);
  EXPECT_EQ(first[0].scenario.checks.size(), 2U);
  EXPECT_EQ(first[0].trials[0].checks, std::vector<std::size_t>{1});
  EXPECT_EQ(names_of(first[0].scenario), (Names{"a", "b", "a~1"}));
  EXPECT_THROW(plan::mutate(both, {.number = 3, .of = 3}), InputError);
}

TEST(Mutations, WithoutAnEffectAreRefused) {
  const auto refused = [](const Names& proven_by, const Json& change) {
    try {
      plan::mutate({load(practised({practice(proven_by, change)}))}, {});
    } catch (const InputError& error) {
      return error.problem().what;
    }
    return std::string("nothing");
  };
  EXPECT_EQ(refused({"same"}, {{"a", {{"world_size", 1}}}}), "a mutation changes nothing");
  EXPECT_EQ(refused({"same"}, {{"c", kLongerRun}}), "a mutation changes nothing that a check of its practice sees");
  EXPECT_EQ(refused({"same"}, {{"a", kLongerRun}}), "nothing");
}

}  // namespace
}  // namespace lockstep::scenario
