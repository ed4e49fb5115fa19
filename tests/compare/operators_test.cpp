// harness/compare/operators: the first operator in which two logs part.
#include "harness/compare/operators.h"

#include <gtest/gtest.h>

namespace lockstep::compare {
namespace {

using trace::OperatorCall;
using Says = OperatorFinding::Says;

std::string digest(char of) { return std::string(32, of); }

OperatorCall call(const std::string& name, std::vector<std::string> inputs, std::vector<std::string> outputs) {
  return {.name = name,
          .phase = "forward",
          .node = "",
          .parameters = {"fc1.weight"},
          .inputs = std::move(inputs),
          .outputs = std::move(outputs)};
}

const std::vector<OperatorCall> kLog = {call("aten::linear", {digest('a'), digest('b')}, {digest('c')}),
                                        call("aten::relu", {digest('c')}, {digest('d')}),
                                        call("aten::add_", {digest('d'), digest('e'), "-0.1"}, {digest('f')})};

TEST(Operators, EqualLogsSayNothing) {
  EXPECT_FALSE(first_operator(kLog, kLog));
  EXPECT_FALSE(first_operator({}, {}));
}

TEST(Operators, AnotherOutputOfTheSameInputsIsTheOperatorsOwn) {
  std::vector<OperatorCall> other = kLog;
  other[1].outputs[0] = digest('0');
  other[2].inputs[0] = digest('0');
  const auto found = first_operator(kLog, other);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->says, Says::kComputes);
  EXPECT_EQ(found->index, 1U);
  EXPECT_EQ(found->text, "aten::relu in forward on fc1.weight computes a different output from the same inputs");
}

TEST(Operators, AnInputThatNobodyComputedIsNamed) {
  std::vector<OperatorCall> other = kLog;
  other[2].inputs[1] = digest('0');
  const auto found = first_operator(kLog, other);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->says, Says::kIsFed);
  EXPECT_EQ(found->index, 2U);
  EXPECT_FALSE(found->by_value);
  EXPECT_NE(found->text.find("a different input 1; all earlier operators agree"), std::string::npos) << found->text;
  other = kLog;
  other[2].inputs[2] = "-0.2";
  EXPECT_TRUE(first_operator(kLog, other)->by_value);
  other[2].inputs[1] = "3";
  EXPECT_FALSE(first_operator(kLog, other)->by_value) << "a number instead of a tensor";
  other = kLog;
  other[2].inputs[2] = "-0.2";
  const auto of_list = [](char element, char last) {
    return std::vector{call("aten::_foreach_norm", {"[" + digest('a') + "," + digest(element) + "]", {last}}, {})};
  };
  EXPECT_FALSE(first_operator(of_list('b', '2'), of_list('c', '2'))->by_value) << "a list of tensors";
  EXPECT_TRUE(first_operator(of_list('b', '2'), of_list('b', '1'))->by_value);
  EXPECT_NE(first_operator(kLog, other)->text.find("a different input 2: -0.1 on the left, -0.2 on the right"),
            std::string::npos);
}

TEST(Operators, AnOperatorMoreOnOneSideIsNamed) {
  std::vector<OperatorCall> longer = kLog;
  longer.insert(longer.begin() + 1, call("aten::mul_", {digest('c'), "2"}, {digest('0')}));
  const auto right = first_operator(kLog, longer);
  ASSERT_TRUE(right);
  EXPECT_EQ(right->says, Says::kIsCalled);
  EXPECT_EQ(right->call.name, "aten::mul_");
  EXPECT_EQ(right->text,
            "only the right side calls aten::mul_ in forward on fc1.weight, after aten::linear in forward on "
            "fc1.weight");
  EXPECT_EQ(first_operator(longer, kLog)->text.substr(0, 43), "only the left side calls aten::mul_ in forw");
  EXPECT_EQ(first_operator({}, kLog)->call.name, "aten::linear");
  const std::vector<OperatorCall> shorter(kLog.begin(), kLog.end() - 1);
  EXPECT_EQ(first_operator(kLog, shorter)->call.name, "aten::add_");
}

TEST(Operators, AnotherOperatorIsNamedWithTheOneItReplaces) {
  std::vector<OperatorCall> other = kLog;
  other[1].name = "aten::gelu";
  const auto found = first_operator(kLog, other);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->says, Says::kIsCalled);
  EXPECT_NE(found->text.find("the left side calls aten::relu"), std::string::npos);
  EXPECT_NE(found->text.find("the right side aten::gelu"), std::string::npos);
}

TEST(Operators, TheSameOperatorInAnotherPhaseIsAnotherOne) {
  std::vector<OperatorCall> other = kLog;
  other[1].phase = "backward";
  const auto found = first_operator(kLog, other);
  ASSERT_TRUE(found);
  EXPECT_EQ(found->says, Says::kIsCalled);
  EXPECT_NE(found->text.find("the right side aten::relu in backward"), std::string::npos) << found->text;
}

}  // namespace
}  // namespace lockstep::compare
