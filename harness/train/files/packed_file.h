#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <zlib.h>

namespace lockstep::train {

/// Reads the bytes of a file in order. A gzip file, recognized by its magic number, is unpacked.
///
/// A gzip file is first unpacked without keeping its content, to find damage and its size without using memory. A
/// refused file takes at most about 16 times its size in memory.
class PackedFile {
 public:
  /// *Throws*: InputError if the file cannot be read, or is a truncated or corrupt gzip file.
  explicit PackedFile(const std::filesystem::path& file);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// The next `most` bytes; fewer only at the end.
  std::string read(std::size_t most);

  /// Size of the unpacked content.
  std::uint64_t size() const { return size_; }

  /// Bytes read so far.
  std::uint64_t offset() const { return offset_; }

  const std::filesystem::path& path() const { return path_; }

 private:
  void measure();
  std::size_t unpack(char* to, std::size_t most);

  std::filesystem::path path_;
  std::string content_;
  std::size_t at_ = 0;  ///< in the content
  std::uint64_t offset_ = 0, size_ = 0;
  bool gzip_ = false;
  bool ended_ = false;  ///< after the last gzip member
  z_stream stream_{};
};

}  // namespace lockstep::train
