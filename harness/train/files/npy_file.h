#pragma once

#include <filesystem>

#include "harness/trace/safetensors.h"

namespace lockstep::train {

/// Reads an array that numpy.save wrote: format 1.0, 2.0 or 3.0, little-endian numbers in C order. It executes nothing
/// and refuses arrays of objects. It never allocates more than the file's size.
/// *Throws*: InputError that names the file and the byte.
/// *Source*: numpy.lib.format, NumPy 2.2.
trace::StoredTensor read_npy(const std::filesystem::path& path);

}  // namespace lockstep::train
