#pragma once

#include <ATen/core/Tensor.h>

#include "harness/record/rank_recorder.h"
#include "harness/trace/dtype.h"

namespace lockstep::train {

/// *Throws*: Unsupported for a dtype that a trace cannot hold.
trace::DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(trace::DType dtype);

/// View of a tensor as host memory. The memory lives as long as the view.
struct HostView : record::TensorView {
  at::Tensor tensor;  ///< the viewed tensor, or its copy on the host
};

HostView view_of(const at::Tensor& tensor);

}  // namespace lockstep::train
