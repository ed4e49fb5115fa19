#include <ATen/ATen.h>

#include "harness/train/reduction/reduction.h"

namespace lockstep::train {
namespace {

/// Every rank gathers what all send and adds it in the order of the ranks: buckets change no bits.
class InRankOrder : public Reduction {
 public:
  c10::intrusive_ptr<c10d::Work> sum(c10d::Backend& backend, std::vector<at::Tensor>& tensors,
                                     const c10d::AllreduceOptions&) const override {
    const int ranks = backend.getSize();
    for (at::Tensor& tensor : tensors) {
      std::vector<at::Tensor> own{tensor};
      std::vector<std::vector<at::Tensor>> all(1);
      for (int rank = 0; rank < ranks; ++rank) all[0].push_back(at::empty_like(tensor));
      backend.allgather(all, own, {})->wait();
      tensor.copy_(all[0][0]);
      for (int rank = 1; rank < ranks; ++rank) tensor.add_(all[0][static_cast<std::size_t>(rank)]);
    }
    return backend.broadcast(tensors, {});  // changes nothing, and gives back what DDP waits for
  }
};

}  // namespace

std::unique_ptr<Reduction> make_rank_order_reduction() { return std::make_unique<InRankOrder>(); }

}  // namespace lockstep::train
