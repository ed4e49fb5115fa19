// State that is changed on its way back from a checkpoint.
#include <ATen/ATen.h>

#include "harness/train/fault.h"

namespace lockstep::train {
namespace {

class StateCast : public Fault {
 public:
  explicit StateCast(const Json& options) : dtype_(options.at("dtype") == "fp16" ? at::kHalf : at::kBFloat16) {}
  void restored(const Restored& state) override {
    for (const NamedTensor& one : state.optimizer.state()) {
      if (one.tensor.dim() > 0) at::Tensor(one.tensor).copy_(one.tensor.to(dtype_));
    }
  }

 private:
  at::ScalarType dtype_;
};

class CounterOff : public Fault {
 public:
  explicit CounterOff(const Json& options) : by_(options.at("by").get<std::int64_t>()) {}
  void restored(const Restored& state) override { state.updates += by_; }

 private:
  std::int64_t by_;
};

class DrawAfterRestore : public Fault {
  void restored(const Restored&) override { at::empty({}, at::kLong).random_(); }
};

}  // namespace

std::unique_ptr<Fault> make_state_cast_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<StateCast>(options);
}
std::unique_ptr<Fault> make_counter_off_fault(const Json& options, const scenario::GradientSpec&) {
  return std::make_unique<CounterOff>(options);
}
std::unique_ptr<Fault> make_draw_after_restore_fault(const Json&, const scenario::GradientSpec&) {
  return std::make_unique<DrawAfterRestore>();
}

}  // namespace lockstep::train
