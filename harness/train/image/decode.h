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
/// *Throws*: InputError that names the file: damaged or truncated, where libjpeg would only warn too; 16 bits a
/// channel; JPEG with colours at half the height and full width (4:4:0); or of more pixels than deflate,
/// which packs at most 1,032 to 1, could put into the file, a progressive JPEG of more than 64 bytes of them for each
/// of its own. An image larger than 16 times its file is decoded once without being kept, so that a damaged one never
/// takes that memory; a progressive JPEG, whose coefficients libjpeg keeps, must have an end.
at::Tensor read_image(const std::filesystem::path& path);

/// The same for the content of a file of one format; `path` is for messages.
at::Tensor decode_jpeg(const std::string& content, const std::filesystem::path& path);
at::Tensor decode_png(const std::string& content, const std::filesystem::path& path);

/// *Units*: pixels.
struct Extent {
  std::uint64_t width = 0, height = 0;
};

/// Bytes that one byte of deflate stands for, at most.
inline constexpr std::uint64_t kDeflated = 1032;

/// What a header claims must be possible. *Throws*: InputError, as above.
void require_possible(const Extent& extent, const std::string& content, const std::filesystem::path& path,
                      std::uint64_t most_expansion = kDeflated);

/// Whether it must be decoded once before its pixels are kept.
bool is_large(const Extent& extent, const std::string& content);

/// The image of these bytes, [height, width, 3].
at::Tensor image_of(const std::string& pixels, const Extent& extent);

}  // namespace lockstep::train
