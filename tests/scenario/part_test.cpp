#include "harness/plan/part.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

namespace lockstep::plan {
namespace {

using scenario::Scenario;
using scenario::test::checked;
using scenario::test::load;
using scenario::test::names_of;
using scenario::test::with_variants;

/// Two scenarios with five checks; "resumed" loads from "half".
std::vector<Scenario> two_scenarios() {
  const Json half = {{"train", {{"steps", 1}, {"checkpoint", {{"save_after", 1}}}}}};
  const Json resumed = {{"train", {{"steps", 2}, {"checkpoint", {{"load", {{"from", "half"}}}}}}}};
  const auto ledger = [](const char* variant) { return Json{{"that", "ledger"}, {"variants", {variant}}}; };
  Json first =
      checked(with_variants({{"a", Json::object()}, {"b", Json::object()}, {"half", half}, {"resumed", resumed}}),
              {ledger("a"), {{"that", "equal"}, {"variants", {"a", "b"}}}, ledger("resumed")});
  Json second = checked(with_variants({{"c", Json::object()}}), {ledger("c"), {{"that", "repeatable"}}});
  second["name"] = "second";
  return {load(first), load(second)};
}

/// "scenario: kind (variants)" of every check.
std::vector<std::string> checks_of(const std::vector<Scenario>& scenarios) {
  std::vector<std::string> names;
  for (const Scenario& scenario : scenarios) {
    for (const scenario::CheckSpec& check : scenario.checks) {
      std::string name = scenario.name + ": " + std::string(name_of(check.that));
      for (const std::string& variant : check.variants) name += " " + variant;
      names.push_back(name);
    }
  }
  return names;
}

TEST(Part, AllPartsTogetherAreAllChecksOnce) {
  std::vector<std::string> all = checks_of(two_scenarios());
  ASSERT_EQ(all.size(), 5U);
  std::sort(all.begin(), all.end());
  for (std::size_t of = 1; of <= 5; ++of) {
    std::vector<std::string> together;
    for (std::size_t number = 1; number <= of; ++number) {
      const std::vector<std::string> some = checks_of(part_of(two_scenarios(), {number, of}));
      EXPECT_FALSE(some.empty()) << number << "/" << of;
      together.insert(together.end(), some.begin(), some.end());
    }
    std::sort(together.begin(), together.end());
    EXPECT_EQ(together, all) << of;
  }
}

TEST(Part, OnlyVariantsThatItsChecksNeedAreRun) {
  const std::vector<Scenario> first = part_of(two_scenarios(), {1, 5});
  ASSERT_EQ(first.size(), 1U);
  EXPECT_EQ(names_of(first[0]), (std::vector<std::string>{"a"}));
  EXPECT_EQ(names_of(part_of(two_scenarios(), {3, 5}).at(0)), (std::vector<std::string>{"half", "resumed"}));
  const std::vector<Scenario> fourth = part_of(two_scenarios(), {4, 5});
  ASSERT_EQ(fourth.size(), 1U);
  EXPECT_EQ(fourth[0].name, "second");
}

TEST(Part, APartWithoutChecksIsRefused) {
  try {
    part_of(two_scenarios(), {6, 6});
    FAIL() << "a part without checks would be green";
  } catch (const InputError& error) {
    EXPECT_NE(error.problem().expected.find("5"), std::string::npos) << error.what();
  }
}

TEST(Part, IsWrittenAsAFraction) {
  EXPECT_EQ(parse_part("2/4"), (Part{2, 4}));
  for (const char* wrong : {"", "2", "0/4", "5/4", "1/0", "a/4", "1/4x", "-1/4", "1/4/2", " 1/4"})
    EXPECT_THROW(parse_part(wrong), InputError) << wrong;
}

}  // namespace
}  // namespace lockstep::plan
