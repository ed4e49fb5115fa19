#pragma once

#include <memory>
#include <optional>
#include <vector>

#include <torch/csrc/distributed/c10d/logger.hpp>
#include <torch/csrc/distributed/c10d/reducer.hpp>

#include "harness/recipe/train_spec.h"
#include "harness/train/collective/collective.h"
#include "harness/train/model/model.h"
#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Parameters of each bucket, by index, in the order of reduction.
using BucketLayout = std::vector<std::vector<std::size_t>>;

/// c10d::Reducer, set up as Python's DistributedDataParallel does. Without `wrap`, it is the bare model.
/// *Source*: torch/nn/parallel/distributed.py, PyTorch 2.11: __init__, _ddp_init_helper, _pre_forward, _post_forward.
class Ddp {
 public:
  /// Verifies the parameters across ranks, broadcasts parameters and buffers from rank 0, builds the Reducer. `layout`
  /// replaces the initial bucket assignment, so that a resumed run reduces as the interrupted one did. It must list
  /// each parameter once.
  /// *Throws*: InputError if their number differs from the model's.
  Ddp(std::shared_ptr<Model> model, const recipe::DdpSpec& spec, const Collective& collective,
      const std::optional<BucketLayout>& layout);

  /// Forward pass; an evaluation if gradients are off. `sync`: whether the next backward reduces; false is Python's
  /// no_sync().
  at::Tensor forward(const at::Tensor& input, bool sync);

  /// The current bucket assignment.
  BucketLayout layout() const;

  /// Rebuilds the buckets now if the next forward pass would. A resumed run must start with them. Call on all ranks.
  void settle_buckets();

  /// Device of the model.
  at::Device device() const { return parameters_.front().tensor.device(); }

  const std::vector<NamedTensor>& parameters() const { return parameters_; }
  const std::vector<NamedTensor>& buffers() const { return buffers_; }

 private:
  void broadcast_state() const;
  void build_reducer(const std::optional<BucketLayout>& layout);

  std::shared_ptr<Model> model_;
  recipe::DdpSpec spec_;
  c10::intrusive_ptr<c10d::ProcessGroup> group_;
  std::vector<NamedTensor> parameters_;
  std::vector<NamedTensor> buffers_;
  bool previous_forward_synced_ = true;
  std::shared_ptr<c10d::Reducer> reducer_;
  std::shared_ptr<c10d::Logger> logger_;  ///< the Reducer asks it about unused parameters
};

}  // namespace lockstep::train
