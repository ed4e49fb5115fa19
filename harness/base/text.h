#pragma once

#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

namespace lockstep {

/// Two lower-case hexadecimal digits for each byte.
std::string to_hex(std::string_view bytes);

/// 16 lower-case hexadecimal digits, most significant first.
std::string to_hex(std::uint64_t value);

/// Appends the same 16 digits without a string in between: for what runs in every step.
void append_hex(std::string& text, std::uint64_t value);

/// Appends the values with commas between them, each as base64url digits, the most significant six bits first, without
/// the zeros at the end: short for the bit patterns of floats, which mostly end in zeros. Nothing for 0.
void append_base64(std::string& text, std::span<const std::uint64_t> values);

/// Reads one of the values that `append_base64` appended; nothing when `text` is not exactly that.
std::optional<std::uint64_t> from_base64(std::string_view text);

/// Reads what `to_hex(std::uint64_t)` wrote; nothing when `text` is not exactly that.
std::optional<std::uint64_t> from_hex(std::string_view text);

/// Shortest decimal that reads back as the same double; "nan" and "inf" as such.
std::string to_decimal(double value);

/// So many significant digits: "0.333".
std::string rounded(double value, int digits);

/// The candidate with the smallest edit distance to `name`, if it is close enough to be a likely slip.
std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates);

/// "did you mean 'x'?", or the list of candidates when none is near.
std::string suggest(std::string_view name, const std::vector<std::string>& candidates);

/// `text`, which may come from a file, as one line of a terminal or a log: line breaks and all other characters that
/// act instead of showing are escaped ("\n", "\x1b", "\u202e"), bytes that are no UTF-8 become U+FFFD. CI systems look
/// for commands at the start of a line, some for "##vso[" or "##[" anywhere: the latter are broken up.
std::string printable(const std::string& text);

/// Longest part of a message: names come from files, and may be of any length. *Units*: bytes.
inline constexpr std::size_t kMostOfMessage = 4000;

/// `text` of at most about `most` bytes: of a longer one the beginning, how much is left out, and the end.
std::string without_middle(const std::string& text, std::size_t most = kMostOfMessage);

/// `text` as one word of a shell's command line; characters that `printable` would escape are written as bash reads
/// them.
std::string shell_quoted(const std::string& text);

/// `text` with spaces behind it, up to `width` bytes.
std::string padded(std::string_view text, std::size_t width);

/// The items with `separator` between them.
std::string join(const std::vector<std::string>& items, std::string_view separator);

/// "0, 2" of integers.
template <typename Integer>
std::string listed(const std::vector<Integer>& numbers) {
  std::vector<std::string> texts;
  for (const Integer number : numbers) texts.push_back(std::to_string(number));
  return join(texts, ", ");
}

/// "a, b and 5 more": no more items than a person reads.
std::string some_of(const std::vector<std::string>& items, std::size_t most);

}  // namespace lockstep
