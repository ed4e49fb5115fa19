#include "harness/train/collective/collective.h"

#include <algorithm>
#include <chrono>
#include <mutex>
#include <utility>

#include <ATen/ATen.h>
#include <torch/csrc/distributed/c10d/FileStore.hpp>
#include <torch/csrc/distributed/c10d/PrefixStore.hpp>
#include <torch/csrc/distributed/c10d/TCPStore.hpp>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

constexpr std::chrono::milliseconds kMeetingTimeout = std::chrono::minutes(5);

std::string shape_of(const std::vector<at::Tensor>& tensors) {
  std::string text;
  for (const at::Tensor& tensor : tensors) {
    if (!text.empty()) text += ' ';
    text += std::string(c10::toString(tensor.scalar_type())) + "[" + std::to_string(tensor.numel()) + "]";
  }
  return text;
}

std::string operator_name(const c10d::ReduceOp& op) {
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

}  // namespace

namespace {

/// *Throws*: InputError if more ranks have come to the file than there are: an earlier run has left it.
c10::intrusive_ptr<c10d::Store> file_store_of(const launch::Place& place) {
  auto store = c10::make_intrusive<c10d::FileStore>(place.store_file, static_cast<int>(place.world_size));
  store->setTimeout(kMeetingTimeout);
  if (store->add("lockstep" + place.run_id, 1) > place.world_size)
    throw InputError({.what = "the file by which the ranks meet is one of an earlier run",
                      .where = place.store_file,
                      .expected = "no file, before the first rank begins",
                      .next = "remove it, or name another in init_method=file://"});
  return store;
}

}  // namespace

c10::intrusive_ptr<c10d::Store> store_of(const launch::Place& place) {
  const std::string prefix = place.store_prefix + "/lockstep" + place.run_id;
  if (!place.store_file.empty()) return c10::make_intrusive<c10d::PrefixStore>(prefix, file_store_of(place));
  c10d::TCPStoreOptions options;
  options.port = place.master_port;
  options.isServer = place.rank == 0 && place.store_prefix.empty();
  options.numWorkers = static_cast<std::size_t>(place.world_size);
  options.waitWorkers = true;
  options.timeout = kMeetingTimeout;
  if (options.isServer && place.listen_descriptor) options.masterListenFd = *place.listen_descriptor;
  auto store = c10::make_intrusive<c10d::TCPStore>(place.master_address, options);
  // Ranks of another run that come to this port by mistake meet nobody.
  return c10::make_intrusive<c10d::PrefixStore>(prefix, std::move(store));
}

/// Collectives in the order in which they were issued, through whichever backend.
class Collective::Log {
 public:
  explicit Log(launch::ProgressWriter& progress) : progress_(progress) {}

  void note(std::string line) {
    const std::lock_guard<std::mutex> lock(mutex_);
    progress_.count_collective(line);
    lines_.push_back(std::move(line));
    if (before_each_) before_each_();
  }

  void before_each(std::function<void()> action) {
    const std::lock_guard<std::mutex> lock(mutex_);
    before_each_ = std::move(action);
  }

  std::vector<std::string> take() {
    const std::lock_guard<std::mutex> lock(mutex_);
    return std::exchange(lines_, {});
  }

 private:
  launch::ProgressWriter& progress_;
  std::mutex mutex_;
  std::vector<std::string> lines_;
  std::function<void()> before_each_;
};

/// Writes every collective down and hands it on; sums become what the reduction makes of them.
class Collective::Logged : public c10d::Backend {
 public:
  using Work = c10::intrusive_ptr<c10d::Work>;

  Logged(c10::intrusive_ptr<c10d::Backend> inner, const Reduction& reduction, Log& log)
      : Backend(inner->getRank(), inner->getSize()), inner_(std::move(inner)), reduction_(reduction), log_(log) {}

  const std::string getBackendName() const override { return inner_->getBackendName(); }
  bool supportsCoalescing() const override { return inner_->supportsCoalescing(); }
  c10::intrusive_ptr<Options> getBackendOptions() override { return inner_->getBackendOptions(); }
  void setSequenceNumberForGroup() override { inner_->setSequenceNumberForGroup(); }
  uint64_t getSequenceNumberForGroup() override { return inner_->getSequenceNumberForGroup(); }

  Work allreduce(std::vector<at::Tensor>& tensors, const c10d::AllreduceOptions& options) override {
    log_.note("allreduce " + shape_of(tensors) + " " + operator_name(options.reduceOp));
    const bool sums = options.reduceOp == c10d::ReduceOp::SUM;
    return sums ? reduction_.sum(*inner_, tensors, options) : inner_->allreduce(tensors, options);
  }
  Work broadcast(std::vector<at::Tensor>& tensors, const c10d::BroadcastOptions& options) override {
    log_.note("broadcast " + shape_of(tensors) + " from " + std::to_string(options.rootRank));
    return inner_->broadcast(tensors, options);
  }
  Work allgather(std::vector<std::vector<at::Tensor>>& outputs, std::vector<at::Tensor>& inputs,
                 const c10d::AllgatherOptions& options) override {
    log_.note("allgather " + shape_of(inputs));
    return inner_->allgather(outputs, inputs, options);
  }
  Work barrier(const c10d::BarrierOptions& options) override {
    log_.note("barrier");
    return inner_->barrier(options);
  }

 private:
  c10::intrusive_ptr<c10d::Backend> inner_;
  const Reduction& reduction_;
  Log& log_;
};

Collective::Collective(const launch::Place& place, launch::ProgressWriter& progress, const Device& device,
                       std::unique_ptr<Reduction> reduction)
    : progress_(progress), reduction_(std::move(reduction)), log_(std::make_unique<Log>(progress)) {
  const Member member{
      .store = store_of(place), .rank = static_cast<int>(place.rank), .size = static_cast<int>(place.world_size)};
  backends_ = device.join(member);
  group_ = c10::make_intrusive<c10d::ProcessGroup>(member.store, member.rank, member.size);
  for (const Backend& one : backends_)
    group_->setBackend(one.device, one.type, c10::make_intrusive<Logged>(one.backend, *reduction_, *log_));
  group_->setDefaultBackend(backends_.front().type);
  group_->setGroupName("lockstep");
}

Collective::~Collective() = default;

c10d::Backend& Collective::backend_for(c10::DeviceType device) const {
  const auto found =
      std::find_if(backends_.begin(), backends_.end(), [&](const Backend& one) { return one.device == device; });
  LOCKSTEP_CHECK(found != backends_.end());
  return *found->backend;
}

std::vector<std::string> Collective::take_log() { return log_->take(); }

at::Tensor Collective::metric_sum(const at::Tensor& value, bool root_only) {
  std::vector<at::Tensor> sum{value.clone()};
  if (group_->getSize() == 1) return sum[0];
  progress_.count_collective("sum of a metric");
  c10d::Backend& backend = backend_for(value.device().type());
  (root_only ? backend.reduce(sum) : backend.allreduce(sum))->wait();
  return sum[0];
}

at::Tensor Collective::sum(const at::Tensor& value) {
  std::vector<at::Tensor> sum{value.clone()};
  group_->allreduce(sum)->wait();
  return sum[0];
}

void Collective::before_each(std::function<void()> action) { log_->before_each(std::move(action)); }

void Collective::barrier() {
  progress_.count_collective("barrier");
  backend_for(c10::DeviceType::CPU).barrier()->wait();
}

}  // namespace lockstep::train
