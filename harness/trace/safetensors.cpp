#include "harness/trace/safetensors.h"

#include <algorithm>
#include <iterator>
#include <limits>
#include <stdexcept>
#include <tuple>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::trace {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

/// `offset`: of what is wrong; of one of the header's entries, where the header begins.
[[noreturn]] void fail(const std::filesystem::path& path, std::uint64_t offset, const std::string& what,
                       const std::string& expected = "", const std::string& actual = "") {
  throw DamagedFile({.what = "damaged safetensors file: " + what,
                     .where = path.string() + ", byte " + std::to_string(offset),
                     .expected = expected,
                     .actual = actual});
}

/// Codes of the format that no DType has. *Source*: safetensors/src/tensor.rs, Dtype.
constexpr std::string_view kOtherDTypes[] = {"U16",     "U32",     "U64", "C64",     "F8_E4M3",
                                             "F8_E5M2", "F8_E8M0", "F4",  "F6_E2M3", "F6_E3M2"};

/// The code of an entry's dtype if it is one of those; empty: it is not.
std::string other_dtype_of(const Json& object) {
  const Json code = object.is_object() ? object.value("dtype", Json()) : Json();
  const auto* const found =
      std::find(std::begin(kOtherDTypes), std::end(kOtherDTypes), code.is_string() ? code.get<std::string>() : "");
  return found == std::end(kOtherDTypes) ? "" : std::string(*found);
}

/// One entry of the header.
struct Entry {
  StoredTensor tensor;  ///< without its bytes
  std::uint64_t begin = 0;
  std::uint64_t end = 0;
};

std::uint64_t natural_from(const Json& value) {
  if (!value.is_number_unsigned()) throw std::runtime_error(value.dump() + " is no natural number");
  return value.get<std::uint64_t>();
}

/// Bytes of a tensor; more than `limit` is enough to know. Of one without elements the other extents must still be
/// possible: strides are their products.
std::uint64_t bytes_of_shape(DType dtype, const std::vector<std::int64_t>& shape, std::uint64_t limit) {
  const bool empty = std::find(shape.begin(), shape.end(), 0) != shape.end();
  if (empty) limit = std::numeric_limits<std::int64_t>::max();
  std::uint64_t bytes = bytes_of(dtype);
  for (const std::int64_t extent : shape) {
    if (extent == 0) continue;
    if (bytes > limit / static_cast<std::uint64_t>(extent)) return limit + 1;
    bytes *= static_cast<std::uint64_t>(extent);
  }
  return empty ? 0 : bytes;
}

Entry entry_from(const std::string& name, const Json& object, std::size_t data_size,
                 const std::filesystem::path& path) {
  const bool whole = object.is_object() && object.contains("dtype") && object.contains("shape") &&
                     object.value("data_offsets", Json()).is_array() && object["data_offsets"].size() == 2;
  if (!whole) fail(path, kLengthBytes, "tensor '" + name + "' is not described", "dtype, shape and two data_offsets");
  const auto dtype = dtype_with_safetensors_code(object.at("dtype").get<std::string>());
  if (!dtype) fail(path, kLengthBytes, "tensor '" + name + "' has an unknown dtype", "", object["dtype"].dump());
  Entry entry{.tensor = {.name = name, .dtype = *dtype, .shape = {}, .bytes = {}},
              .begin = natural_from(object.at("data_offsets").at(0)),
              .end = natural_from(object.at("data_offsets").at(1))};
  if (entry.begin > entry.end || entry.end > data_size) {
    fail(path, kLengthBytes, "tensor '" + name + "' lies outside the data",
         "offsets within " + std::to_string(data_size) + " bytes", object["data_offsets"].dump());
  }
  if (!object.at("shape").is_array()) fail(path, kLengthBytes, "tensor '" + name + "' has an impossible shape");
  for (const Json& extent : object.at("shape")) {
    const std::uint64_t value = natural_from(extent);
    if (value > std::numeric_limits<std::int64_t>::max())
      fail(path, kLengthBytes, "tensor '" + name + "' has an impossible shape");
    entry.tensor.shape.push_back(static_cast<std::int64_t>(value));
  }
  if (bytes_of_shape(*dtype, entry.tensor.shape, data_size) != entry.end - entry.begin) {
    fail(path, kLengthBytes, "tensor '" + name + "' has another size than its shape",
         "the bytes of " + object["shape"].dump(), std::to_string(entry.end - entry.begin) + " bytes");
  }
  return entry;
}

/// The tensors follow one another without gap or overlap and fill the data, so that copies never outgrow the file.
void require_dense(const std::vector<Entry>& entries, std::size_t data_size, const std::filesystem::path& path) {
  std::uint64_t at = 0;
  for (const Entry& entry : entries) {
    if (entry.begin != at) {
      fail(path, kLengthBytes, "tensor '" + entry.tensor.name + "' does not follow the one before",
           "offset " + std::to_string(at), "offset " + std::to_string(entry.begin));
    }
    at = entry.end;
  }
  if (at != data_size) {
    fail(path, kLengthBytes, "the tensors are not all of the data", std::to_string(at) + " bytes",
         std::to_string(data_size) + " bytes");
  }
}

}  // namespace

std::string to_safetensors(const std::vector<StoredTensor>& tensors) {
  Json header = Json::object();
  std::size_t size = 0;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", safetensors_code_of(tensor.dtype)},
                           {"shape", tensor.shape},
                           {"data_offsets", {size, size + tensor.bytes.size()}}};
    size += tensor.bytes.size();
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string file;
  file.reserve(kLengthBytes + text.size() + size);
  for (std::size_t i = 0; i < kLengthBytes; ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xff);
  file += text;
  for (const StoredTensor& tensor : tensors) file += tensor.bytes;
  return file;
}

std::vector<StoredTensor> read_safetensors(const std::filesystem::path& path) {
  return from_safetensors(read_file(path), path);
}

std::vector<StoredTensor> from_safetensors(std::string_view file, const std::filesystem::path& path) {
  if (file.size() < kLengthBytes)
    fail(path, file.size(), "it ends within the header's length", "8 bytes or more",
         std::to_string(file.size()) + " bytes");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i)
    length |= static_cast<std::uint64_t>(static_cast<unsigned char>(file[i])) << (8 * i);
  if (length > file.size() - kLengthBytes)
    fail(path, 0, "the header is longer than the file",
         "at most " + std::to_string(file.size() - kLengthBytes) + " bytes", std::to_string(length) + " bytes");
  const std::string_view data = file.substr(kLengthBytes + length);
  std::vector<Entry> entries;
  Problem unsupported;  // not damage
  try {
    const Json header = parse_modest_json(file.substr(kLengthBytes, length), path.string());
    if (!header.is_object()) fail(path, kLengthBytes, "its header is no object");
    for (const auto& [name, object] : header.items()) {
      if (name == "__metadata__") continue;
      if (const std::string code = other_dtype_of(object); !code.empty()) {
        if (natural_from(object.at("data_offsets").at(1)) > data.size())
          fail(path, kLengthBytes, "tensor '" + name + "' lies outside the data");
        unsupported = {.what = "a safetensors file holds a tensor of a dtype that is not supported",
                       .where = path.string() + ", tensor '" + name + "'",
                       .actual = code,
                       .next = "save it in another dtype, or leave it out"};
        continue;
      }
      entries.push_back(entry_from(name, object, data.size(), path));
    }
  } catch (const DamagedFile&) {
    throw;
  } catch (const std::exception& error) {
    fail(path, kLengthBytes, std::string("its header cannot be read: ") + error.what());
  }
  if (!unsupported.what.empty()) throw InputError(unsupported);
  std::stable_sort(entries.begin(), entries.end(),
                   [](const Entry& a, const Entry& b) { return std::tie(a.begin, a.end) < std::tie(b.begin, b.end); });
  require_dense(entries, data.size(), path);
  std::vector<StoredTensor> tensors;
  for (Entry& entry : entries) {
    tensors.push_back(std::move(entry.tensor));
    tensors.back().bytes = data.substr(entry.begin, entry.end - entry.begin);
  }
  return tensors;
}

}  // namespace lockstep::trace
