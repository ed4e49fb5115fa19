#include "harness/train/collective/collectives_check.h"

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <string>
#include <vector>

#include <ATen/ATen.h>

#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/train/collective/collective.h"
#include "harness/train/device/device.h"

namespace lockstep::train {
namespace {

/// From one size to the next.
constexpr std::int64_t kFactor = 4;

/// Repeats that are timed, of which the mean counts, after one that is not.
constexpr int kTimes = 5;

/// Element i of rank r's input is (i + kStride r) mod kNumbers: every rank sends another one, and 2^24 / kNumbers ranks
/// have an exact sum in float32.
constexpr std::int64_t kNumbers = 1021;
constexpr std::int64_t kStride = 37;

/// Elements from `begin` on, as one rank holds them.
at::Tensor numbers_of(std::int64_t rank, std::int64_t begin, std::int64_t count) {
  return at::arange(begin, begin + count, at::kLong).add_(kStride * rank).remainder_(kNumbers);
}

/// One operation of one size: issues it anew, and knows what it must give.
class Operation {
 public:
  Operation(const Backend& backend, const Device& device, std::int64_t share)
      : backend_(*backend.backend),
        place_(device.place()),
        share_(share),
        ranks_(backend_.getSize()),
        rank_(backend_.getRank()) {}
  virtual ~Operation() = default;

  virtual std::string name() const = 0;
  /// Input and output as they are before it.
  virtual void prepare() = 0;
  virtual void run() = 0;
  virtual at::Tensor expected() const = 0;
  at::Tensor& result() { return result_; }

 protected:
  at::Tensor elements_of(std::int64_t rank, std::int64_t begin, std::int64_t count) const {
    return numbers_of(rank, begin, count).to(place_, at::kFloat);
  }
  at::Tensor sum_of_ranks(std::int64_t begin, std::int64_t count) const {
    at::Tensor sum = at::zeros({count}, at::kLong);
    for (std::int64_t rank = 0; rank < ranks_; ++rank) sum += numbers_of(rank, begin, count);
    return sum.to(place_, at::kFloat);
  }
  at::Tensor zeros(std::int64_t count) const { return at::zeros({count}, at::dtype(at::kFloat).device(place_)); }

  c10d::Backend& backend_;
  at::Device place_;
  std::int64_t share_;  ///< elements of one rank
  std::int64_t ranks_, rank_;
  at::Tensor input_, result_;
};

class AllReduce : public Operation {
  using Operation::Operation;
  std::string name() const override { return "all-reduce"; }
  void prepare() override { result_ = elements_of(rank_, 0, share_ * ranks_); }
  void run() override {
    std::vector<at::Tensor> all{result_};
    backend_.allreduce(all)->wait();
  }
  at::Tensor expected() const override { return sum_of_ranks(0, share_ * ranks_); }
};

class ReduceScatter : public Operation {
  using Operation::Operation;
  std::string name() const override { return "reduce-scatter"; }
  void prepare() override {
    input_ = elements_of(rank_, 0, share_ * ranks_);
    result_ = zeros(share_);
  }
  void run() override { backend_._reduce_scatter_base(result_, input_)->wait(); }
  at::Tensor expected() const override { return sum_of_ranks(share_ * rank_, share_); }
};

class AllGather : public Operation {
  using Operation::Operation;
  std::string name() const override { return "all-gather"; }
  void prepare() override {
    input_ = elements_of(rank_, 0, share_);
    result_ = zeros(share_ * ranks_);
  }
  void run() override { backend_._allgather_base(result_, input_)->wait(); }
  at::Tensor expected() const override {
    std::vector<at::Tensor> all;
    for (std::int64_t rank = 0; rank < ranks_; ++rank) all.push_back(elements_of(rank, 0, share_));
    return at::cat(all);
  }
};

class Broadcast : public Operation {
  using Operation::Operation;
  std::string name() const override { return "broadcast"; }
  void prepare() override {
    const std::int64_t count = share_ * ranks_;
    result_ = rank_ == 0 ? elements_of(0, 0, count) : zeros(count);
  }
  void run() override {
    std::vector<at::Tensor> all{result_};
    backend_.broadcast(all)->wait();
  }
  at::Tensor expected() const override { return elements_of(0, 0, share_ * ranks_); }
};

/// Wrong elements of all repeats, and the mean time of one.
Json measured(Operation& operation, c10d::Backend& backend, const Device& device, std::int64_t bytes, bool plants) {
  using Clock = std::chrono::steady_clock;
  std::chrono::duration<double> all{0};
  std::int64_t wrong = 0;
  const at::Tensor expected = operation.expected();
  for (int time = 0; time <= kTimes; ++time) {
    operation.prepare();
    device.wait();
    backend.barrier()->wait();
    const auto begin = Clock::now();
    operation.run();
    device.wait();
    if (time > 0) all += Clock::now() - begin;
    if (plants && time == kTimes) operation.result()[0] += 1;
    wrong += operation.result().ne(expected).sum().item<std::int64_t>();
  }
  return {{"operation", operation.name()}, {"bytes", bytes}, {"seconds", all.count() / kTimes}, {"wrong", wrong}};
}

}  // namespace

void check_collectives(const std::filesystem::path& request, const launch::Place& place,
                       const std::filesystem::path& out) {
  const Json asked = read_json(request);
  const auto most = asked.at("most_bytes").get<std::int64_t>();
  const Member member{
      .store = store_of(place), .rank = static_cast<int>(place.rank), .size = static_cast<int>(place.world_size)};
  const auto over = asked.at("over").get<std::string>();
  const auto device = make_device(over == "nccl" ? "cuda" : "cpu", {.local_rank = place.local_rank, .backend = over});
  const std::vector<Backend> backends = device->join(member);
  const Backend &of_host = backends.front(), &backend = backends.back();
  constexpr auto kElement = static_cast<std::int64_t>(sizeof(float));
  Json rows = Json::array();
  for (std::int64_t bytes = asked.at("least_bytes"); bytes <= most; bytes *= kFactor) {
    const std::int64_t share = std::max<std::int64_t>(1, bytes / kElement / place.world_size);
    const std::int64_t sent = share * place.world_size * kElement;
    const bool is_last = bytes * kFactor > most;
    AllReduce all_reduce(backend, *device, share);
    ReduceScatter reduce_scatter(backend, *device, share);
    AllGather all_gather(backend, *device, share);
    Broadcast broadcast(backend, *device, share);
    for (Operation* operation :
         std::initializer_list<Operation*>{&all_reduce, &reduce_scatter, &all_gather, &broadcast})
      rows.push_back(measured(*operation, *of_host.backend, *device, sent,
                              operation == &all_reduce && is_last && asked.at("wrong_rank") == place.rank));
  }
  write_file(out / ("rank" + std::to_string(place.rank) + ".collectives.json"), rows.dump() + "\n");
}

}  // namespace lockstep::train
