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

using StepNumbers = std::vector<std::int64_t>;

/// Numbers of the steps that a rank has.
StepNumbers steps_of(const trace::Trace& rank);

/// Whether two ranks mean the same samples by the same ids, as inputs show.
enum class Common {
  kShared,  ///< an id is one sample on both
  kOwn,     ///< other samples: each rank has a part of the data, with ids of its own
  kUntold,
};

/// An input that tells samples apart is the same for most that both take, or not.
Common share_their_ids(const trace::RunTrace& run, std::size_t a, const StepNumbers& steps_of_a, std::size_t b,
                       const StepNumbers& steps_of_b);

/// Whether inputs show that an id of rank 0 is another sample on another rank, or another part of one.
bool have_ids_of_their_own(const trace::RunTrace& run);

}  // namespace lockstep::laws
