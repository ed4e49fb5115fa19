#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::trace::test {

/// Two steps with a record of every kind: tensors, integers, floating scalars, text; NaN, −0, denormals; names with
/// quotes, backslashes, newlines and UTF-8.
std::vector<Step> sample_steps();

/// Header of rank `rank` of `world_size`.
Json sample_header(std::int64_t rank = 0, std::int64_t world_size = 1);

/// Writes a whole trace and returns its bytes.
std::string write_sample(const std::filesystem::path& file, const Json& header = sample_header(),
                         const std::vector<Step>& steps = sample_steps());

/// Every field of two lists of steps, floats bit by bit.
void expect_same(const std::vector<Step>& left, const std::vector<Step>& right);

}  // namespace lockstep::trace::test
