#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/scenario/scenario.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// Content of one sample in one input.
struct Content {
  std::int64_t id = 0;
  std::uint64_t digest = 0;
  trace::DType dtype = trace::DType::kUInt8;
};

/// Contents of the samples that a rank took in a step, by input: "x". Micro-batches "x.0", "x.1" stand one behind the
/// other. An input without one row for each sample is left out.
std::map<std::string, std::vector<Content>> contents_of(const trace::Step& step);

/// Whether a sample may have another content each time it is taken.
bool is_augmented(const scenario::Promises& promises);

}  // namespace lockstep::laws
