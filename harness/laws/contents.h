#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

#include "harness/trace/trace.h"

namespace lockstep::laws {

/// The samples of a rank's step: their ids, or of a data set without any the digest of each item; null: not recorded.
const trace::Record* samples_in(const trace::Step& step);

/// Content of one sample in one input.
struct Content {
  std::int64_t id = 0;
  std::uint64_t digest = 0;
  trace::DType dtype = trace::DType::kUInt8;
};

/// Before the number of a micro-batch in the name of an input: "x.0", "x.1" of a recipe, "x", "x#1" of a program.
inline constexpr char kMicroBatchOfRecipe = '.', kMicroBatchOfProgram = '#';

/// Contents of the samples that a rank took in a step, by input: "x". Micro-batches stand one behind the other. An
/// input without one row for each sample is left out.
std::map<std::string, std::vector<Content>> contents_of(const trace::Step& step, char separator = kMicroBatchOfRecipe);

/// Whether inputs show that an id of rank 0 is another sample on another rank, or another part of one.
bool have_ids_of_their_own(const trace::RunTrace& run);

}  // namespace lockstep::laws
