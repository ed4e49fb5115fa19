#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/base/json.h"
#include "harness/trace/channel.h"

namespace lockstep::recipe {

/// A step that is looked at through a magnifying glass: its operators, and the elements of some records.
struct CaptureSpec {
  std::int64_t step = 0;
  std::string channel;  ///< empty: no elements
  std::string tensor;   ///< '*' stands for any characters
};

struct RecordSpec {
  std::vector<std::string> channels;  ///< as written
  std::int64_t every = 1;
  std::vector<CaptureSpec> captures;
  bool slopes = false;  ///< of the loss, in the steps that show most

  bool holds(trace::Channel channel) const;
};

}  // namespace lockstep::recipe
