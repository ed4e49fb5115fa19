#include "harness/train/device/tensors.h"

#include <array>
#include <string>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

struct Row {
  at::ScalarType type;
  trace::DType dtype;
};

constexpr std::array<Row, 10> kTable = {{{at::kBool, trace::DType::kBool},
                                         {at::kByte, trace::DType::kUInt8},
                                         {at::kChar, trace::DType::kInt8},
                                         {at::kShort, trace::DType::kInt16},
                                         {at::kInt, trace::DType::kInt32},
                                         {at::kLong, trace::DType::kInt64},
                                         {at::kHalf, trace::DType::kFloat16},
                                         {at::kBFloat16, trace::DType::kBFloat16},
                                         {at::kFloat, trace::DType::kFloat32},
                                         {at::kDouble, trace::DType::kFloat64}}};

}  // namespace

trace::DType dtype_of(at::ScalarType type) {
  for (const Row& row : kTable) {
    if (row.type == type) return row.dtype;
  }
  throw Unsupported({.what = std::string("a trace cannot hold tensors of type ") + c10::toString(type)});
}

at::ScalarType scalar_type_of(trace::DType dtype) {
  for (const Row& row : kTable) {
    if (row.dtype == dtype) return row.type;
  }
  LOCKSTEP_CHECK(false);
  return at::kFloat;
}

HostView view_of(const at::Tensor& tensor) {
  HostView view;
  view.tensor = tensor.is_cpu() ? tensor : tensor.detach().cpu();
  view.data = view.tensor.const_data_ptr();
  view.dtype = dtype_of(view.tensor.scalar_type());
  view.shape = {view.tensor.sizes().data(), view.tensor.sizes().size()};
  view.strides = {view.tensor.strides().data(), view.tensor.strides().size()};
  return view;
}

}  // namespace lockstep::train
