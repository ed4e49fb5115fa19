#include "harness/train/image/decode.h"

#include <cstring>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::train {
namespace {

/// Bytes of memory for each byte of a file that is not known to be whole.
constexpr std::uint64_t kMostUnseen = 16;

}  // namespace

at::Tensor read_image(const std::filesystem::path& path) {
  const std::string content = read_file(path);
  if (content.starts_with("\xff\xd8\xff")) return decode_jpeg(content, path);
  if (content.starts_with("\x89PNG\r\n\x1a\n")) return decode_png(content, path);
  throw InputError({.what = "neither a JPEG nor a PNG image",
                    .where = path.string() + ", byte 0",
                    .expected = "the bytes FF D8 FF or 89 'PNG'",
                    .actual = content.empty() ? "an empty file" : "other bytes"});
}

bool is_large(const Extent& extent, const std::string& content) {
  return 3 * extent.width * extent.height > kMostUnseen * content.size();
}

void require_possible(const Extent& extent, const std::string& content, const std::filesystem::path& path,
                      std::uint64_t most_expansion) {
  // Both formats have extents below 2^31.
  const std::uint64_t most = most_expansion * content.size() / 3;
  if (extent.width * extent.height <= most) return;
  throw InputError(
      {.what = "an image claims more pixels than its file could hold",
       .where = path.string(),
       .expected = "at most " + std::to_string(most) + " pixels in " + std::to_string(content.size()) + " bytes",
       .actual = std::to_string(extent.width) + " x " + std::to_string(extent.height)});
}

at::Tensor image_of(const std::string& pixels, const Extent& extent) {
  const at::Tensor image =
      at::empty({static_cast<std::int64_t>(extent.height), static_cast<std::int64_t>(extent.width), 3}, at::kByte);
  LOCKSTEP_CHECK(pixels.size() == image.nbytes());
  std::memcpy(image.mutable_data_ptr(), pixels.data(), pixels.size());
  return image.permute({2, 0, 1});
}

}  // namespace lockstep::train
