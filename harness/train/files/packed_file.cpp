#include "harness/train/files/packed_file.h"

#include <algorithm>
#include <cstring>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kBlock = 1 << 16;

}  // namespace

PackedFile::PackedFile(const std::filesystem::path& file)
    : path_(file), content_(read_file(file)), gzip_(content_.starts_with("\x1f\x8b")) {
  if (gzip_) LOCKSTEP_CHECK(inflateInit2(&stream_, 16 + MAX_WBITS) == Z_OK);
  measure();
}

PackedFile::~PackedFile() {
  if (gzip_) inflateEnd(&stream_);
}

/// Walks through the whole file and back to its beginning.
void PackedFile::measure() {
  size_ = content_.size();
  if (!gzip_) return;
  size_ = 0;
  char block[kBlock];
  while (const std::size_t count = unpack(block, kBlock)) size_ += count;
  inflateReset(&stream_);
  at_ = 0;
  ended_ = false;
}

std::string PackedFile::read(std::size_t most) {
  std::string bytes;
  while (bytes.size() < most) {
    char block[kBlock];
    const std::size_t count = unpack(block, std::min(most - bytes.size(), kBlock));
    if (count == 0) break;
    bytes.append(block, count);
    offset_ += count;
  }
  return bytes;
}

std::size_t PackedFile::unpack(char* to, std::size_t most) {
  if (!gzip_) {
    const std::size_t count = std::min(most, content_.size() - at_);
    std::memcpy(to, content_.data() + at_, count);
    at_ += count;
    return count;
  }
  stream_.next_out = reinterpret_cast<Bytef*>(to);
  stream_.avail_out = static_cast<uInt>(most);
  while (stream_.avail_out == most && !ended_) {
    const std::size_t left = std::min<std::size_t>(content_.size() - at_, 1U << 30);  // avail_in has 32 bits
    stream_.next_in = reinterpret_cast<Bytef*>(content_.data() + at_);
    stream_.avail_in = static_cast<uInt>(left);
    const int status = inflate(&stream_, Z_NO_FLUSH);
    at_ += left - stream_.avail_in;
    ended_ = status == Z_STREAM_END && at_ == content_.size();
    // Members follow one another, as gzip and Python read them.
    if (status == Z_STREAM_END && !ended_) inflateReset(&stream_);
    if (status != Z_OK && status != Z_STREAM_END) {
      throw InputError({.what = "a data file is damaged: gzip ends early or is corrupt",
                        .where = path_.string() + ", byte " + std::to_string(at_) + " of the packed file",
                        .expected = "a whole gzip file"});
    }
  }
  return most - stream_.avail_out;
}

}  // namespace lockstep::train
