#include "harness/trace/dtype.h"

#include <array>

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

}  // namespace lockstep::trace
