#include <charconv>
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

std::string decompress(const std::filesystem::path& file) {
  const std::string packed = read_file(file);
  z_stream stream{};
  LOCKSTEP_CHECK(inflateInit2(&stream, 16 + MAX_WBITS) == Z_OK);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(packed.data()));
  stream.avail_in = static_cast<uInt>(packed.size());
  std::string text;
  int status = Z_OK;
  while (status == Z_OK) {
    char buffer[1 << 16];
    stream.next_out = reinterpret_cast<Bytef*>(buffer);
    stream.avail_out = sizeof buffer;
    status = inflate(&stream, Z_NO_FLUSH);
    text.append(buffer, sizeof buffer - stream.avail_out);
  }
  inflateEnd(&stream);
  if (status != Z_STREAM_END) fail(file, 0, "gzip ends early or is corrupt", "a whole gzip file");
  return text;
}

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
  const std::string text = decompress(file);
  const auto wanted = options.at("size").get<std::size_t>();
  std::vector<float> pixels;
  std::vector<std::int64_t> labels;
  std::vector<int> numbers;
  for (std::size_t at = 0; at < text.size() && labels.size() < wanted;) {
    const std::size_t newline = std::min(text.find('\n', at), text.size());
    parse_line(std::string_view(text).substr(at, newline - at), numbers, file, labels.size() + 1);
    for (std::int64_t i = 0; i < kPixels; ++i)
      pixels.push_back(static_cast<float>(numbers[static_cast<std::size_t>(i)]) / kBrightest);
    labels.push_back(numbers[kPixels]);
    at = newline + 1;
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
