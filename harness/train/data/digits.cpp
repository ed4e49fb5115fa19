#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>
#include <zlib.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/data.h"

namespace lockstep::train {
namespace {

constexpr std::int64_t kPixels = 64;
constexpr float kBrightest = 16;

[[noreturn]] void fail(const std::filesystem::path& file, std::size_t line, const std::string& what,
                       const std::string& expected) {
  throw InputError({.what = "the digits file is damaged: " + what,
                    .where = file.string() + (line > 0 ? ", line " + std::to_string(line) : ""),
                    .expected = expected});
}

/// Lines of a gzip file, one at a time: what is compressed well cannot fill the memory.
class PackedLines {
 public:
  explicit PackedLines(const std::filesystem::path& file) : file_(file), packed_(read_file(file)) {
    LOCKSTEP_CHECK(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK);
    stream_.next_in = reinterpret_cast<Bytef*>(packed_.data());
    stream_.avail_in = static_cast<uInt>(packed_.size());
  }
  ~PackedLines() { inflateEnd(&stream_); }
  PackedLines(const PackedLines&) = delete;
  PackedLines& operator=(const PackedLines&) = delete;

  /// The next line, without its newline; nothing after the last. *Throws*: InputError for a damaged file.
  std::optional<std::string> next() {
    ++line_;
    std::size_t newline = 0;
    while ((newline = text_.find('\n')) == std::string::npos && !ended_) {
      if (text_.size() > kLongest) fail(file_, line_, "a line is too long", "65 numbers, separated by commas");
      unpack();
    }
    if (text_.empty()) return std::nullopt;
    newline = std::min(newline, text_.size());
    std::string line = text_.substr(0, newline);
    text_.erase(0, newline + 1);
    return line;
  }

 private:
  static constexpr std::size_t kLongest = 4096;

  void unpack() {
    char buffer[kLongest];
    stream_.next_out = reinterpret_cast<Bytef*>(buffer);
    stream_.avail_out = sizeof buffer;
    const int status = inflate(&stream_, Z_NO_FLUSH);
    text_.append(buffer, sizeof buffer - stream_.avail_out);
    ended_ = status == Z_STREAM_END;
    if (status != Z_OK && !ended_) fail(file_, 0, "gzip ends early or is corrupt", "a whole gzip file");
  }

  const std::filesystem::path& file_;
  std::string packed_;
  z_stream stream_{};
  std::string text_;
  std::size_t line_ = 0;
  bool ended_ = false;
};

/// Numbers of one line.
void parse_line(std::string_view line, std::vector<int>& numbers, const std::filesystem::path& file,
                std::size_t number) {
  const char* at = line.data();
  const char* end = line.data() + line.size();
  numbers.clear();
  while (true) {
    int value = 0;
    const auto [next, error] = std::from_chars(at, end, value);
    if (error != std::errc()) fail(file, number, "not a number", "65 numbers, separated by commas");
    numbers.push_back(value);
    if (next == end) break;
    if (*next != ',') fail(file, number, "a separator is missing", "65 numbers, separated by commas");
    at = next + 1;
  }
  if (numbers.size() != kPixels + 1)
    fail(file, number, std::to_string(numbers.size()) + " numbers", "64 pixels and a label");
  for (std::size_t i = 0; i < numbers.size(); ++i) {
    const int largest = i < kPixels ? 16 : 9;
    if (numbers[i] < 0 || numbers[i] > largest)
      fail(file, number, "value " + std::to_string(numbers[i]), "0 to " + std::to_string(largest));
  }
}

}  // namespace

/// *Source*: Optical Recognition of Handwritten Digits (Alpaydin, Kaynak), UCI; pixels 0–16, here divided by 16.
Dataset make_digits_data(const Json& options, const std::filesystem::path& file) {
  PackedLines lines(file);
  const auto wanted = options.at("size").get<std::size_t>();
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::vector<int> numbers;
  while (labels.size() < wanted) {
    const std::optional<std::string> line = lines.next();
    if (!line) break;
    parse_line(*line, numbers, file, labels.size() + 1);
    for (std::int64_t i = 0; i < kPixels; ++i)
      pixels.push_back(static_cast<float>(numbers[static_cast<std::size_t>(i)]) / kBrightest);
    labels.push_back(numbers[kPixels]);
  }
  while (lines.next()) {  // what is not wanted must be whole, too
  }
  if (labels.size() < wanted)
    throw InputError({.what = "train.data.size asks for more samples than the file has",
                      .where = file.string(),
                      .expected = "at most " + std::to_string(labels.size()),
                      .actual = std::to_string(wanted)});
  const auto count = static_cast<std::int64_t>(labels.size());
  return {.inputs = at::tensor(pixels, at::kFloat).view({count, 1, 8, 8}),
          .labels = at::tensor(labels, at::kLong),
          .classes = 10};
}

}  // namespace lockstep::train
