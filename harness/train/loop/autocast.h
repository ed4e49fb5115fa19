#pragma once

#include <ATen/autocast_mode.h>

#include "harness/recipe/kinds.h"

namespace lockstep::train {

/// While it lives, operations run as under torch.autocast(device, torch.bfloat16), or float16.
/// *Source*: torch/amp/autocast_mode.py, __enter__ and __exit__, PyTorch 2.11.
class Autocast {
 public:
  Autocast(recipe::Autocast kind, at::DeviceType device)
      : active_(kind != recipe::Autocast::kNone), device_(device), before_(at::autocast::is_autocast_enabled(device)) {
    if (!active_) return;
    at::autocast::set_autocast_enabled(device_, true);
    at::autocast::set_autocast_dtype(device_, kind == recipe::Autocast::kFp16 ? at::kHalf : at::kBFloat16);
    at::autocast::increment_nesting();
  }
  ~Autocast() {
    if (!active_) return;
    if (at::autocast::decrement_nesting() == 0) at::autocast::clear_cache();
    at::autocast::set_autocast_enabled(device_, before_);
  }
  Autocast(const Autocast&) = delete;
  Autocast& operator=(const Autocast&) = delete;

 private:
  bool active_;
  at::DeviceType device_;
  bool before_;
};

}  // namespace lockstep::train
