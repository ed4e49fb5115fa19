#include "harness/train/files/npy_file.h"

#include <charconv>
#include <string>
#include <string_view>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::train {
namespace {

using trace::DType;

constexpr std::string_view kMagic = "\x93NUMPY";

constexpr std::pair<std::string_view, DType> kTypes[] = {
    {"|b1", DType::kBool},    {"|u1", DType::kUInt8},   {"|i1", DType::kInt8},
    {"<i2", DType::kInt16},   {"<i4", DType::kInt32},   {"<i8", DType::kInt64},
    {"<f2", DType::kFloat16}, {"<f4", DType::kFloat32}, {"<f8", DType::kFloat64}};

/// Reads the header: a Python dictionary literal with the keys descr, fortran_order and shape.
class Header {
 public:
  Header(const std::filesystem::path& path, std::string_view text, std::size_t begin)
      : path_(path), text_(text), begin_(begin) {}

  trace::StoredTensor read() {
    trace::StoredTensor tensor;
    int keys = 0;
    expect("{");
    while (!taken("}")) {
      const std::size_t start = at_;
      const std::string_view key = quoted();
      expect(":");
      if (key == "descr") {
        tensor.dtype = dtype();
      } else if (key == "fortran_order") {
        if (!taken("False")) fail("an array in Fortran order, or an order that cannot be read", "False");
      } else if (key == "shape") {
        tensor.shape = shape();
      } else {
        at_ = start;
        fail("an unknown key in the header", "descr, fortran_order, shape");
      }
      keys |= key == "descr" ? 1 : key == "shape" ? 2 : 4;
      if (!taken(",") && !ahead("}")) fail("the header cannot be read", "',' or '}'");
    }
    if (keys != 7) fail("a key of the header is missing", "descr, fortran_order, shape");
    skip_space();
    if (at_ != text_.size()) fail("something follows the header", "spaces");
    return tensor;
  }

 private:
  [[noreturn]] void fail(const std::string& what, const std::string& expected) const {
    throw InputError({.what = "not a .npy file that can be read: " + what,
                      .where = path_.string() + ", byte " + std::to_string(begin_ + at_),
                      .expected = expected,
                      .actual = shown()});
  }

  /// What stands here, printable.
  std::string shown() const {
    std::string some(text_.substr(std::min(at_, text_.size()), 24));
    for (char& c : some) {
      if (c < ' ' || c > '~') c = '?';
    }
    return "'" + some + "'";
  }

  void skip_space() {
    while (at_ < text_.size() && (text_[at_] == ' ' || text_[at_] == '\n')) ++at_;
  }

  bool ahead(std::string_view word) {
    skip_space();
    return text_.substr(at_).starts_with(word);
  }

  bool taken(std::string_view word) {
    if (!ahead(word)) return false;
    at_ += word.size();
    return true;
  }

  void expect(std::string_view word) {
    if (!taken(word)) fail("the header cannot be read", "'" + std::string(word) + "'");
  }

  std::string_view quoted() {
    const char quote = ahead("\"") ? '"' : '\'';
    expect(std::string_view(&quote, 1));
    const std::size_t end = text_.find(quote, at_);
    if (end == std::string_view::npos) fail("the header cannot be read", "a closing quotation mark");
    const std::string_view content = text_.substr(at_, end - at_);
    at_ = end + 1;
    return content;
  }

  DType dtype() {
    if (ahead("[")) fail("an array of records", "an array of numbers");
    skip_space();
    const std::size_t start = at_;
    const std::string_view code = quoted();
    for (const auto& [known, dtype] : kTypes) {
      if (code == known) return dtype;
    }
    at_ = start;
    std::string all;
    for (const auto& [known, dtype] : kTypes) all += (all.empty() ? "" : ", ") + std::string(known);
    fail(code.ends_with("O") ? "an array of Python objects" : "elements of an unsupported type", "one of: " + all);
  }

  std::vector<std::int64_t> shape() {
    std::vector<std::int64_t> extents;
    expect("(");
    while (!taken(")")) {
      skip_space();
      std::int64_t extent = 0;
      const auto [next, error] = std::from_chars(text_.data() + at_, text_.data() + text_.size(), extent);
      if (error != std::errc() || extent < 0) fail("an impossible extent", "a natural number");
      at_ = static_cast<std::size_t>(next - text_.data());
      extents.push_back(extent);
      if (!taken(",") && !ahead(")")) fail("the header cannot be read", "',' or ')'");
    }
    return extents;
  }

  const std::filesystem::path& path_;
  std::string_view text_;
  std::size_t begin_;
  std::size_t at_ = 0;
};

/// Bytes of the array; nothing when no file could hold so many.
std::optional<std::uint64_t> size_of(const trace::StoredTensor& tensor) {
  std::uint64_t bytes = trace::bytes_of(tensor.dtype);
  for (const std::int64_t extent : tensor.shape) {
    if (__builtin_mul_overflow(bytes, static_cast<std::uint64_t>(extent), &bytes)) return std::nullopt;
  }
  return bytes;
}

}  // namespace

trace::StoredTensor read_npy(const std::filesystem::path& path) {
  std::string content = read_file(path);
  const auto fail = [&](std::size_t offset, const std::string& what, const std::string& expected,
                        const std::string& actual) {
    throw InputError({.what = "not a .npy file that can be read: " + what,
                      .where = path.string() + ", byte " + std::to_string(offset),
                      .expected = expected,
                      .actual = actual});
  };
  if (!content.starts_with(kMagic)) fail(0, "its magic number is wrong", "\\x93NUMPY", "");
  const auto byte = [&](std::size_t at) -> std::size_t {
    if (at >= content.size()) fail(content.size(), "it ends within the header", "more bytes", "the end of the file");
    return static_cast<unsigned char>(content[at]);
  };
  const std::size_t major = byte(6), minor = byte(7);
  if (major < 1 || major > 3 || minor != 0)
    fail(6, "its version of the format is not supported", "1.0, 2.0 or 3.0",
         std::to_string(major) + "." + std::to_string(minor));
  const std::size_t begin = major == 1 ? 10 : 12;
  std::size_t length = byte(8) | byte(9) << 8;
  if (major > 1) length |= byte(10) << 16 | byte(11) << 24;
  if (length > content.size() - begin) {
    fail(8, "the header is longer than the file", "at most " + std::to_string(content.size() - begin) + " bytes",
         std::to_string(length) + " bytes");
  }
  trace::StoredTensor tensor = Header(path, std::string_view(content).substr(begin, length), begin).read();
  content.erase(0, begin + length);
  const auto size = size_of(tensor);
  if (size != content.size()) {
    fail(begin + length, size && *size < content.size() ? "bytes follow its elements" : "it ends within its elements",
         size ? std::to_string(*size) + " bytes of elements" : "fewer elements",
         std::to_string(content.size()) + " bytes");
  }
  tensor.bytes = std::move(content);
  return tensor;
}

}  // namespace lockstep::train
