#pragma once

#include "harness/train/fault/fault.h"

namespace lockstep::train {

/// A fault that acts from its first step on.
class LastingFault : public Fault {
 public:
  bool lasts() const override { return true; }
};

}  // namespace lockstep::train
