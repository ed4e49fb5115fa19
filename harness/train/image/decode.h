#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Reads a JPEG or PNG image, told by its magic number, as torchvision.io.decode_image(mode=RGB) does: gray becomes
/// RGB, transparency is dropped, an orientation in the metadata is ignored.
///
/// *Shape*: [3, height, width] uint8, a view of [height, width, 3] as torchvision's, whose resizing depends on it.
/// *Throws*: InputError that names the file: damaged or truncated, where libjpeg would only warn too; CMYK; 16 bits a
/// channel; or of more than 1,024 bytes of pixels for each byte of the file (deflate packs at most 1,032 to 1), a
/// progressive JPEG of more than 64. An image larger than 16 times its file is decoded once without being kept, so that
/// a damaged one never takes that memory; a progressive JPEG, whose coefficients libjpeg keeps, must have an end.
at::Tensor read_image(const std::filesystem::path& path);

/// The same for the content of a file of one format; `path` is for messages.
at::Tensor decode_jpeg(const std::string& content, const std::filesystem::path& path);
at::Tensor decode_png(const std::string& content, const std::filesystem::path& path);

/// *Units*: pixels.
struct Extent {
  std::uint64_t width = 0, height = 0;
};

/// What a header claims must be possible. *Throws*: InputError, as above.
void require_possible(const Extent& extent, const std::string& content, const std::filesystem::path& path,
                      std::uint64_t most_expansion = 1024);

/// Whether it must be decoded once before its pixels are kept.
bool is_large(const Extent& extent, const std::string& content);

/// The image of these bytes, [height, width, 3].
at::Tensor image_of(const std::string& pixels, const Extent& extent);

}  // namespace lockstep::train
