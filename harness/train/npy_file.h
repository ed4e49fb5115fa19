#pragma once

#include <filesystem>

#include "harness/trace/safetensors.h"

namespace lockstep::train {

/// Reads an array that numpy.save wrote: format 1.0, 2.0 or 3.0, little-endian numbers in C order. Executes nothing:
/// arrays of objects are refused.
/// *Throws*: InputError that names the file and the byte, never allocating beyond the file's size.
/// *Source*: numpy.lib.format, NumPy 2.2.
trace::StoredTensor read_npy(const std::filesystem::path& path);

}  // namespace lockstep::train
