#include "harness/base/text.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cctype>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstring>
#include <numeric>

#include <nlohmann/json.hpp>

namespace lockstep {
namespace {

/// Names in one message.
constexpr std::size_t kMostChoices = 60;

/// A longer name is no slip of a known one, and its distance takes memory by its length. *Units*: bytes.
constexpr std::size_t kLongestSlip = 200;

constexpr char kDigits[] = "0123456789abcdef";
using TwoDigits = std::array<char, 2>;
constexpr std::string_view kBase64 = "ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";

/// The two base64 digits of each twelve-bit number.
constexpr auto kBase64Pairs = [] {
  std::array<TwoDigits, 4096> pairs{};
  for (std::size_t i = 0; i < pairs.size(); ++i) pairs[i] = {kBase64[i >> 6], kBase64[i & 63]};
  return pairs;
}();

/// Eight digits at once: each byte of the result is the character of one nibble, the most significant first in memory.
std::uint64_t hex_characters(std::uint32_t value) {
  constexpr std::uint64_t kOnes = 0x0101010101010101;
  std::uint64_t nibbles = value;
  nibbles = (nibbles | nibbles << 16) & 0x0000ffff0000ffff;
  nibbles = (nibbles | nibbles << 8) & 0x00ff00ff00ff00ff;
  nibbles = (nibbles | nibbles << 4) & 0x0f0f0f0f0f0f0f0f;
  const std::uint64_t letters = (nibbles + 6 * kOnes) >> 4 & kOnes;
  return __builtin_bswap64(nibbles + '0' * kOnes + letters * ('a' - '0' - 10));
}

std::array<char, 16> hex_digits(std::uint64_t value) {
  const std::array<std::uint64_t, 2> halves = {hex_characters(static_cast<std::uint32_t>(value >> 32)),
                                               hex_characters(static_cast<std::uint32_t>(value))};
  return std::bit_cast<std::array<char, 16>>(halves);
}

/// Edit distance with transpositions of neighbours (optimal string alignment).
std::size_t edit_distance(std::string_view a, std::string_view b) {
  std::vector<std::vector<std::size_t>> d(a.size() + 1, std::vector<std::size_t>(b.size() + 1));
  for (std::size_t i = 0; i <= a.size(); ++i) d[i][0] = i;
  std::iota(d[0].begin(), d[0].end(), std::size_t{0});
  for (std::size_t i = 1; i <= a.size(); ++i) {
    for (std::size_t j = 1; j <= b.size(); ++j) {
      const std::size_t substitution = d[i - 1][j - 1] + (a[i - 1] == b[j - 1] ? 0 : 1);
      d[i][j] = std::min({d[i - 1][j] + 1, d[i][j - 1] + 1, substitution});
      if (i > 1 && j > 1 && a[i - 1] == b[j - 2] && a[i - 2] == b[j - 1])
        d[i][j] = std::min(d[i][j], d[i - 2][j - 2] + 1);
    }
  }
  return d[a.size()][b.size()];
}

/// Bytes of a character of valid UTF-8, by its first.
std::size_t length_of_character(char first) {
  const auto byte = static_cast<unsigned char>(first);
  return byte < 0x80 ? 1 : byte < 0xe0 ? 2 : byte < 0xf0 ? 3 : 4;
}

char32_t code_of(std::string_view character) {
  char32_t code = static_cast<unsigned char>(character[0]);
  if (character.size() > 1) code &= 0x7fU >> character.size();
  for (const char next : character.substr(1)) code = code << 6 | (static_cast<unsigned char>(next) & 0x3fU);
  return code;
}

/// Whether a character moves the cursor, breaks or reorders lines, or does anything else but show.
bool acts(char32_t code) {
  constexpr std::pair<char32_t, char32_t> kRanges[] = {{0x00, 0x1f},     {0x7f, 0x9f},      // C0, DEL, C1
                                                       {0x61c, 0x61c},   {0x200e, 0x200f},  // marks of direction
                                                       {0x2028, 0x202e},  // separators, bidi overrides
                                                       {0x2066, 0x2069}, {0xfeff, 0xfeff}, {0xfffe, 0xffff}};
  return std::any_of(std::begin(kRanges), std::end(kRanges),
                     [code](const auto& range) { return range.first <= code && code <= range.second; });
}

std::string escape_of(char32_t code) {
  if (code == '\n') return "\\n";
  if (code == '\r') return "\\r";
  if (code == '\t') return "\\t";
  std::string digits = to_hex(std::uint64_t{code});
  return code < 0x80 ? "\\x" + digits.substr(14) : "\\u" + digits.substr(12);
}

/// Whether the second '#' of a runner's "##[…" or "##word[…" stands at `at`.
bool is_command(std::string_view text, std::size_t at) {
  if (at == 0 || text[at] != '#' || text[at - 1] != '#') return false;
  const std::size_t end = std::find_if(text.begin() + static_cast<std::ptrdiff_t>(at) + 1, text.end(),
                                       [](unsigned char c) { return std::isalpha(c) == 0; }) -
                          text.begin();
  return end < text.size() && text[end] == '[';
}

/// $'…': every byte that does not show is written as its number.
std::string quoted_for_bash(std::string_view text) {
  std::string quoted = "$'";
  for (const char c : text) {
    const bool shows = c > ' ' && c < 0x7f && c != '#' && c != '\'' && c != '\\';
    quoted += shows || c == ' ' ? std::string(1, c) : "\\x" + to_hex(std::string_view(&c, 1));
  }
  return quoted + "'";
}

}  // namespace

std::string to_hex(std::string_view bytes) {
  std::string text;
  text.reserve(bytes.size() * 2);
  for (const char byte : bytes) {
    text += kDigits[static_cast<unsigned char>(byte) >> 4];
    text += kDigits[static_cast<unsigned char>(byte) & 15];
  }
  return text;
}

std::string to_hex(std::uint64_t value) {
  std::string text;
  append_hex(text, value);
  return text;
}

void append_hex(std::string& text, std::uint64_t value) {
  const auto digits = hex_digits(value);
  text.append(digits.data(), digits.size());
}

void append_base64(std::string& text, std::span<const std::uint64_t> values) {
  constexpr std::size_t kMost = 11;
  constexpr std::size_t kPairs = 6;  // the last digit of the last pair says nothing
  const std::size_t begin = text.size();
  text.resize(begin + values.size() * 2 * kPairs);
  char* out = text.data() + begin;
  for (const std::uint64_t value : values) {
    // All digits, then as many kept as count: without a branch, which would be unpredictable.
    for (std::size_t i = 0; i < kPairs; ++i)
      std::memcpy(out + 2 * i, kBase64Pairs[value << 12 * i >> 52].data(), sizeof(TwoDigits));
    out += kMost - (static_cast<std::size_t>(std::countr_zero(value)) + 2) / 6;
    *out++ = ',';
  }
  text.resize(static_cast<std::size_t>(out - text.data()) - (values.empty() ? 0 : 1));
}

std::optional<std::uint64_t> from_base64(std::string_view text) {
  if (text.size() > 11 || text.ends_with(kBase64[0])) return std::nullopt;
  std::uint64_t value = 0;
  for (std::size_t i = 0; i < text.size(); ++i) {
    const std::size_t digit = kBase64.find(text[i]);
    const bool overflows = i == 10 && digit % 4 != 0;  // 64 bits leave four for the last digit
    if (digit == std::string_view::npos || overflows) return std::nullopt;
    value |= i < 10 ? digit << (58 - 6 * i) : digit >> 2;
  }
  return value;
}

std::optional<std::uint64_t> from_hex(std::string_view text) {
  if (text.size() != 16) return std::nullopt;
  std::uint64_t value = 0;
  for (const char c : text) {
    const bool digit = c >= '0' && c <= '9';
    if (!digit && (c < 'a' || c > 'f')) return std::nullopt;
    value = value << 4 | static_cast<std::uint64_t>(digit ? c - '0' : c - 'a' + 10);
  }
  return value;
}

std::string to_decimal(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value > 0 ? "inf" : "-inf";
  std::array<char, 32> buffer{};
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  return {buffer.data(), result.ptr};
}

std::optional<std::string> nearest(std::string_view name, const std::vector<std::string>& candidates) {
  if (name.size() > kLongestSlip) return std::nullopt;
  std::optional<std::string> best;
  std::size_t best_distance = std::max<std::size_t>(2, name.size() / 2);
  for (const std::string& candidate : candidates) {
    const std::size_t distance = edit_distance(name, candidate);
    if (distance < best_distance || (distance == best_distance && !best)) {
      best = candidate;
      best_distance = distance;
    }
  }
  return best;
}

std::string suggest(std::string_view name, const std::vector<std::string>& candidates) {
  if (const auto near = nearest(name, candidates)) return "did you mean '" + *near + "'?";
  return candidates.empty() ? "" : "choose one of: " + some_of(candidates, kMostChoices);
}

std::string printable(const std::string& text) {
  const auto shows = [](char c) { return c >= ' ' && c < 0x7f; };
  if (std::all_of(text.begin(), text.end(), shows) && text.find("##") == std::string::npos) return text;
  const nlohmann::json value = text;
  const std::string dumped = value.dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
  const std::string valid = nlohmann::json::parse(dumped).get<std::string>();
  std::string result;
  for (std::size_t at = 0; at < valid.size();) {
    const std::size_t length = length_of_character(valid[at]);
    const std::string_view character = std::string_view(valid).substr(at, length);
    const char32_t code = code_of(character);
    if (acts(code)) {
      result += escape_of(code);
    } else if (is_command(valid, at)) {
      result += "\\x23";
    } else {
      result += character;
    }
    at += length;
  }
  return result;
}

std::string without_middle(const std::string& text, std::size_t most) {
  if (text.size() <= most) return text;
  const auto is_inside = [&text](std::size_t at) {  // a character of UTF-8
    return at < text.size() && (static_cast<unsigned char>(text[at]) & 0xC0) == 0x80;
  };
  std::size_t begin = most / 2, end = text.size() - most / 2;
  while (begin > 0 && is_inside(begin)) --begin;
  while (is_inside(end)) ++end;
  return text.substr(0, begin) + " [" + std::to_string(end - begin) + " bytes left out] " + text.substr(end);
}

std::string shell_quoted(const std::string& text) {
  constexpr std::string_view kPlain = "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_@%+=:,./-";
  if (!text.empty() && text.find_first_not_of(kPlain) == std::string::npos) return text;
  if (printable(text) != text) return quoted_for_bash(text);
  std::string quoted = "'";
  for (const char c : text) quoted += c == '\'' ? "'\\''" : std::string(1, c);
  return quoted + "'";
}

std::string rounded(double value, int digits) {
  char text[64];
  std::snprintf(text, sizeof text, "%.*g", digits, value);
  return text;
}

std::string padded(std::string_view text, std::size_t width) {
  std::string result(text);
  if (result.size() < width) result.append(width - result.size(), ' ');
  return result;
}

std::string join(const std::vector<std::string>& items, std::string_view separator) {
  std::string text;
  for (std::size_t i = 0; i < items.size(); ++i) {
    if (i > 0) text += separator;
    text += items[i];
  }
  return text;
}

std::string some_of(const std::vector<std::string>& items, std::size_t most) {
  if (items.size() <= most) return join(items, ", ");
  const std::vector<std::string> shown(items.begin(), items.begin() + static_cast<std::ptrdiff_t>(most));
  return join(shown, ", ") + " and " + std::to_string(items.size() - most) + " more";
}

}  // namespace lockstep
