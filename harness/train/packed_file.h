#pragma once

#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string>

#include <zlib.h>

namespace lockstep::train {

/// The bytes of a file from its beginning; of a gzip file, told by its magic number, the unpacked ones.
///
/// Nothing is unpacked before it is asked for, and memory grows with what is unpacked, not with what is asked for.
/// Files that are read take at most about 16 times their size of memory. What is compressed is the exception (gzip
/// here, PNG and JPEG in image/decode.h): it may hold as much as its format can pack, and no more is believed.
class PackedFile {
 public:
  /// *Throws*: InputError when the file cannot be read.
  explicit PackedFile(const std::filesystem::path& file);
  ~PackedFile();
  PackedFile(const PackedFile&) = delete;
  PackedFile& operator=(const PackedFile&) = delete;

  /// Up to so many of the next bytes, fewer only at the end.
  /// *Throws*: InputError for a gzip file that ends early or is corrupt.
  std::string read(std::size_t most);

  /// The most bytes that the file can hold, if every one of its own is packed as well as gzip can.
  std::uint64_t most() const;

  /// Bytes read so far.
  std::uint64_t offset() const { return offset_; }

  const std::filesystem::path& path() const { return path_; }

 private:
  std::size_t unpack(char* to, std::size_t most);

  std::filesystem::path path_;
  std::string content_;
  std::size_t at_ = 0;  ///< in the content
  std::uint64_t offset_ = 0;
  bool gzip_ = false;
  bool ended_ = false;  ///< the last gzip member
  z_stream stream_{};
};

}  // namespace lockstep::train
