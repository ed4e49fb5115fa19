#include "harness/train/reduction/reduction.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/scenario/schema.h"

namespace lockstep::train {
namespace {

/// A backend of which each rank sends what it is told to, and which notes what is asked of it.
class FakeBackend : public c10d::Backend {
 public:
  FakeBackend(int rank, std::vector<float> sent)
      : Backend(rank, static_cast<int>(sent.size())), sent_(std::move(sent)) {}

  c10::intrusive_ptr<c10d::Work> allreduce(std::vector<at::Tensor>&, const c10d::AllreduceOptions&) override {
    return done("allreduce");
  }
  c10::intrusive_ptr<c10d::Work> broadcast(std::vector<at::Tensor>&, const c10d::BroadcastOptions&) override {
    return done("broadcast");
  }
  c10::intrusive_ptr<c10d::Work> allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>&,
                                           const c10d::AllgatherOptions&) override {
    for (std::size_t rank = 0; rank < sent_.size(); ++rank) outputs[0][rank].fill_(sent_[rank]);
    return done("allgather");
  }

  std::vector<std::string> asked;

 private:
  class Done : public c10d::Work {
    bool wait(std::chrono::milliseconds) override { return true; }
  };

  c10::intrusive_ptr<c10d::Work> done(const char* what) {
    asked.push_back(what);
    return c10::make_intrusive<Done>();
  }

  std::vector<float> sent_;
};

/// Half a ULP of 1: added to 1 it is lost, added to itself first it is not.
constexpr float kHalf = 0x1p-24F;

float sum_on(int rank, const std::vector<float>& sent) {
  FakeBackend backend(rank, sent);
  std::vector<at::Tensor> tensors{at::full({1}, sent[static_cast<std::size_t>(rank)], at::kFloat)};
  make_reduction("rank_order")->sum(backend, tensors, {});
  return tensors[0].item<float>();
}

TEST(Reduction, RankOrderAddsFromRank0OnEveryRank) {
  for (int rank = 0; rank < 3; ++rank) {
    EXPECT_EQ(sum_on(rank, {1, kHalf, kHalf}), 1);
    EXPECT_EQ(sum_on(rank, {kHalf, kHalf, 1}), 1 + 2 * kHalf);
  }
}

TEST(Reduction, RingIsTheBackendsOwnAllReduce) {
  FakeBackend backend(0, {1, 2});
  std::vector<at::Tensor> tensors{at::ones({1})};
  make_reduction("ring")->sum(backend, tensors, {});
  EXPECT_EQ(backend.asked, std::vector<std::string>{"allreduce"});
}

TEST(Reduction, EveryNameOfTheSchemaIsMade) {
  for (const Json& name : scenario::schema().at("/definitions/ddp/properties/reduction/enum"_json_pointer))
    EXPECT_NE(make_reduction(name.get<std::string>()), nullptr) << name;
}

}  // namespace
}  // namespace lockstep::train
