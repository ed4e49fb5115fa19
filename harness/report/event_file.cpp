// Why not a library: protobuf would be a dependency of `lockstep` for two messages with six fields, and no library that
// we use has a CRC-32C. *Source*: protobuf's "Encoding"; TensorFlow's crc32c.h (the mask).
#include "harness/report/event_file.h"

#include <array>
#include <bit>

namespace lockstep::report {
namespace {

/// Remainders of each byte by the reflected polynomial.
constexpr std::array<std::uint32_t, 256> remainders() {
  constexpr std::uint32_t kCastagnoli = 0x82f63b78;
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < table.size(); ++i) {
    std::uint32_t remainder = i;
    for (int bit = 0; bit < 8; ++bit) remainder = (remainder >> 1) ^ ((remainder & 1) != 0 ? kCastagnoli : 0);
    table[i] = remainder;
  }
  return table;
}

template <typename Unsigned>
std::string little_endian(Unsigned value) {
  std::string bytes;
  for (std::size_t i = 0; i < sizeof value; ++i) bytes += static_cast<char>(value >> (8 * i) & 0xff);
  return bytes;
}

std::string varint(std::uint64_t value) {
  std::string bytes;
  for (; value > 0x7f; value >>= 7) bytes += static_cast<char>((value & 0x7f) | 0x80);
  return bytes + static_cast<char>(value);
}

/// How a field is written.
enum class Wire { kVarint = 0, kBytes = 2, kFixed32 = 5 };

std::string tag_of(int field, Wire wire) {
  return varint(static_cast<std::uint64_t>(field) << 3 | static_cast<std::uint64_t>(wire));
}

std::string bytes_field(int field, const std::string& bytes) {
  return tag_of(field, Wire::kBytes) + varint(bytes.size()) + bytes;
}

/// Summary.Value with `tag` and `simple_value`, as a field of a Summary.
std::string scalar(const char* name, const std::optional<double>& number) {
  if (!number) return "";
  const auto bits = std::bit_cast<std::uint32_t>(static_cast<float>(*number));
  return bytes_field(1, bytes_field(1, name) + tag_of(2, Wire::kFixed32) + little_endian(bits));
}

/// Event with `step` and `summary`.
std::string event_of(const golden::CurvePoint& point) {
  return tag_of(2, Wire::kVarint) + varint(static_cast<std::uint64_t>(point.step)) +
         bytes_field(5, scalar("loss", point.loss) + scalar("gradient_norm", point.gradient) +
                            scalar("learning_rate", point.rate));
}

std::string masked_crc(const std::string& bytes) {
  constexpr std::uint32_t kMask = 0xa282ead8;
  return little_endian(std::rotr(crc32c(bytes), 15) + kMask);
}

std::string record_of(const std::string& event) {
  const std::string length = little_endian(std::uint64_t{event.size()});
  return length + masked_crc(length) + event + masked_crc(event);
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kRemainders = remainders();
  std::uint32_t crc = ~std::uint32_t{0};
  for (const char c : bytes) crc = (crc >> 8) ^ kRemainders[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

std::string event_file(const std::vector<golden::CurvePoint>& curve) {
  std::string file = record_of(bytes_field(3, "brain.Event:2"));  // `file_version`
  for (const golden::CurvePoint& point : curve) file += record_of(event_of(point));
  return file;
}

}  // namespace lockstep::report
