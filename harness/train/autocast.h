#pragma once

#include <string>

#include <ATen/autocast_mode.h>

namespace lockstep::train {

/// While it lives, operations that torch.autocast("cpu", torch.bfloat16) would run in bfloat16 do. "none": nothing.
/// *Source*: torch/amp/autocast_mode.py, __enter__ and __exit__, PyTorch 2.11.
class Autocast {
 public:
  explicit Autocast(const std::string& kind)
      : active_(kind == "bf16"), before_(at::autocast::is_autocast_enabled(at::kCPU)) {
    if (!active_) return;
    at::autocast::set_autocast_enabled(at::kCPU, true);
    at::autocast::set_autocast_dtype(at::kCPU, at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!active_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(at::kCPU, before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool active_, before_;
};

}  // namespace lockstep::train
