#include "harness/train/files/stored_data.h"

#include <algorithm>
#include <cstring>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/device/tensors.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kMostClasses = 100000;

/// Classes of a set of samples that says nothing of them, unless it has more samples than this.
constexpr std::int64_t kLikelyClasses = 1000;

using trace::DType;

[[noreturn]] void fail(const StoredArray& array, const std::string& what, const std::string& expected,
                       const std::string& actual) {
  throw InputError({.what = what, .where = array.where, .expected = expected, .actual = actual});
}

std::string type_of(const StoredArray& array) {
  return std::string(trace::name_of(array.tensor.dtype)) + Json(array.tensor.shape).dump();
}

/// A view of the first so many entries. *Lifetime*: of the array.
at::Tensor first_of(const StoredArray& array, std::int64_t count) {
  std::vector<std::int64_t> shape = array.tensor.shape;
  shape[0] = count;
  return at::from_blob(const_cast<char*>(array.tensor.bytes.data()), shape,
                       at::TensorOptions(scalar_type_of(array.tensor.dtype)));
}

bool is_integer(DType dtype) { return !trace::is_floating(dtype) && dtype != DType::kBool; }

bool holds_tokens(const StoredArray& array) {
  return (array.tensor.dtype == DType::kInt32 || array.tensor.dtype == DType::kInt64) && array.tensor.shape.size() == 2;
}

void require_shapes(const StoredArray& inputs, const StoredArray& labels) {
  const std::vector<std::int64_t>& shape = inputs.tensor.shape;
  const bool fits = shape.size() >= 2 && shape.size() <= 4 && std::find(shape.begin(), shape.end(), 0) == shape.end();
  if (!fits)
    fail(inputs, "the inputs do not have the shape of samples", "2 to 4 extents of at least 1", type_of(inputs));
  const bool known = trace::is_floating(inputs.tensor.dtype) || inputs.tensor.dtype == DType::kUInt8;
  if (!known && !holds_tokens(inputs)) {
    fail(inputs, "the inputs are neither pixels, nor numbers, nor tokens",
         "uint8, floating point, or int32 or int64 of [samples, length]", type_of(inputs));
  }
  const bool as_tokens = holds_tokens(inputs);
  if (!is_integer(labels.tensor.dtype) || labels.tensor.shape.size() != (as_tokens ? 2U : 1U)) {
    fail(labels, "the labels do not fit such samples",
         std::string("integers of ") + (as_tokens ? "[samples, length]" : "[samples]"), type_of(labels));
  }
  const std::vector<std::int64_t> wanted(shape.begin(), shape.begin() + (as_tokens ? 2 : 1));
  if (labels.tensor.shape != wanted) {
    fail(labels, "the numbers of inputs and labels differ", Json(wanted).dump() + ", as in " + inputs.where,
         Json(labels.tensor.shape).dump());
  }
}

/// The integers of an array, each within [0, most] or, where allowed, without a label.
at::Tensor integers_of(const StoredArray& array, std::int64_t most, bool may_lack) {
  at::Tensor values = first_of(array, array.tensor.shape[0]).to(at::kLong, /*non_blocking=*/false, /*copy=*/true);
  at::Tensor wrong = values.lt(0).logical_or_(values.gt(most));
  if (may_lack) wrong.logical_and_(values.ne(kNoLabel));
  if (wrong.any().item<bool>()) {
    const std::int64_t at = wrong.flatten().to(at::kByte).argmax().item<std::int64_t>();
    fail(array, "element " + std::to_string(at) + " is not a class", "0 to " + std::to_string(most),
         std::to_string(values.flatten()[at].item<std::int64_t>()));
  }
  return values;
}

at::Tensor images_of(const StoredArray& array, std::int64_t count) {
  const at::Tensor stored = first_of(array, count);
  at::Tensor values = stored.to(at::kFloat, /*non_blocking=*/false, /*copy=*/true);
  if (stored.scalar_type() == at::kByte) values.div_(255);
  std::vector<std::int64_t> shape = values.sizes().vec();
  while (shape.size() < 4) shape.insert(shape.begin() + 1, 1);
  return values.view(shape);
}

}  // namespace

Dataset dataset_from(const StoredArray& inputs, const StoredArray& labels, const Json& options) {
  require_shapes(inputs, labels);
  const std::int64_t stored = inputs.tensor.shape[0];
  const auto count = options.value("size", stored);
  if (count > stored) {
    fail(inputs, "train.data.size asks for more samples than the file has", "at most " + std::to_string(stored),
         std::to_string(count));
  }
  const bool as_tokens = holds_tokens(inputs);
  const std::int64_t most = options.value("classes", kMostClasses) - 1;
  Dataset data{.labels = integers_of(labels, most, as_tokens)};
  std::int64_t largest = data.labels.max().item<std::int64_t>();
  if (const std::int64_t most_likely = std::max(kLikelyClasses, stored);
      !options.contains("classes") && !as_tokens && largest >= most_likely) {
    const std::int64_t at = data.labels.argmax().item<std::int64_t>();
    fail(labels, "element " + std::to_string(at) + " is too large a label for so few samples",
         "less than " + std::to_string(most_likely) + ", or train.data.classes", std::to_string(largest));
  }
  if (as_tokens) {
    data.inputs = integers_of(inputs, most, /*may_lack=*/false);
    largest = std::max(largest, data.inputs.max().item<std::int64_t>());
    data.inputs = data.inputs.slice(0, 0, count);
  } else {
    data.inputs = images_of(inputs, count);
  }
  data.labels = data.labels.slice(0, 0, count);
  data.classes = options.value("classes", std::max<std::int64_t>(largest + 1, 2));
  return data;
}

}  // namespace lockstep::train
