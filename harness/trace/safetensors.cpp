#include "harness/trace/safetensors.h"

#include <algorithm>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::trace {
namespace {

constexpr std::size_t kLengthBytes = 8;
constexpr std::size_t kAlignment = 8;

[[noreturn]] void fail(const std::filesystem::path& path, const std::string& what, const std::string& expected = "", const std::string& actual = "") {
  throw DamagedFile({.what = "damaged safetensors file: " + what, .where = path.string(), .expected = expected, .actual = actual});
}

StoredTensor tensor_from(const std::string& name, const Json& entry, const std::string& data, const std::filesystem::path& path) {
  const auto dtype = dtype_with_safetensors_code(entry.at("dtype").get<std::string>());
  if (!dtype) fail(path, "tensor '" + name + "' has an unknown dtype", "", entry["dtype"].dump());
  StoredTensor tensor{.name = name, .dtype = *dtype, .shape = entry.at("shape").get<std::vector<std::int64_t>>(), .bytes = {}};
  const auto begin = entry.at("data_offsets").at(0).get<std::uint64_t>();
  const auto end = entry.at("data_offsets").at(1).get<std::uint64_t>();
  if (begin > end || end > data.size()) fail(path, "tensor '" + name + "' lies outside the data", "offsets within " + std::to_string(data.size()) + " bytes", entry["data_offsets"].dump());
  std::uint64_t bytes = bytes_of(*dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (extent < 0 || (extent > 0 && bytes > data.size() / static_cast<std::uint64_t>(extent))) {
      fail(path, "tensor '" + name + "' has an impossible shape", "at most " + std::to_string(data.size()) + " bytes", entry["shape"].dump());
    }
    bytes *= static_cast<std::uint64_t>(extent);
  }
  if (bytes != end - begin) fail(path, "tensor '" + name + "' has another size than its shape", std::to_string(bytes) + " bytes", std::to_string(end - begin) + " bytes");
  tensor.bytes = data.substr(begin, end - begin);
  return tensor;
}

}  // namespace

std::string to_safetensors(const std::vector<StoredTensor>& tensors) {
  Json header = Json::object();
  std::string data;
  for (const StoredTensor& tensor : tensors) {
    header[tensor.name] = {{"dtype", safetensors_code_of(tensor.dtype)}, {"shape", tensor.shape}, {"data_offsets", {data.size(), data.size() + tensor.bytes.size()}}};
    data += tensor.bytes;
  }
  std::string text = header.dump();
  text.resize((text.size() + kAlignment - 1) / kAlignment * kAlignment, ' ');
  std::string file;
  for (std::size_t i = 0; i < kLengthBytes; ++i) file += static_cast<char>(text.size() >> (8 * i) & 0xff);
  return file + text + data;
}

std::vector<StoredTensor> read_safetensors(const std::filesystem::path& path) {
  const std::string file = read_file(path);
  if (file.size() < kLengthBytes) fail(path, "it ends within the header's length", "8 bytes or more", std::to_string(file.size()) + " bytes");
  std::uint64_t length = 0;
  for (std::size_t i = 0; i < kLengthBytes; ++i) length |= static_cast<std::uint64_t>(static_cast<unsigned char>(file[i])) << (8 * i);
  if (length > file.size() - kLengthBytes) fail(path, "the header is longer than the file", "at most " + std::to_string(file.size() - kLengthBytes) + " bytes", std::to_string(length) + " bytes");
  const std::string data = file.substr(kLengthBytes + length);
  std::vector<std::pair<std::uint64_t, StoredTensor>> found;
  try {
    const Json header = parse_json(std::string_view(file).substr(kLengthBytes, length), path.string());
    for (const auto& [name, entry] : header.items()) {
      if (name == "__metadata__") continue;
      found.emplace_back(entry.at("data_offsets").at(0).get<std::uint64_t>(), tensor_from(name, entry, data, path));
    }
  } catch (const DamagedFile&) {
    throw;
  } catch (const std::exception& error) {
    fail(path, std::string("its header cannot be read: ") + error.what());
  }
  std::stable_sort(found.begin(), found.end(), [](const auto& a, const auto& b) { return a.first < b.first; });
  std::vector<StoredTensor> tensors;
  for (auto& [offset, tensor] : found) tensors.push_back(std::move(tensor));
  return tensors;
}

}  // namespace lockstep::trace
