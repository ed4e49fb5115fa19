#include "harness/trace/safetensors.h"

#include <algorithm>

#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

#include "tests/support/allocation.h"
#include "tests/support/support.h"
#include "tests/trace/patient.h"
#include "tests/trace/random.h"

namespace lockstep::trace {
namespace {

using lockstep::test::Scratch;

bool same(const StoredTensor& a, const StoredTensor& b) {
  return a.name == b.name && a.dtype == b.dtype && a.shape == b.shape && a.bytes == b.bytes;
}

std::vector<StoredTensor> samples() {
  return {{.name = "weight", .dtype = DType::kFloat32, .shape = {2, 3}, .bytes = "0123456789abcdefghijklmn"},
          {.name = "a \"quoted\" \u00e9", .dtype = DType::kBFloat16, .shape = {1}, .bytes = std::string("\0\xff", 2)},
          {.name = "scalar", .dtype = DType::kInt64, .shape = {}, .bytes = "12345678"},
          {.name = "mask", .dtype = DType::kBool, .shape = {3}, .bytes = std::string("\1\0\1", 3)}};
}

/// A file of this header and data.
std::filesystem::path write(const Scratch& scratch, const std::string& header, const std::string& data) {
  std::string file;
  for (std::size_t i = 0; i < 8; ++i) file += static_cast<char>(header.size() >> (8 * i));
  return scratch.write("f", file + header + data);
}

Problem damage_of_file(const std::filesystem::path& file) {
  lockstep::test::forget_allocations();
  try {
    read_safetensors(file);
  } catch (const DamagedFile& error) {
    EXPECT_LE(lockstep::test::largest_allocation(), 4096 + 16 * std::filesystem::file_size(file));
    EXPECT_EQ(error.problem().where.find(file.string() + ", byte "), 0U) << error.problem().where;
    return error.problem();
  }
  ADD_FAILURE() << "not refused: " << read_file(file);
  return {};
}

TEST(Safetensors, RoundTripKeepsEverything) {
  const Scratch scratch;
  const auto read = read_safetensors(scratch.write("f", to_safetensors(samples())));
  ASSERT_EQ(read.size(), samples().size());
  for (std::size_t i = 0; i < read.size(); ++i) EXPECT_TRUE(same(read[i], samples()[i])) << read[i].name;
}

TEST(Safetensors, BytesFollowTheFormat) {
  const std::string file = to_safetensors({{.name = "x", .dtype = DType::kUInt8, .shape = {2}, .bytes = "ab"}});
  const std::string header = R"({"x":{"data_offsets":[0,2],"dtype":"U8","shape":[2]}})";
  const std::size_t padded = (header.size() + 7) / 8 * 8;
  EXPECT_EQ(file.substr(0, 8), std::string(1, static_cast<char>(padded)) + std::string(7, '\0'));
  EXPECT_EQ(file.substr(8), header + std::string(padded - header.size(), ' ') + "ab");
}

TEST(Safetensors, NoTensorsRoundTrip) {
  const Scratch scratch;
  EXPECT_TRUE(read_safetensors(scratch.write("f", to_safetensors({}))).empty());
}

TEST(Safetensors, TensorsWithoutElementsRoundTrip) {
  const Scratch scratch;
  const std::vector<StoredTensor> tensors = {{.name = "z", .dtype = DType::kFloat64, .shape = {3, 0}, .bytes = ""},
                                             {.name = "b", .dtype = DType::kUInt8, .shape = {1}, .bytes = "x"},
                                             {.name = "c", .dtype = DType::kFloat64, .shape = {0, 9}, .bytes = ""}};
  const auto read = read_safetensors(scratch.write("f", to_safetensors(tensors)));
  ASSERT_EQ(read.size(), 3U);
  for (const StoredTensor& tensor : tensors) {
    EXPECT_TRUE(std::any_of(read.begin(), read.end(), [&](const auto& other) { return same(tensor, other); }))
        << tensor.name;
  }
  EXPECT_EQ(read_safetensors(scratch.write("g", to_safetensors({tensors[0]}))).at(0).shape, tensors[0].shape);
}

TEST(Safetensors, MetadataIsNoTensor) {
  const Scratch scratch;
  const auto file =
      write(scratch, R"({"__metadata__":{"format":"pt"},"x":{"dtype":"U8","shape":[1],"data_offsets":[0,1]}})", "a");
  ASSERT_EQ(read_safetensors(file).size(), 1U);
  EXPECT_EQ(read_safetensors(file)[0].bytes, "a");
}

TEST(Safetensors, OtherDTypesAreNoDamage) {
  const Scratch scratch;
  const auto read = [&](const std::string& data) {
    return read_safetensors(write(scratch, R"({"x":{"dtype":"F8_E4M3","shape":[2],"data_offsets":[0,2]}})", data));
  };
  try {
    read("ab");
    ADD_FAILURE() << "not refused";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("F8_E4M3"), std::string::npos) << error.what();
  }
  EXPECT_THROW(read("a"), DamagedFile) << "it is cut off";
}
TEST(Safetensors, MissingFileIsAnInputError) {
  const Scratch scratch;
  EXPECT_THROW(read_safetensors(scratch.path() / "none"), InputError);
  EXPECT_NE(damage_of_file(scratch.write("f", "short")).where.find(", byte 5"), std::string::npos);
  EXPECT_NE(damage_of_file(write(scratch, "{]", "")).where.find(", byte 8"), std::string::npos);
}

TEST(Safetensors, EveryTruncationIsDamage) {
  const Scratch scratch;
  const std::string whole = to_safetensors(samples());
  const auto file = scratch.write("f", whole);
  for (std::size_t size = whole.size(); size-- > 0;) {
    std::filesystem::resize_file(file, size);
    damage_of_file(file);
  }
  damage_of_file(scratch.write("f", whole + "x"));
}

// The format has no checksum: a flipped bit of data or of a name gives another tensor. What must hold is that nothing
// else than a tensor of this size comes out.
TEST(Safetensors, FlippedBitsNeverCrash) {
  const Scratch scratch;
  const std::string whole = to_safetensors(samples());
  test::Patient file(scratch.path() / "f", whole);
  test::Random random(1);
  std::size_t damaged = 0;
  for (int i = 0; i < 2000; ++i) {
    std::vector<std::size_t> flipped;
    for (int k = 0; k <= i % 3; ++k) {
      flipped.push_back(random.below(whole.size()));
      file.flip(flipped.back(), static_cast<int>(random.below(8)));
    }
    lockstep::test::forget_allocations();
    try {
      std::size_t bytes = 0;
      for (const StoredTensor& tensor : read_safetensors(file.path())) bytes += tensor.bytes.size();
      ASSERT_LE(bytes, whole.size());
    } catch (const DamagedFile&) {
      ++damaged;
    }
    ASSERT_LE(lockstep::test::largest_allocation(), 16 * whole.size());
    for (const std::size_t at : flipped) file.heal(at);
  }
  EXPECT_GT(damaged, 1000U);
}

TEST(Safetensors, HostileLengthsAreDamage) {
  const Scratch scratch;
  for (const char* length :
       {"\xff\xff\xff\xff\xff\xff\xff\xff", "\xff\xff\xff\xff\xff\xff\xff\x7f", "\x07\0\0\0\0\0\0\0"}) {
    EXPECT_NE(damage_of_file(scratch.write("f", std::string(length, 8) + "{}")).what.find("longer than the file"),
              std::string::npos);
  }
}

TEST(Safetensors, OverlapsAndGapsAreDamage) {
  const Scratch scratch;
  const std::string data(1000, 'x');
  std::string header = "{";
  for (int i = 0; i < 200; ++i) {
    header += "\"" + std::to_string(i) + R"(":{"dtype":"U8","shape":[1000],"data_offsets":[0,1000]},)";
  }
  header.back() = '}';
  EXPECT_NE(damage_of_file(write(scratch, header, data)).what.find("does not follow the one before"),
            std::string::npos);
  const auto one = [&](const char* shape, const char* offsets) {
    return damage_of_file(
               write(scratch,
                     std::string(R"({"x":{"dtype":"U8","shape":)") + shape + R"(,"data_offsets":)" + offsets + "}}",
                     data))
        .what;
  };
  EXPECT_NE(one("[999]", "[1,1000]").find("does not follow"), std::string::npos);
  EXPECT_NE(one("[999]", "[0,999]").find("not all of the data"), std::string::npos);
}

TEST(Safetensors, ImpossibleEntriesAreDamage) {
  const Scratch scratch;
  const char* const entries[] = {
      R"({"dtype":"U9","shape":[8],"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":[-8],"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":[8.0],"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":[18446744073709551615],"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":[4294967296,4294967296,8],"data_offsets":[0,8]})",
      R"({"dtype":"I64","shape":[2305843009213693952,8],"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":[7],"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":8,"data_offsets":[0,8]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[8,0]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[0,9]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[0]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[0,8,9]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[-8,0]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[0,8.5]})",
      R"({"dtype":"U8","shape":[8],"data_offsets":[0,1e300]})",
      R"({"dtype":8,"shape":[8],"data_offsets":[0,8]})",
      R"({"shape":[8],"data_offsets":[0,8]})",
      R"([])",
      R"(null)",
  };
  for (const char* entry : entries) damage_of_file(write(scratch, std::string(R"({"x":)") + entry + "}", "01234567"));
}

// No element, but strides that overflow.
TEST(Safetensors, ImpossibleShapesWithoutElementsAreDamage) {
  const Scratch scratch;
  for (const char* shape : {"[0,4611686018427387904,4]", "[4611686018427387904,4,0]", "[4611686018427387904,0,4]"}) {
    const std::string entry = std::string(R"({"dtype":"F32","shape":)") + shape + R"(,"data_offsets":[0,0]})";
    const Problem damage = damage_of_file(write(scratch, R"({"fc.weight":)" + entry + "}", ""));
    EXPECT_NE(damage.what.find("fc.weight"), std::string::npos) << damage.what;
  }
}

TEST(Safetensors, HeaderThatIsNoObjectIsDamage) {
  const Scratch scratch;
  for (const char* header : {"", "[]", "[{\"dtype\":\"U8\",\"shape\":[0],\"data_offsets\":[0,0]}]", "null", "3", "{",
                             "{\"x\":1}", "{\"x\":{}, \"x\":{}}", "\xff"}) {
    damage_of_file(write(scratch, header, ""));
  }
}

}  // namespace
}  // namespace lockstep::trace
