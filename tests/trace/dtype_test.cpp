#include "harness/trace/dtype.h"

#include <set>
#include <string>

#include <gtest/gtest.h>

namespace lockstep::trace {
namespace {

constexpr int kCount = static_cast<int>(DType::kFloat64) + 1;

TEST(DType, TableFollowsTheEnumeration) {
  EXPECT_EQ(name_of(DType::kBool), "bool");
  EXPECT_EQ(name_of(DType::kUInt8), "uint8");
  EXPECT_EQ(name_of(DType::kInt8), "int8");
  EXPECT_EQ(name_of(DType::kInt16), "int16");
  EXPECT_EQ(name_of(DType::kInt32), "int32");
  EXPECT_EQ(name_of(DType::kInt64), "int64");
  EXPECT_EQ(name_of(DType::kFloat16), "float16");
  EXPECT_EQ(name_of(DType::kBFloat16), "bfloat16");
  EXPECT_EQ(name_of(DType::kFloat32), "float32");
  EXPECT_EQ(name_of(DType::kFloat64), "float64");
}

TEST(DType, BytesFollowTheName) {
  for (int i = 0; i < kCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    const std::string name(name_of(dtype));
    const std::size_t digit = name.find_first_of("0123456789");
    const std::size_t bits = digit == std::string::npos ? 8 : std::stoul(name.substr(digit));
    EXPECT_EQ(bytes_of(dtype) * 8, bits) << name;
    EXPECT_EQ(is_floating(dtype), name.find("float") != std::string::npos) << name;
  }
}

TEST(DType, NamesAndCodesRoundTrip) {
  std::set<std::string_view> names, codes;
  for (int i = 0; i < kCount; ++i) {
    const auto dtype = static_cast<DType>(i);
    EXPECT_EQ(dtype_named(name_of(dtype)), dtype);
    EXPECT_EQ(dtype_with_safetensors_code(safetensors_code_of(dtype)), dtype);
    names.insert(name_of(dtype));
    codes.insert(safetensors_code_of(dtype));
  }
  EXPECT_EQ(names.size(), std::size_t{kCount});
  EXPECT_EQ(codes.size(), std::size_t{kCount});
}

TEST(DType, CodesAreThoseOfSafetensors) {
  EXPECT_EQ(safetensors_code_of(DType::kBool), "BOOL");
  EXPECT_EQ(safetensors_code_of(DType::kUInt8), "U8");
  EXPECT_EQ(safetensors_code_of(DType::kInt64), "I64");
  EXPECT_EQ(safetensors_code_of(DType::kBFloat16), "BF16");
  EXPECT_EQ(safetensors_code_of(DType::kFloat32), "F32");
}

TEST(DType, UnknownNameIsNone) {
  EXPECT_FALSE(dtype_named("float").has_value());
  EXPECT_FALSE(dtype_named("F32").has_value());
  EXPECT_FALSE(dtype_with_safetensors_code("float32").has_value());
  EXPECT_FALSE(dtype_with_safetensors_code("").has_value());
}

}  // namespace
}  // namespace lockstep::trace
