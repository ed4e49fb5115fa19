#include "harness/golden/cells.h"

#include <array>
#include <charconv>
#include <cmath>
#include <cstring>
#include <functional>
#include <numeric>
#include <span>
#include <stdexcept>

#include "harness/base/text.h"
#include "harness/golden/words.h"

namespace lockstep::golden {
namespace {

using trace::Digest;
using trace::DType;
using trace::Record;

/// Significant digits of a norm. It explains; the digest decides.
constexpr int kDigitsOfNorm = 8;

/// Stands before the digest of a tensor that may lie in parts: their sum.
constexpr std::string_view kSum = "+";

/// Digits of base64url that hold 64 bits.
constexpr std::size_t kDigitsOfHalf = 11;

std::string half_of_digest(std::uint64_t half) {
  std::string digits;
  append_base64(digits, std::span(&half, 1));
  return digits + std::string(kDigitsOfHalf - digits.size(), 'A');  // zeros at the end are left out there
}

std::uint64_t half_from(std::string_view digits) {
  const auto half = from_base64(digits.substr(0, digits.find_last_not_of('A') + 1));
  if (!half) throw std::runtime_error("a digest is not written as digits of base64url");
  return *half;
}

std::string digits_of(const Digest& digest) { return half_of_digest(digest.high) + half_of_digest(digest.low); }

Digest digest_from_digits(std::string_view digits) {
  if (digits.size() != 2 * kDigitsOfHalf) throw std::runtime_error("a digest does not have 22 digits");
  return {.high = half_from(digits.substr(0, kDigitsOfHalf)), .low = half_from(digits.substr(kDigitsOfHalf))};
}

template <typename Number>
Number number_from(std::string_view text, const char* what) {
  Number number{};
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size())
    throw std::runtime_error(std::string(what) + " is not a number");
  return number;
}

/// The shortest decimal that gives the number back in its dtype.
std::string decimal_of(DType dtype, double number) {
  if (dtype != DType::kFloat32) return to_decimal(number);
  std::array<char, 64> digits;
  return {digits.data(), std::to_chars(digits.begin(), digits.end(), static_cast<float>(number)).ptr};
}

double decimal_from(DType dtype, std::string_view text) {
  return dtype == DType::kFloat32 ? static_cast<double>(number_from<float>(text, "a value"))
                                  : number_from<double>(text, "a value");
}

std::string value_text(const Record& record) {
  if (!record.text.empty()) return Json(record.text).dump(-1, ' ', true, Json::error_handler_t::replace);
  if (record.number) return decimal_of(record.dtype, *record.number);
  std::string text;
  for (const std::int64_t one : record.integers) text += (text.empty() ? "" : ",") + std::to_string(one);
  return text;
}

void take_value(Record& record, std::string_view value) {
  if (value.starts_with('"')) {
    record.text = text_of_word(value);
  } else if (trace::is_floating(record.dtype)) {
    record.number = decimal_from(record.dtype, value);
    record.norm = std::fabs(*record.number);
  } else {
    for (std::size_t comma = 0; comma != std::string_view::npos;) {
      comma = value.find(',');
      record.integers.push_back(number_from<std::int64_t>(value.substr(0, comma), "a value"));
      if (comma != std::string_view::npos) value.remove_prefix(comma + 1);
    }
  }
}

/// Elements of a record whose value is all of it; empty where that is unknown.
std::string elements_of(const Record& record) {
  if (!record.text.empty()) return record.text;
  std::string bytes;
  const auto append = [&bytes](const auto& element) {
    bytes.append(reinterpret_cast<const char*>(&element), sizeof element);
  };
  if (record.number && record.dtype == DType::kFloat32) append(static_cast<float>(*record.number));
  if (record.number && record.dtype == DType::kFloat64) append(*record.number);
  for (const std::int64_t one : record.integers) {
    const std::size_t width = trace::bytes_of(record.dtype);
    bytes.append(reinterpret_cast<const char*>(&one), width);  // little-endian: the low bytes come first
  }
  return bytes;
}

/// The digest that a record's value and type give, if the value is all of the record.
std::optional<Digest> digest_of_value(const Record& record) {
  const std::string bytes = elements_of(record);
  const auto count = std::accumulate(record.shape.begin(), record.shape.end(), std::int64_t{1}, std::multiplies<>());
  if (bytes.empty() || bytes.size() != static_cast<std::size_t>(count) * trace::bytes_of(record.dtype))
    return std::nullopt;
  return trace::digest_of(record.dtype, record.shape, std::as_bytes(std::span(bytes)));
}

/// Whether a record's value is all that there is of it.
bool is_its_value(const Record& record) {
  return !record.is_joined && !value_text(record).empty() && digest_of_value(record) == record.digest;
}

void take_type(Record& record, std::string_view type) {
  const std::size_t open = type.find('[');
  const auto dtype = trace::dtype_named(type.substr(0, open));
  if (open == std::string_view::npos || !dtype || !type.ends_with(']'))
    throw std::runtime_error("'" + std::string(type) + "' is not a type");
  record.dtype = *dtype;
  std::string_view sizes = type.substr(open + 1, type.size() - open - 2);
  while (!sizes.empty()) {
    const std::size_t comma = sizes.find(',');
    record.shape.push_back(number_from<std::int64_t>(sizes.substr(0, comma), "a size"));
    sizes.remove_prefix(comma == std::string_view::npos ? sizes.size() : comma + 1);
  }
}

}  // namespace

Record as_kept(Record record) {
  record.sketch.reset();
  record.max_abs.reset();
  record.elements.clear();
  record.rows.clear();
  if (record.norm) record.norm = number_from<double>(rounded(*record.norm, kDigitsOfNorm), "a norm");
  if (record.number) record.norm = std::fabs(*record.number);
  record.shard.reset();
  record.layout.clear();
  record.parts.clear();
  record.is_repeated = false;
  if (record.sum && !is_its_value(record)) {
    record.digest = *record.sum;
    record.is_joined = true;
  }
  record.sum.reset();
  return record;
}

std::string type_of(const Record& record) {
  std::string sizes;
  for (const std::int64_t size : record.shape) sizes += (sizes.empty() ? "" : ",") + std::to_string(size);
  return std::string(name_of(record.dtype)) + "[" + sizes + "]";
}

std::string cell_of(const Record& record) {
  const std::string value = value_text(record);
  if (is_its_value(record)) return "=" + value;
  return std::string(record.is_joined ? kSum : "") + digits_of(record.digest) +
         (record.norm ? " " + rounded(*record.norm, kDigitsOfNorm) : "") + (value.empty() ? "" : " =" + value);
}

Record record_from(trace::Channel channel, const std::string& name, std::string_view usual,
                   std::vector<std::string_view> words) {
  Record record;
  record.channel = channel;
  record.name = name;
  std::size_t at = 0;
  const bool has_type = !words.empty() && words[0].find('[') != std::string_view::npos && words[0][0] != '=';
  take_type(record, has_type ? words[at++] : usual);
  const bool follows = at < words.size() && words[at].starts_with('=');
  if (!follows) {
    record.is_joined = at < words.size() && words[at].starts_with(kSum);
    if (record.is_joined) words[at].remove_prefix(kSum.size());
    record.digest = digest_from_digits(at < words.size() ? words[at++] : "");
    if (at < words.size() && !words[at].starts_with('=')) record.norm = number_from<double>(words[at++], "a norm");
  }
  if (at < words.size() && words[at].starts_with('=')) {
    const std::optional<double> norm = record.norm;
    take_value(record, words[at++].substr(1));
    if (!follows) record.norm = norm;
  }
  if (at != words.size()) throw std::runtime_error("words follow the record");
  if (!follows) return record;
  const auto digest = digest_of_value(record);
  if (!digest) throw std::runtime_error("the value is not all of the record");
  record.digest = *digest;
  return record;
}

}  // namespace lockstep::golden
