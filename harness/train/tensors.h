#pragma once

#include <ATen/core/Tensor.h>

#include "harness/record/recorder.h"
#include "harness/trace/dtype.h"

namespace lockstep::train {

/// *Throws*: Unsupported for a dtype that a trace cannot hold.
trace::DType dtype_of(at::ScalarType type);
at::ScalarType scalar_type_of(trace::DType dtype);

/// A CPU tensor as plain memory. *Lifetime*: of the tensor.
record::TensorView view_of(const at::Tensor& tensor);

}  // namespace lockstep::train
