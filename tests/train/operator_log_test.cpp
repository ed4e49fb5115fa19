// harness/train/operator_log: what LibTorch's operators were called with, and what they gave.
#include "harness/train/recording/operator_log.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <torch/csrc/autograd/variable.h>

#include "harness/train/device/exact.h"
#include "harness/train/device/tensors.h"

namespace lockstep::train {
namespace {

std::string digest_of(const at::Tensor& tensor) { return to_text(record::digest_of(view_of(tensor))); }

const trace::OperatorCall* find(const OperatorLog& log, const std::string& name) {
  for (const trace::OperatorCall& call : log.calls()) {
    if (call.name == name) return &call;
  }
  return nullptr;
}

/// A linear layer, its loss and its gradient.
at::Tensor gradient_of_a_layer(at::Tensor weight, const at::Tensor& x) {
  weight.mutable_grad().reset();
  at::relu(at::linear(x, weight)).sum().backward();
  return weight.grad().clone();
}

TEST(OperatorLog, HoldsOutermostOperatorsInOrderAndChangesNoBit) {
  at::manual_seed(1);
  const at::Tensor x = at::randn({3, 4});
  const at::Tensor weight = at::randn({2, 4}).requires_grad_();
  const at::Tensor without = gradient_of_a_layer(weight, x);
  OperatorLog log({{"fc.weight", weight}});
  log.enter("forward");
  EXPECT_TRUE(at::equal(gradient_of_a_layer(weight, x), without));
  ASSERT_GE(log.calls().size(), 3U);
  const trace::OperatorCall& first = log.calls()[0];
  EXPECT_EQ(first.name, "aten::linear");
  EXPECT_EQ(first.phase, "forward");
  EXPECT_EQ(first.parameters, (std::vector<std::string>{"fc.weight"}));
  ASSERT_GE(first.inputs.size(), 2U);
  EXPECT_EQ(first.inputs[0], digest_of(x));
  EXPECT_EQ(first.inputs[1], digest_of(weight));
  EXPECT_EQ(first.outputs, (std::vector<std::string>{digest_of(at::linear(x, weight.detach()))}));
  EXPECT_EQ(log.calls()[1].name, "aten::relu");
  for (const trace::OperatorCall& call : log.calls()) EXPECT_NE(call.name, "aten::addmm");  // within linear
}

TEST(OperatorLog, BackwardIsAboutTheParametersOfItsForwardOperator) {
  const at::Tensor x = at::ones({3, 4});
  const at::Tensor weight = at::ones({2, 4}).requires_grad_();
  OperatorLog log({{"fc.weight", weight}});
  gradient_of_a_layer(weight, x);
  const trace::OperatorCall* product = find(log, "aten::mm");
  ASSERT_NE(product, nullptr) << trace::to_lines(log.calls());
  EXPECT_EQ(product->node, "MmBackward0");
  EXPECT_EQ(product->parameters, (std::vector<std::string>{"fc.weight"}));
}

TEST(OperatorLog, InputsAreSeenBeforeTheyAreWrittenTo) {
  at::Tensor a = at::ones({2});
  const std::string before = digest_of(a);
  OperatorLog log({});
  a.add_(1, 0.5);
  ASSERT_EQ(log.calls().size(), 1U);
  EXPECT_EQ(log.calls()[0].inputs[0], before);
  EXPECT_EQ(log.calls()[0].inputs.back(), "0.5");
  EXPECT_EQ(log.calls()[0].outputs, (std::vector<std::string>{digest_of(a)}));
}

// As Ema's: it returns nothing, and its inputs are gone when it ends.
TEST(OperatorLog, OperatorsOnListsWriteToThem) {
  std::vector<at::Tensor> averages{at::zeros({3}), at::ones({2})};
  const std::vector<at::Tensor> weights{at::ones({3}), at::zeros({2})};
  OperatorLog log({});
  at::_foreach_lerp_(averages, weights, 0.25);
  ASSERT_EQ(log.calls().size(), 1U);
  const std::vector<std::string>& outputs = log.calls()[0].outputs;
  ASSERT_GE(outputs.size(), 2U);
  EXPECT_EQ(outputs[0], digest_of(averages[0]));
  EXPECT_EQ(outputs[1], digest_of(averages[1]));
}

TEST(OperatorLog, WhatMemoryHeldBeforeIsNoInput) {
  const at::Tensor a = at::zeros({2}), b = at::ones({2}), source = at::full({2}, 3.0F);
  std::vector<std::string> inputs;
  for (at::Tensor target : {a, b}) {
    OperatorLog log({});
    target.copy_(source);
    at::empty({4});
    ASSERT_EQ(log.calls().size(), 2U);
    inputs.push_back(log.calls()[0].inputs[0]);
    EXPECT_TRUE(log.calls()[1].outputs.empty());
  }
  EXPECT_EQ(inputs[0], inputs[1]);
}

TEST(OperatorLog, AViewReadsNothing) {
  OperatorLog log({});
  at::ones({4}).narrow(0, 1, 2).add_(1);
  const trace::OperatorCall* view = find(log, "aten::narrow");
  ASSERT_NE(view, nullptr) << trace::to_lines(log.calls());
  EXPECT_EQ(view->inputs, (std::vector<std::string>{"-", "0", "1", "2"}));
  EXPECT_TRUE(view->outputs.empty());
  const trace::OperatorCall* sum = find(log, "aten::add_");
  ASSERT_NE(sum, nullptr);
  EXPECT_EQ(sum->outputs, (std::vector<std::string>{digest_of(at::full({2}, 2.0F))})) << "which writes, and is none";
}

TEST(OperatorLog, AGeneratorsStateIsAnInputOfWhatDraws) {
  std::vector<std::vector<std::string>> inputs;
  for (const std::uint64_t seed : {1, 2}) {
    at::manual_seed(seed);
    const at::Tensor x = at::ones({8});
    OperatorLog log({});
    at::dropout(x, 0.5, true);
    ASSERT_FALSE(log.calls().empty());
    inputs.push_back(log.calls()[0].inputs);
  }
  EXPECT_NE(inputs[0], inputs[1]);
}

TEST(OperatorLog, NothingIsLoggedAfterItsEnd) {
  { const OperatorLog log({}); }
  const OperatorLog log({});
  EXPECT_TRUE(log.calls().empty());
}

// harness/train/exact: sums on the grids have one value in every order.
TEST(Exact, SumsDoNotDependOnTheirOrder) {
  at::manual_seed(3);
  const at::Tensor x = Exact::input(at::randn({64, 300}, at::kDouble));
  at::Tensor weight = at::randn({50, 300}, at::kDouble);
  Exact::settle_weight(weight);
  const at::Tensor order = at::randperm(300);
  EXPECT_TRUE(at::equal(x.mm(weight.t()), x.index_select(1, order).mm(weight.index_select(1, order).t())));
  const at::Tensor rough = at::randn({64, 300}, at::kDouble);
  EXPECT_FALSE(at::equal(rough.mm(weight.t()), rough.index_select(1, order).mm(weight.index_select(1, order).t())));
}

TEST(Exact, GradientsOfRanksAddUpToThoseOfOne) {
  at::manual_seed(4);
  const at::Tensor x = Exact::input(at::randn({12, 20}, at::kDouble));
  const at::Tensor labels = at::randint(0, 5, {12});
  const at::Tensor start = at::randn({5, 20}, at::kDouble);
  const auto gradient = [&](std::int64_t ranks, std::int64_t rank) {
    at::Tensor weight = start.clone();
    Exact::settle_weight(weight);
    weight.requires_grad_();
    const Exact exact(ranks, 12);
    const std::int64_t share = 12 / ranks;
    const at::Tensor logits = exact.settled(at::linear(x.narrow(0, rank * share, share), weight));
    exact.loss(logits, labels.narrow(0, rank * share, share)).backward();
    return weight.grad().mul(1.0 / static_cast<double>(ranks));  // as DDP does
  };
  for (const std::int64_t ranks : {2, 3, 4, 6}) {
    at::Tensor sum = gradient(ranks, ranks - 1);
    for (std::int64_t rank = 0; rank + 1 < ranks; ++rank) sum.add_(gradient(ranks, rank));
    EXPECT_TRUE(at::equal(sum, gradient(1, 0))) << ranks;
  }
}

}  // namespace
}  // namespace lockstep::train
