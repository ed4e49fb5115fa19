#pragma once

#include <cstdint>
#include <span>
#include <string>
#include <type_traits>
#include <utility>
#include <vector>

#include "harness/recipe/train_spec.h"
#include "harness/trace/capture.h"
#include "harness/trace/trace.h"

#include "tests/support/tiny/network.h"
#include "tests/support/tiny/tiny_trace.h"
#include "tests/support/tiny/worker_training.h"

namespace lockstep::test {

/// The trace of one rank of the fake worker, and what it captures.
class RankLog {
 public:
  RankLog(const Surroundings& around, const recipe::TrainSpec& spec, std::int64_t rank, std::int64_t world_size);

  void begin(std::int64_t step);
  void take(trace::Record record);

  template <typename Real>
  void take(trace::Channel channel, const std::string& name, const std::vector<Real>& values,
            const std::vector<std::int64_t>& shape) {
    if constexpr (std::is_same_v<Real, float>) {
      take(floats(channel, name, values, shape));
    } else {
      take(wide_floats(channel, name, values, shape));
    }
    capture(records_.back(), values.data(), values.size() * sizeof(Real));
  }

  template <typename Real>
  void take_scalar(trace::Channel channel, const std::string& name, Real value) {
    if constexpr (std::is_same_v<Real, float>) {
      take(scalar(channel, name, value));
    } else {
      take(wide_scalar(channel, name, value));
    }
    capture(records_.back(), &value, sizeof value);
  }

  /// Operators of one forward and backward pass. `scaled`: the loss is multiplied.
  template <typename Real>
  void passed(const Network& network, const Tensors<Real>& weights, const std::vector<std::int64_t>& ids,
              const Tensors<Real>& gradient, bool scaled) {
    if (!is_captured_) return;
    call("aten::addmm", "forward", "", {digest(ids)}, {});
    for (const Layer& layer : network.layers)
      call("aten::addmm", "forward", layer.name + ".weight", {digest(weights.at(layer.name + ".weight"))}, {});
    if (scaled) call("aten::mul", "forward", "", {}, {});
    for (const auto& [name, values] : gradient) call("aten::mm", "backward", name, {}, {digest(values)});
  }

  /// An operator that only a planted mistake calls.
  void called(const char* name, const std::string& parameter, const char* phase) {
    call(name, phase, parameter, {}, {});
  }

  template <typename Real>
  void updated(const std::string& name, const std::vector<Real>& before, const std::vector<Real>& gradient, double rate,
               const std::vector<Real>& after) {
    if (is_captured_)
      call("aten::add_", "optimizer", name, {digest(before), digest(gradient), std::to_string(-rate)}, {digest(after)});
  }

  void end();
  trace::Trace finished();

 private:
  template <typename Number>
  static std::string digest(const std::vector<Number>& values) {
    const auto bytes = std::as_bytes(std::span(values));
    const std::vector<std::int64_t> shape = {static_cast<std::int64_t>(bytes.size())};
    return trace::to_text(trace::digest_of(trace::DType::kUInt8, shape, bytes));
  }

  void call(const char* name, const char* phase, const std::string& parameter, std::vector<std::string> inputs,
            std::vector<std::string> outputs);
  void capture(const trace::Record& record, const void* elements, std::size_t size);

  const std::filesystem::path folder_;
  const recipe::RecordSpec& spec_;
  std::int64_t last_;
  trace::Trace trace_;
  std::int64_t step_ = 0;
  bool is_captured_ = false;
  std::vector<trace::Record> records_;
  std::vector<trace::StoredTensor> tensors_;
  std::vector<trace::OperatorCall> calls_;
};

}  // namespace lockstep::test
