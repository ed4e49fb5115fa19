#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <zlib.h>

namespace lockstep::train {

/// The bytes of a file from its beginning; of a gzip file, told by its magic number, the unpacked ones.
///
/// A gzip file is unpacked once without being kept, so that a damaged one never takes memory, and its size is known.
/// Files that are refused take at most about 16 times their size of memory; whole ones as much as they hold.
class PackedFile {
 public:
  /// *Throws*: InputError when the file cannot be read, or is a gzip file that ends early or is corrupt.
  explicit PackedFile(const std::filesystem::path& file);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// Up to so many of the next bytes, fewer only at the end.
  std::string read(std::size_t most);

  /// Bytes that it holds, unpacked.
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
  bool ended_ = false;  ///< the last gzip member
  z_stream stream_{};
};

}  // namespace lockstep::train
