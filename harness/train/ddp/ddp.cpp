#include "harness/train/ddp/ddp.h"

#include <algorithm>
#include <cstdint>
#include <limits>

#include <ATen/core/grad_mode.h>
#include <ATen/record_function.h>
#include <torch/csrc/distributed/c10d/comm.hpp>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

constexpr double kDefaultBucketMb = 25;
constexpr std::size_t kDefaultFirstBucketBytes = 1024 * 1024;
constexpr std::size_t kBroadcastBufferBytes = 250 * 1024 * 1024;

std::vector<at::Tensor> tensors_of(const std::vector<NamedTensor>& named) {
  std::vector<at::Tensor> tensors;
  for (const NamedTensor& entry : named) tensors.push_back(entry.tensor);
  return tensors;
}

const BucketLayout& fitting(const BucketLayout& layout, std::size_t parameters) {
  std::size_t held = 0;
  for (const std::vector<std::size_t>& bucket : layout) held += bucket.size();
  if (held == parameters) return layout;
  throw InputError({.what = "the checkpoint's buckets belong to another model",
                    .where = "train.checkpoint.load",
                    .expected = std::to_string(parameters) + " parameters",
                    .actual = std::to_string(held) + " parameters",
                    .next = "load into a training with the same model, or restore no buckets"});
}

/// Sums gradients over the ranks and leaves out DDP's division.
class SumHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  using CppCommHookInterface::CppCommHookInterface;

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    std::vector<at::Tensor> tensors{bucket.getBufferRef()};
    return state_->allreduce(tensors)->getFuture();
  }
};

at::ScalarType sent_as(recipe::Compression compression) {
  if (compression == recipe::Compression::kFp64) return at::kDouble;
  return compression == recipe::Compression::kFp16 ? at::kHalf : at::kBFloat16;
}

/// Sends gradients in another dtype. *Source*:
/// torch.distributed.algorithms.ddp_comm_hooks.default_hooks._compress_hook, PyTorch 2.11.
class CompressHook : public c10d::CppCommHookInterface<c10::intrusive_ptr<c10d::ProcessGroup>> {
 public:
  CompressHook(const c10::intrusive_ptr<c10d::ProcessGroup>& group, at::ScalarType dtype)
      : CppCommHookInterface(group), dtype_(dtype) {}

  c10::intrusive_ptr<c10::ivalue::Future> runHook(c10d::GradBucket& bucket) override {
    at::Tensor buffer = bucket.getBufferRef();
    std::vector<at::Tensor> tensors{buffer.to(dtype_).div_(state_->getSize())};
    return state_->allreduce(tensors)->getFuture()->then(
        [buffer](c10::ivalue::Future& done) {
          buffer.copy_(done.value().toTensorVector()[0]);
          return c10::IValue(std::vector<at::Tensor>{buffer});
        },
        c10::ListType::create(c10::TensorType::get()));
  }

 private:
  at::ScalarType dtype_;
};

}  // namespace

Ddp::Ddp(std::shared_ptr<Model> model, const recipe::DdpSpec& spec, const Collective& collective,
         const std::optional<BucketLayout>& layout)
    : model_(std::move(model)), spec_(spec), group_(collective.group()) {
  for (const auto& entry : model_->named_parameters()) {
    if (entry.value().requires_grad()) parameters_.push_back({entry.key(), entry.value()});
  }
  for (const auto& entry : model_->named_buffers()) buffers_.push_back({entry.key(), entry.value()});
  if (!spec_.wrap) return;
  c10d::verify_params_across_processes(group_, tensors_of(parameters_), std::nullopt);
  broadcast_state();
  build_reducer(layout);
}

void Ddp::broadcast_state() const {
  std::vector<at::Tensor> state;
  for (const NamedTensor& parameter : parameters_) state.push_back(parameter.tensor.detach());
  if (spec_.broadcast_buffers) {
    for (const NamedTensor& buffer : buffers_) state.push_back(buffer.tensor.detach());
  }
  c10d::broadcast_coalesced(group_, state, kBroadcastBufferBytes, 0);
}

void Ddp::build_reducer(const std::optional<BucketLayout>& layout) {
  const std::vector<at::Tensor> parameters = tensors_of(parameters_);
  const std::vector<bool> sparse(parameters.size(), false);
  const auto cap = static_cast<std::size_t>(spec_.bucket_mb.value_or(kDefaultBucketMb) * 1024 * 1024);
  const std::size_t first_cap = spec_.bucket_mb ? cap : kDefaultFirstBucketBytes;
  // Without a search for unused parameters, DDP takes one bucket for the first iteration and rebuilds after it.
  std::vector<std::size_t> limits{std::numeric_limits<std::int64_t>::max()};
  if (spec_.find_unused_parameters) limits = spec_.bucket_mb ? std::vector{cap} : std::vector{first_cap, cap};
  BucketLayout buckets = std::get<0>(c10d::compute_bucket_assignment_by_size(parameters, limits, sparse));
  std::reverse(buckets.begin(), buckets.end());
  if (layout) buckets = fitting(*layout, parameters.size());

  std::unordered_map<std::size_t, std::string> names;
  for (std::size_t i = 0; i < parameters_.size(); ++i) names[i] = parameters_[i].name;
  reducer_ = std::make_shared<c10d::Reducer>(
      parameters, buckets, group_, sparse, static_cast<std::int64_t>(cap), spec_.find_unused_parameters,
      spec_.gradient_as_bucket_view, names, static_cast<std::int64_t>(first_cap),
      /*skip_all_reduce_unused_params=*/false, /*use_python_reducer=*/false, std::vector<std::int64_t>{});
  // Python also tells it how DDP was made, for statistics only: that looks into a ProcessGroupGloo, which ours wraps.
  logger_ = std::make_shared<c10d::Logger>(reducer_);
  reducer_->set_logger(logger_);
  if (!spec_.average) reducer_->register_comm_hook(std::make_unique<SumHook>(group_));
  if (spec_.compression != recipe::Compression::kNone)
    reducer_->register_comm_hook(std::make_unique<CompressHook>(group_, sent_as(spec_.compression)));
}

at::Tensor Ddp::forward(const at::Tensor& input, bool sync) {
  if (!spec_.wrap) return model_->forward(input);
  const bool training = at::GradMode::is_enabled(), reduces = training && sync;
  if (reduces) reducer_->prepare_for_forward();
  if (training) {
    // It happens once in a process, at another step of a training that was resumed: no operator of the step.
    const at::DisableRecordFunctionGuard unlogged;
    reducer_->rebuild_buckets();
  }
  if (spec_.broadcast_buffers && !buffers_.empty() && previous_forward_synced_) {
    const at::NoGradGuard no_grad;
    c10d::broadcast_coalesced(group_, tensors_of(buffers_), kBroadcastBufferBytes, 0);
  }
  at::Tensor output = model_->forward(input);
  previous_forward_synced_ = reduces;
  if (reduces)
    reducer_->prepare_for_backward(spec_.find_unused_parameters ? std::vector<at::Tensor>{output}
                                                                : std::vector<at::Tensor>{});
  return output;
}

void Ddp::settle_buckets() {
  if (spec_.wrap) reducer_->rebuild_buckets();
}

BucketLayout Ddp::layout() const {
  BucketLayout layout;
  if (!spec_.wrap) return layout;
  for (const c10d::GradBucket& bucket : reducer_->get_grad_buckets(/*return_zero_tensors=*/true)) {
    std::vector<std::size_t>& indices = layout.emplace_back();
    for (const at::Tensor& parameter : bucket.getParameters()) {
      const auto found = std::find_if(parameters_.begin(), parameters_.end(),
                                      [&](const NamedTensor& p) { return p.tensor.is_same(parameter); });
      LOCKSTEP_CHECK(found != parameters_.end());
      indices.push_back(static_cast<std::size_t>(found - parameters_.begin()));
    }
  }
  return layout;
}

}  // namespace lockstep::train
