#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <optional>
#include <span>
#include <string>

#include "harness/base/json.h"
#include "harness/record/include/lockstep/recorder.h"
#include "harness/record/rank_recorder.h"

/// Checks the arguments of C callers before they are used. All functions *throw* InputError.
namespace lockstep::record {

/// Checked arguments of `lockstep_recorder_open`.
struct Opening {
  std::filesystem::path file;  ///< of the trace; its folder may not be there yet
  std::int64_t rank = 0;
  std::int64_t world_size = 1;
  Json header;
  Selection selection;
};

Opening opening_from(const lockstep_recorder_config* config);

/// Throws unless a pointer that must be there is.
void require_there(const void* pointer, const std::string& argument);

/// The same for an array of int64; without elements it may be missing.
void require_array(const std::int64_t* values, std::size_t count);

trace::Channel channel_from(const char* name);

/// The name of a record: it must be there to be found again.
std::string name_from(const char* name);

/// *Lifetime*: of the caller's arrays.
TensorView view_from(const lockstep_tensor* tensor);

/// Nothing where the rank holds the whole tensor. `shape`: of its part.
std::optional<trace::Shard> shard_from(const lockstep_shard& shard, std::span<const std::int64_t> shape);

}  // namespace lockstep::record
