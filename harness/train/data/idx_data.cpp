#include <cstdint>
#include <string>

#include "harness/base/error.h"
#include "harness/train/files/packed_file.h"
#include "harness/train/files/stored_data.h"

namespace lockstep::train {
namespace {

constexpr unsigned char kUnsignedByte = 0x08;

[[noreturn]] void fail(const PackedFile& file, std::uint64_t offset, const std::string& what,
                       const std::string& expected, const std::string& actual) {
  throw InputError({.what = "not an IDX file as expected: " + what,
                    .where = file.path().string() + ", byte " + std::to_string(offset),
                    .expected = expected,
                    .actual = actual});
}

std::string exactly(PackedFile& file, std::size_t count, const std::string& what) {
  std::string bytes = file.read(count);
  if (bytes.size() < count) {
    fail(file, file.offset(), "it ends within " + what, std::to_string(count) + " bytes",
         std::to_string(bytes.size()) + " bytes");
  }
  return bytes;
}

std::uint32_t big_endian(const std::string& bytes) {
  std::uint32_t value = 0;
  for (const char byte : bytes) value = value << 8 | static_cast<unsigned char>(byte);
  return value;
}

/// *Source*: Y. LeCun, C. Cortes, C. Burges, "The MNIST database", file formats.
StoredArray read_idx(const std::filesystem::path& path, std::size_t rank) {
  PackedFile file(path);
  const std::string magic = exactly(file, 4, "the magic number");
  if (magic[0] != 0 || magic[1] != 0)
    fail(file, 0, "its magic number is wrong", "two zero bytes",
         Json(magic.substr(0, 2)).dump(-1, ' ', true, Json::error_handler_t::replace));
  const auto type = static_cast<unsigned char>(magic[2]), extents = static_cast<unsigned char>(magic[3]);
  if (type != kUnsignedByte)
    fail(file, 2, "elements of an unsupported type", "8 (unsigned byte)", std::to_string(type));
  if (extents != rank)
    fail(file, 3, "its number of dimensions is wrong", std::to_string(rank), std::to_string(extents));
  trace::StoredTensor tensor{.name = "", .dtype = trace::DType::kUInt8, .shape = {}, .bytes = {}};
  std::uint64_t elements = 1;
  for (std::size_t i = 0; i < rank; ++i) {
    const std::uint64_t offset = file.offset();
    const std::uint32_t extent = big_endian(exactly(file, 4, "its dimensions"));
    if (extent == 0) fail(file, offset, "it is empty", "dimensions of at least 1", "0");
    if (elements > (std::uint64_t{1} << 48) / extent)
      fail(file, offset, "its dimensions are too large", "less than 2^48 elements",
           "a dimension of " + std::to_string(extent));
    elements *= extent;
    tensor.shape.push_back(extent);
  }
  if (elements > file.size() - file.offset()) {
    fail(file, file.size(), "it ends within its elements", std::to_string(elements) + " bytes",
         std::to_string(file.size() - file.offset()) + " bytes");
  }
  tensor.bytes = exactly(file, elements, "its elements");
  if (const std::uint64_t end = file.offset(); !file.read(1).empty())
    fail(file, end, "bytes follow its elements", "the end of the file", "more bytes");
  return {.tensor = std::move(tensor), .where = path.string()};
}

}  // namespace

Dataset make_idx_data(const Json& options) {
  return dataset_from(read_idx(options.at("images").get<std::string>(), 3),
                      read_idx(options.at("labels").get<std::string>(), 1), options);
}

}  // namespace lockstep::train
