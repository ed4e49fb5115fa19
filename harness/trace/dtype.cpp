#include "harness/trace/dtype.h"

#include <array>
#include <bit>
#include <cmath>
#include <cstring>

namespace lockstep::trace {
namespace {

struct Row {
  DType dtype;
  std::string_view name;
  std::string_view safetensors;
  std::size_t bytes;
  bool floating;
};

/// In the order of the enumeration.
constexpr std::array<Row, 10> kTable = {{{DType::kBool, "bool", "BOOL", 1, false},
                                         {DType::kUInt8, "uint8", "U8", 1, false},
                                         {DType::kInt8, "int8", "I8", 1, false},
                                         {DType::kInt16, "int16", "I16", 2, false},
                                         {DType::kInt32, "int32", "I32", 4, false},
                                         {DType::kInt64, "int64", "I64", 8, false},
                                         {DType::kFloat16, "float16", "F16", 2, true},
                                         {DType::kBFloat16, "bfloat16", "BF16", 2, true},
                                         {DType::kFloat32, "float32", "F32", 4, true},
                                         {DType::kFloat64, "float64", "F64", 8, true}}};

const Row& row(DType dtype) { return kTable[static_cast<std::size_t>(dtype)]; }

template <typename T>
T read(const std::byte* element) {
  T value;
  std::memcpy(&value, element, sizeof value);
  return value;
}

}  // namespace

std::string_view name_of(DType dtype) { return row(dtype).name; }
std::string_view safetensors_code_of(DType dtype) { return row(dtype).safetensors; }
std::size_t bytes_of(DType dtype) { return row(dtype).bytes; }
bool is_floating(DType dtype) { return row(dtype).floating; }

std::optional<DType> dtype_named(std::string_view name) {
  for (const Row& candidate : kTable) {
    if (candidate.name == name) return candidate.dtype;
  }
  return std::nullopt;
}

std::optional<DType> dtype_with_safetensors_code(std::string_view code) {
  for (const Row& candidate : kTable) {
    if (candidate.safetensors == code) return candidate.dtype;
  }
  return std::nullopt;
}

double unit_roundoff(DType dtype) {
  switch (dtype) {
    case DType::kFloat16:
      return 0x1p-11;
    case DType::kBFloat16:
      return 0x1p-8;
    case DType::kFloat32:
      return 0x1p-24;
    case DType::kFloat64:
      return 0x1p-53;
    case DType::kBool:
    case DType::kUInt8:
    case DType::kInt8:
    case DType::kInt16:
    case DType::kInt32:
    case DType::kInt64:
      return 0;
  }
  return 0;
}

float half_to_float(std::uint16_t half) {
  const std::uint32_t sign = static_cast<std::uint32_t>(half & 0x8000) << 16;
  const std::uint32_t exponent = half >> 10 & 31;
  const std::uint32_t mantissa = half & 1023;
  if (exponent == 31) return std::bit_cast<float>(sign | 0x7f800000 | mantissa << 13);
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(mantissa), -24)
                              : std::ldexp(static_cast<float>(mantissa + 1024), static_cast<int>(exponent) - 25);
  return sign != 0 ? -magnitude : magnitude;
}

float bfloat16_to_float(std::uint16_t bits) { return std::bit_cast<float>(std::uint32_t{bits} << 16); }

double value_of(DType dtype, const std::byte* element) {
  switch (dtype) {
    case DType::kBool:
    case DType::kUInt8:
      return read<std::uint8_t>(element);
    case DType::kInt8:
      return read<std::int8_t>(element);
    case DType::kInt16:
      return read<std::int16_t>(element);
    case DType::kInt32:
      return read<std::int32_t>(element);
    case DType::kInt64:
      return static_cast<double>(read<std::int64_t>(element));
    case DType::kFloat16:
      return half_to_float(read<std::uint16_t>(element));
    case DType::kBFloat16:
      return bfloat16_to_float(read<std::uint16_t>(element));
    case DType::kFloat32:
      return read<float>(element);
    case DType::kFloat64:
      return read<double>(element);
  }
  return 0;
}

}  // namespace lockstep::trace
