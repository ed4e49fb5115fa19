#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::train {

/// Algorithm that sums tensors over the ranks. It fixes the order of the additions, and so their rounding.
class Reduction {
 public:
  virtual ~Reduction() = default;

  /// Sums `tensors` over the ranks, in place, with collectives of `backend`. DDP waits for the returned work.
  /// *Lifetime*: of the backend and the tensors, until the work is done.
  virtual c10::intrusive_ptr<c10d::Work> sum(c10d::Backend& backend, std::vector<at::Tensor>& tensors,
                                             const c10d::AllreduceOptions& options) const = 0;
};

/// Dispatches on the names of the schema's `ddp.reduction`: each is `make_<name>_reduction` in reduction/<name>.cpp.
std::unique_ptr<Reduction> make_reduction(const std::string& name);

}  // namespace lockstep::train
