#pragma once

#include <string>
#include <vector>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// 16-bit type of a fault's option "dtype".
inline at::ScalarType half_type(const Json& options) {
  return options.at("dtype") == "fp16" ? at::kHalf : at::kBFloat16;
}

/// Tensors that a fault acts on: all, or only float32 ones.
class DtypeChoice {
 public:
  explicit DtypeChoice(const Json& options) : float32_only_(options.at("float32_only").get<bool>()) {}
  bool includes(const at::Tensor& tensor) const { return !float32_only_ || tensor.scalar_type() == at::kFloat; }

 private:
  bool float32_only_;
};

/// Parameters that a fault's option "parameter" names. '*' matches any characters; empty means all parameters.
class ParameterChoice {
 public:
  explicit ParameterChoice(const Json& options);

  bool include(const std::string& name) const;

  /// The first of them.
  const NamedTensor& first_of(const std::vector<NamedTensor>& parameters) const;

  /// *Throws*: InputError if the model has none of them.
  void require_in(const std::vector<NamedTensor>& parameters) const;

 private:
  std::string pattern_;
};

}  // namespace lockstep::train
