#pragma once

#include <string>
#include <vector>

#include "harness/train/fault/fault.h"
#include "harness/train/fault/parameters.h"

namespace lockstep::train {

/// A fault that acts from its first step on.
class LastingFault : public Fault {
 public:
  bool lasts() const override { return true; }
};

/// The same on the parameters that its option names; the model must have one.
class ParameterFault : public LastingFault {
 public:
  explicit ParameterFault(const Json& options) : parameters_(options) {}
  void require_parameters(const std::vector<NamedTensor>& parameters) const override {
    parameters_.require_in(parameters);
  }

 protected:
  bool includes(const std::string& parameter) const { return parameters_.include(parameter); }

 private:
  ParameterChoice parameters_;
};

}  // namespace lockstep::train
