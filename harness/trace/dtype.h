#pragma once

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace lockstep::trace {

/// Element type of a tensor; names follow PyTorch, codes in safetensors follow that format.
enum class DType { kBool, kUInt8, kInt8, kInt16, kInt32, kInt64, kFloat16, kBFloat16, kFloat32, kFloat64 };

/// PyTorch's name: "float32".
std::string_view name_of(DType dtype);

/// Code in a safetensors header: "F32".
std::string_view safetensors_code_of(DType dtype);

std::size_t bytes_of(DType dtype);
bool is_floating(DType dtype);

/// Half of the relative distance of two neighbours; 0 of what does not round.
double unit_roundoff(DType dtype);

float half_to_float(std::uint16_t half);
float bfloat16_to_float(std::uint16_t bits);

/// One element as a number; exact but for int64 beyond 2^53.
double value_of(DType dtype, const std::byte* element);

std::optional<DType> dtype_named(std::string_view name);
std::optional<DType> dtype_with_safetensors_code(std::string_view code);

}  // namespace lockstep::trace
