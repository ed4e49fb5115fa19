#include <algorithm>
#include <charconv>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/train/data/data.h"
#include "harness/train/files/packed_file.h"

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

/// Lines of a file, one at a time.
class Lines {
 public:
  explicit Lines(const std::filesystem::path& file) : file_(file) {}

  /// The next line, without its newline; nothing after the last. *Throws*: InputError for a damaged file.
  std::optional<std::string> next() {
    ++line_;
    std::size_t newline = 0;
    while ((newline = text_.find('\n')) == std::string::npos) {
      if (text_.size() > kLongest) fail(file_.path(), line_, "a line is too long", "65 numbers, separated by commas");
      const std::string more = file_.read(kLongest);
      if (more.empty()) break;
      text_ += more;
    }
    if (text_.empty()) return std::nullopt;
    newline = std::min(newline, text_.size());
    std::string line = text_.substr(0, newline);
    text_.erase(0, newline + 1);
    return line;
  }

 private:
  static constexpr std::size_t kLongest = 4096;

  PackedFile file_;
  std::string text_;
  std::size_t line_ = 0;
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
Dataset make_digits_data(const Json& options) {
  const std::filesystem::path file = options.at("path").get<std::string>();
  Lines lines(file);
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
