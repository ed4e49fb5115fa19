#pragma once

#include <string>

#include "harness/trace/safetensors.h"
#include "harness/train/data/data.h"

namespace lockstep::train {

/// An array from a file.
struct StoredArray {
  trace::StoredTensor tensor;
  std::string where;  ///< for messages: file, and name of the array in it
};

/// Dataset from stored inputs and labels; `options` may hold `size` and `classes`.
///
/// *Shape*: inputs are [samples, channels, height, width]; a single channel or row may be omitted. uint8 is divided by
/// 255 (torchvision's ToTensor); floating-point numbers become float32. int32 or int64 inputs [samples, length] are
/// tokens, with one label per token.
/// *Throws*: InputError that names the file and the invalid element.
Dataset dataset_from(const StoredArray& inputs, const StoredArray& labels, const Json& options);

}  // namespace lockstep::train
