#pragma once

#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "harness/scenario/scenario.h"

namespace lockstep::test {

/// The mistakes that a recipe plants ("train.faults"), as the fake worker makes them. Each lasts from its step on.
class Planted {
 public:
  explicit Planted(const std::vector<recipe::FaultChoice>& faults) : faults_(faults) {}

  /// Options of a fault that acts in this step on this rank; null where none does.
  const Json* find(std::string_view kind, std::int64_t step, std::int64_t rank) const {
    for (const recipe::FaultChoice& fault : faults_) {
      const auto of = fault.options.at("rank").get<std::int64_t>();
      if (fault.kind == kind && fault.options.at("step") <= step && (of < 0 || of == rank)) return &fault.options;
    }
    return nullptr;
  }

  /// All of a kind, that act on tensors of this type.
  template <typename Real, typename Do>
  void each(std::string_view kind, std::int64_t step, std::int64_t rank, const std::string& parameter, Do act) const {
    for (const recipe::FaultChoice& fault : faults_) {
      const Json& options = fault.options;
      const auto of = options.at("rank").get<std::int64_t>();
      const std::string wanted = options.value("parameter", "");
      if (fault.kind != kind || options.at("step") > step || (of >= 0 && of != rank)) continue;
      if (!wanted.empty() && wanted != parameter) continue;
      if (options.value("float32_only", false) && !std::is_same_v<Real, float>) continue;
      act(options);
    }
  }

 private:
  const std::vector<recipe::FaultChoice>& faults_;
};

}  // namespace lockstep::test
