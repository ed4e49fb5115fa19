// Reductions that a script does by hand, and gets wrong. DDP is kept from reducing.
#include <algorithm>
#include <chrono>
#include <numeric>
#include <random>
#include <thread>

#include <ATen/ATen.h>

#include "harness/train/fault/lasting.h"
#include "harness/train/loop/clip.h"

namespace lockstep::train {
namespace {

class ByHand : public LastingFault {
 public:
  bool reduces_by_hand() const override { return true; }

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    for (const NamedTensor& gradient : gradients) average(gradient.tensor, collective);
  }

 protected:
  static void average(const at::Tensor& gradient, Collective& collective) {
    const auto ranks = static_cast<double>(collective.group()->getSize());
    at::Tensor(gradient).copy_(collective.sum(gradient).div_(ranks));
  }
};

/// Rightly, if not as DDP does: divided before the sum or after it, once or, what changes nothing, again.
class ReducedByHand : public ByHand {
 public:
  using Divide = recipe::ReducedByHandDivide;

  explicit ReducedByHand(const Json& options)
      : times_(options.at("times").get<int>()), first_(recipe::kind_at<Divide>(options, "divide") == Divide::kBefore) {}

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    const auto ranks = static_cast<double>(collective.group()->getSize());
    for (const NamedTensor& gradient : gradients) {
      for (int i = 0; i < times_; ++i) {
        if (first_) {
          at::Tensor(gradient.tensor).copy_(collective.sum(gradient.tensor.div(ranks)));
        } else {
          average(gradient.tensor, collective);
        }
      }
    }
  }

 private:
  int times_;
  bool first_;
};

/// Each rank clips its own gradients.
class ClipBeforeReduction : public ByHand {
 public:
  explicit ClipBeforeReduction(const recipe::GradientSpec& gradient) : gradient_(gradient) {}

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    std::vector<at::Tensor> own;
    for (const NamedTensor& gradient : gradients) own.push_back(gradient.tensor);
    if (gradient_.clip_norm) clip_norm(own, *gradient_.clip_norm);
    if (gradient_.clip_value) clip_value(own, *gradient_.clip_value);
    ByHand::reduce(gradients, collective);
  }

  Clipping clipping(Clipping) const override { return Clipping::kNever; }

 private:
  recipe::GradientSpec gradient_;
};

/// The gradients of some parameters are forgotten: the last bucket is not flushed.
class BucketForgotten : public ByHand {
 public:
  explicit BucketForgotten(const Json& options) : parameters_(options) {}

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    for (const NamedTensor& gradient : gradients) {
      if (!parameters_.include(gradient.name)) average(gradient.tensor, collective);
    }
  }
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 private:
  ParameterChoice parameters_;
};

/// One rank issues its all-reduces in the opposite order among gradients of one size, and pairs them up wrongly.
class OrderMismatch : public ByHand {
 public:
  explicit OrderMismatch(const Json& options) : rank_(options.at("of_rank").get<int>()) {}

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    for (const NamedTensor& gradient : gradients) {
      const auto twin = std::find_if(gradients.begin(), gradients.end(), [&](const NamedTensor& other) {
        return other.name != gradient.name && other.tensor.numel() == gradient.tensor.numel();
      });
      const bool turned = collective.group()->getRank() == rank_ && twin != gradients.end();
      at::Tensor mine = turned ? twin->tensor.view_as(gradient.tensor) : gradient.tensor;
      sums_.push_back(collective.sum(mine).div_(static_cast<double>(collective.group()->getSize())));
    }
    for (std::size_t i = 0; i < gradients.size(); ++i) at::Tensor(gradients[i].tensor).copy_(sums_[i]);
    sums_.clear();
  }

 private:
  int rank_;
  std::vector<at::Tensor> sums_;
};

/// What one rank sends went through 16 bits.
class SentRounded : public ByHand {
 public:
  explicit SentRounded(const Json& options) : rank_(options.at("of_rank").get<int>()), dtype_(half_type(options)) {}

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    const bool rounds = collective.group()->getRank() == rank_;
    for (const NamedTensor& gradient : gradients) {
      const at::Tensor& own = gradient.tensor;
      const at::Tensor sent = rounds ? own.to(dtype_).to(own.scalar_type()) : own;
      at::Tensor(own).copy_(collective.sum(sent).div_(static_cast<double>(collective.group()->getSize())));
    }
  }

 private:
  int rank_;
  at::ScalarType dtype_;
};

/// Everyone's gradients, added up by each rank in an order of its own.
class OwnOrder : public ByHand {
 public:
  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    const int ranks = collective.group()->getSize();
    const std::vector<int> order = order_of(collective.group()->getRank(), ranks);
    for (const NamedTensor& gradient : gradients) {
      std::vector<std::vector<at::Tensor>> all(1);
      for (int rank = 0; rank < ranks; ++rank) all[0].push_back(at::empty_like(gradient.tensor));
      std::vector<at::Tensor> mine{gradient.tensor};
      collective.group()->allgather(all, mine)->wait();
      at::Tensor sum = at::zeros_like(gradient.tensor);
      for (const int rank : order) sum.add_(all[0][static_cast<std::size_t>(rank)]);
      at::Tensor(gradient.tensor).copy_(sum.div_(static_cast<double>(ranks)));
    }
  }

 private:
  virtual std::vector<int> order_of(int rank, int ranks) = 0;
};

/// As Gloo's old AllreduceRing: each rank begins with itself.
class RankOrder : public OwnOrder {
  std::vector<int> order_of(int rank, int ranks) override {
    std::vector<int> order(static_cast<std::size_t>(ranks));
    for (int i = 0; i < ranks; ++i) order[static_cast<std::size_t>(i)] = (rank + i) % ranks;
    return order;
  }
};

/// As threads that add in the order in which they arrive: another one in every run.
class UnorderedSum : public OwnOrder {
  std::vector<int> order_of(int, int ranks) override {
    std::vector<int> order(static_cast<std::size_t>(ranks));
    std::iota(order.begin(), order.end(), 0);
    std::shuffle(order.begin(), order.end(), arrival_);
    return order;
  }

  std::mt19937 arrival_{std::random_device()()};
};

/// What has arrived by the time that it is read is used; the rest is the rank's own, or half of each.
class ReadBeforeWait : public ByHand {
 public:
  explicit ReadBeforeWait(const Json& options) : pause_(0, options.at("longest_us").get<int>()) {}

  void reduce(const std::vector<NamedTensor>& gradients, Collective& collective) override {
    std::vector<std::vector<at::Tensor>> sums;
    std::vector<c10::intrusive_ptr<c10d::Work>> works;
    for (const NamedTensor& gradient : gradients) {
      sums.push_back({gradient.tensor.clone()});
      works.push_back(collective.group()->allreduce(sums.back()));
    }
    const auto ranks = static_cast<double>(collective.group()->getSize());
    for (std::size_t i = 0; i < gradients.size(); ++i) {
      std::this_thread::sleep_for(std::chrono::microseconds(pause_(arrival_)));
      at::Tensor(gradients[i].tensor).copy_(sums[i][0].div(ranks));
    }
    for (const auto& work : works) work->wait();
  }

 private:
  std::uniform_int_distribution<int> pause_;
  std::mt19937 arrival_{std::random_device()()};
};

}  // namespace

LOCKSTEP_FAULT(reduced_by_hand, ReducedByHand, options)
LOCKSTEP_FAULT(read_before_wait, ReadBeforeWait, options)
LOCKSTEP_FAULT(clip_before_reduction, ClipBeforeReduction, gradient)
LOCKSTEP_FAULT(bucket_forgotten, BucketForgotten, options)
LOCKSTEP_FAULT(sent_rounded, SentRounded, options)
LOCKSTEP_FAULT(order_mismatch, OrderMismatch, options)
LOCKSTEP_FAULT(rank_order, RankOrder)
LOCKSTEP_FAULT(unordered_sum, UnorderedSum)

}  // namespace lockstep::train
