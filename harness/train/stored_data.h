#pragma once

#include <string>

#include "harness/trace/safetensors.h"
#include "harness/train/data.h"

namespace lockstep::train {

/// An array as a file holds it.
struct StoredArray {
  trace::StoredTensor tensor;
  std::string where;  ///< for messages: the file, and its name in there
};

/// Samples of stored inputs and labels; `options` may hold `size` and `classes`.
///
/// *Shape* of the inputs: [samples, channels, height, width]; one channel may be left out, and so may one row.
/// uint8 is divided by 255 (torchvision's ToTensor), floating-point numbers become float32. Integers
/// [samples, length] of int32 or int64 are tokens, with as many labels of their own.
/// *Throws*: InputError that names the file, and the element that cannot be.
Dataset dataset_from(const StoredArray& inputs, const StoredArray& labels, const Json& options);

}  // namespace lockstep::train
