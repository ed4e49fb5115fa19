#pragma once

#include <memory>
#include <string>
#include <vector>

#include <torch/csrc/distributed/c10d/Backend.hpp>

namespace lockstep::train {

/// How the ranks' tensors become their sum: which additions round, and in which order.
class Reduction {
 public:
  virtual ~Reduction() = default;

  /// Sums `tensors` over the ranks, in place, by collectives of `backend`. DDP waits for the work that it returns.
  /// *Lifetime*: of the backend and the tensors, until the work is done.
  virtual c10::intrusive_ptr<c10d::Work> sum(c10d::Backend& backend, std::vector<at::Tensor>& tensors,
                                             const c10d::AllreduceOptions& options) const = 0;
};

/// Dispatches on the names of the schema's `ddp.reduction`: each is `make_<name>_reduction` in reduction/<name>.cpp.
std::unique_ptr<Reduction> make_reduction(const std::string& name);

}  // namespace lockstep::train
