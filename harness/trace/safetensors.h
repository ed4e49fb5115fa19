#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>
#include <vector>

#include "harness/trace/dtype.h"

namespace lockstep::trace {

/// A tensor in a file: dense, row-major.
struct StoredTensor {
  std::string name;
  DType dtype = DType::kFloat32;
  std::vector<std::int64_t> shape;
  std::string bytes;
};

/// Bytes of a safetensors file: header length (8 bytes, little-endian), JSON header, data.
/// *Source*: github.com/huggingface/safetensors, README "Format".
std::string to_safetensors(const std::vector<StoredTensor>& tensors);

/// Reads a safetensors file; tensors in the order of their data.
/// *Throws*: InputError when it is missing, or holds a dtype that is not supported; DamagedFile that says what does not
/// fit, never allocating beyond its size.
std::vector<StoredTensor> read_safetensors(const std::filesystem::path& path);

/// Reads a file's content in the same way; `path` is for messages.
std::vector<StoredTensor> from_safetensors(std::string_view file, const std::filesystem::path& path);

}  // namespace lockstep::trace
