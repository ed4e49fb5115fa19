#pragma once

#include <cstdint>
#include <string>
#include <string_view>

namespace lockstep {

/// SHA-256 as 64 lower-case hexadecimal digits. *Source*: FIPS 180-4, by OpenSSL.
std::string sha256(std::string_view bytes);

/// SHA-256 of bytes that come in pieces.
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void update(std::string_view bytes);

  /// The digest of everything so far; more may follow.
  std::string hex() const;

 private:
  void* context_;
};

/// XXH3 with 64 bits: guards a line against accidents, not against malice. *Source*: xxHash 0.8.
std::uint64_t checksum(std::string_view bytes);

}  // namespace lockstep
