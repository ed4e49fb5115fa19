#include "harness/train/collective.h"

#include <chrono>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/ProcessGroupGloo.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

namespace lockstep::train {
namespace {

/// Longer than any run's stall limit: the supervisor, which knows more, ends a hung run first.
constexpr std::chrono::milliseconds kTimeout = std::chrono::hours(12);
constexpr std::chrono::milliseconds kMeetingTimeout = std::chrono::minutes(5);

std::string shape_of(const std::vector<at::Tensor>& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    if (!text.empty()) text += ' ';
    text += std::string(c10::toString(tensor.scalar_type())) + "[" + std::to_string(tensor.numel()) + "]";
  }
  return text;
}

std::string name_of(const c10d::ReduceOp& op) {
  switch (static_cast<c10d::ReduceOp::RedOpType>(op)) {
    case c10d::ReduceOp::SUM:
      return "SUM";
    case c10d::ReduceOp::AVG:
      return "AVG";
    case c10d::ReduceOp::PRODUCT:
      return "PRODUCT";
    case c10d::ReduceOp::MIN:
      return "MIN";
    case c10d::ReduceOp::MAX:
      return "MAX";
    default:
      return "OTHER";
  }
}

c10::intrusive_ptr<c10d::Store> meet(const launch::Place& place) {
  c10d::TCPStoreOptions options;
  options.port = place.master_port;
  options.isServer = place.rank == 0;
  options.numWorkers = static_cast<std::size_t>(place.world_size);
  options.waitWorkers = true;
  options.timeout = kMeetingTimeout;
  if (options.isServer && place.listen_descriptor) options.masterListenFd = *place.listen_descriptor;
  return c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
}

}  // namespace

/// Hands every collective on to Gloo, counts it and writes it down.
class Collective::Logged : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  Logged(c10::intrusive_ptr<c10d::Backend> inner, int rank, int size, launch::ProgressWriter& progress,
         bool in_rank_order)
      : Backend(rank, size), inner_(std::move(inner)), progress_(progress), in_rank_order_(in_rank_order) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }

  Work allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    note("allreduce " + shape_of(tensors) + " " + name_of(options.reduceOp));
    const bool sums = options.reduceOp == c10d::ReduceOp::SUM;
    return in_rank_order_ && sums ? sum_in_rank_order(tensors) : inner_->allreduce(tensors, options);
  }
  Work broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    note("broadcast " + shape_of(tensors) + " from " + std::to_string(options.rootRank));
    return inner_->broadcast(tensors, options);
  }
  Work allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                 const c10d::AllgatherOptions& options) override {
    note("allgather " + shape_of(inputs));
    return inner_->allgather(outputs, inputs, options);
  }
  Work barrier(const c10d::BarrierOptions& options) override {
    note("barrier");
    return inner_->barrier(options);
  }

  std::vector<std::string> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(log_, {});
  }

 private:
  /// Every rank adds in the same order; the broadcast changes nothing, and gives back what DDP waits for.
  Work sum_in_rank_order(std::vector<at::Tensor>& tensors) {
    for (at::Tensor& tensor : tensors) {
      std::vector<at::Tensor> own{tensor};
      std::vector<std::vector<at::Tensor>> all(1);
      for (int rank = 0; rank < getSize(); ++rank) all[0].push_back(at::empty_like(tensor));
      inner_->allgather(all, own, {})->wait();
      tensor.copy_(all[0][0]);
      for (int rank = 1; rank < getSize(); ++rank) tensor.add_(all[0][static_cast<std::size_t>(rank)]);
    }
    return inner_->broadcast(tensors, {});
  }

  void note(std::string line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    progress_.count_collective(line);
    log_.push_back(std::move(line));
  }

  c10::intrusive_ptr<c10d::Backend> inner_;
  launch::ProgressWriter& progress_;
  bool in_rank_order_;
  std::mutex mutex_;
  std::vector<std::string> log_;
};

Collective::Collective(const launch::Place& place, launch::ProgressWriter& progress, bool in_rank_order)
    : progress_(progress) {
  const auto rank = static_cast<int>(place.rank);
  const auto size = static_cast<int>(place.world_size);
  const auto store = meet(place);
  const auto options = c10d::ProcessGroupGloo::Options::create_default(kTimeout);
  gloo_ = c10::make_intrusive<c10d::ProcessGroupGloo>(c10::make_intrusive<c10d::PrefixStore>("lockstep", store), rank,
                                                      size, options);
  auto logged = c10::make_intrusive<Logged>(gloo_, rank, size, progress, in_rank_order);
  logged_ = logged.get();
  group_ = c10::make_intrusive<c10d::ProcessGroup>(store, rank, size);
  group_->setBackend(c10::DeviceType::CPU, c10d::ProcessGroup::BackendType::GLOO, logged);
  group_->setDefaultBackend(c10d::ProcessGroup::BackendType::GLOO);
  group_->setGroupName("lockstep");
}

std::vector<std::string> Collective::take_log() { return logged_->take(); }

at::Tensor Collective::metric_sum(const at::Tensor& value, bool root_only) {
  std::vector<at::Tensor> sum{value.clone()};
  if (group_->getSize() == 1) return sum[0];
  progress_.count_collective("sum of a metric");
  (root_only ? gloo_->reduce(sum) : gloo_->allreduce(sum))->wait();
  return sum[0];
}

at::Tensor Collective::sum(const at::Tensor& value) {
  std::vector<at::Tensor> sum{value.clone()};
  group_->allreduce(sum)->wait();
  return sum[0];
}

void Collective::barrier() {
  progress_.count_collective("barrier");
  gloo_->barrier()->wait();
}

}  // namespace lockstep::train
