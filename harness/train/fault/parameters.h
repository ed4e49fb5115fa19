#pragma once

#include <string>
#include <vector>

#include "harness/train/optimizer.h"

namespace lockstep::train {

/// The 16-bit type that a fault's option "dtype" names.
inline at::ScalarType half_type(const Json& options) {
  return options.at("dtype") == "fp16" ? at::kHalf : at::kBFloat16;
}

/// The tensors that a fault acts on: of one that acts in float32 only, those of that type.
class DtypeChoice {
 public:
  explicit DtypeChoice(const Json& options) : float32_only_(options.at("float32_only").get<bool>()) {}
  bool includes(const at::Tensor& tensor) const { return !float32_only_ || tensor.scalar_type() == at::kFloat; }

 private:
  bool float32_only_;
};

/// The parameters that a fault's option "parameter" names: '*' stands for any characters, empty for all of them.
class ParameterChoice {
 public:
  explicit ParameterChoice(const Json& options);

  bool include(const std::string& name) const;

  /// The first of them.
  const NamedTensor& first_of(const std::vector<NamedTensor>& parameters) const;

  /// *Throws*: InputError when the model has none of them.
  void require_in(const std::vector<NamedTensor>& parameters) const;

 private:
  std::string pattern_;
};

}  // namespace lockstep::train
