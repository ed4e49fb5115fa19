#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <vector>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/data/data.h"

namespace lockstep::train {
namespace {

/// Memory of the padded tokens and their labels: so many bytes for each byte of the text, or 1 MiB.
constexpr std::size_t kMostExpansion = 16, kPaddingAllowed = std::size_t{1} << 20;

/// Ids of a text's bytes: the distinct ones, in ascending order.
struct Vocabulary {
  explicit Vocabulary(const std::string& text) {
    std::array<bool, 256> seen{};
    for (const char c : text) seen[static_cast<unsigned char>(c)] = true;
    for (std::size_t byte = 0; byte < seen.size(); ++byte) {
      if (seen[byte]) ids[byte] = size++;
    }
  }

  std::array<std::int64_t, 256> ids{};
  std::int64_t size = 0;
};

/// Calls `action` with every sequence of the text, each with the byte that follows it.
template <typename Action>
void for_each_sequence(std::string_view text, recipe::TextBy by, std::size_t length, Action action) {
  if (by == recipe::TextBy::kBlock) {
    for (std::size_t at = 0; at + length < text.size(); at += length) action(text.substr(at, length + 1));
  } else {
    for (std::size_t at = 0; at < text.size();) {
      const std::size_t newline = std::min(text.find('\n', at), text.size() - 1);
      if (newline > at) action(text.substr(at, std::min(newline - at, length) + 1));
      at = newline + 1;
    }
  }
}

}  // namespace

Dataset make_text_data(const Json& options) {
  const std::filesystem::path file = options.at("path").get<std::string>();
  const std::string text = read_file(file);
  const auto by = recipe::kind_at<recipe::TextBy>(options, "by");
  auto length = options.at("length").get<std::int64_t>();
  const auto most_characters = static_cast<std::size_t>(length);
  std::size_t longest = 0;
  std::int64_t count = 0;
  for_each_sequence(text, by, most_characters, [&](std::string_view sequence) {
    longest = std::max(longest, sequence.size() - 1);
    ++count;
  });
  const Vocabulary vocabulary(text);
  if (count == 0 || vocabulary.size < 2) {
    throw InputError({.what = "the text is too short",
                      .where = file.string(),
                      .expected = "more than " + std::to_string(length) + " characters, not all alike",
                      .actual = std::to_string(text.size()) + " characters",
                      .next = "use a longer text, or a smaller train.data.length"});
  }
  length = static_cast<std::int64_t>(longest);
  const std::size_t padded = 2 * static_cast<std::size_t>(count) * longest * sizeof(std::int64_t);  // and labels
  if (const std::size_t most = std::max(kMostExpansion * text.size(), kPaddingAllowed); padded > most) {
    throw InputError({.what = "padding every line to the longest would take far more than the text",
                      .where = file.string(),
                      .expected = "at most " + std::to_string(most) + " bytes",
                      .actual = std::to_string(count) + " lines of up to " + std::to_string(length) +
                                " characters: " + std::to_string(padded) + " bytes",
                      .next = "use a smaller train.data.length"});
  }
  at::Tensor inputs = at::zeros({count, length}, at::kLong), labels = at::full({count, length}, kNoLabel, at::kLong);
  std::int64_t* input = inputs.mutable_data_ptr<std::int64_t>();
  std::int64_t* label = labels.mutable_data_ptr<std::int64_t>();
  for_each_sequence(text, by, most_characters, [&](std::string_view sequence) {
    for (std::size_t t = 0; t + 1 < sequence.size(); ++t) {
      input[t] = vocabulary.ids[static_cast<unsigned char>(sequence[t])];
      label[t] = vocabulary.ids[static_cast<unsigned char>(sequence[t + 1])];
    }
    input += length;
    label += length;
  });
  return {.inputs = inputs, .labels = labels, .classes = vocabulary.size};
}

}  // namespace lockstep::train
