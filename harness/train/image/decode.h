#pragma once

#include <cstdint>
#include <filesystem>
#include <string>

#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Reads a JPEG or PNG image, recognized by its magic number, as torchvision.io.decode_image(mode=RGB) does. Gray
/// becomes RGB, transparency is dropped, and an orientation in the metadata is ignored.
///
/// *Shape*: [3, height, width] uint8, a view of [height, width, 3] as torchvision's, because its resizing depends on
/// the layout.
/// *Throws*: InputError that names the file, for:
/// - a damaged or truncated file, also where libjpeg would only warn;
/// - 16 bits per channel;
/// - JPEG with 4:4:0 subsampling (colours at half the height and full width);
/// - more pixels than the file can hold: deflate packs at most 1,032 to 1; a progressive JPEG may have 64 bytes of
/// pixels for each of its own.
///
/// An image larger than 16 times its file is first decoded without being kept, so a damaged one never takes that
/// memory. A progressive JPEG must have an end marker, because libjpeg keeps its coefficients.
at::Tensor read_image(const std::filesystem::path& path);

/// The same for a file's content in a known format. `path` is for messages.
at::Tensor decode_jpeg(const std::string& content, const std::filesystem::path& path);
at::Tensor decode_png(const std::string& content, const std::filesystem::path& path);

/// Size of an image. *Units*: pixels.
struct Extent {
  std::uint64_t width = 0, height = 0;
};

/// Largest expansion of deflate, in bytes per byte.
inline constexpr std::uint64_t kDeflated = 1032;

/// Checks that a file can hold the pixels that its header claims. *Throws*: InputError, as above.
void require_possible(const Extent& extent, const std::string& content, const std::filesystem::path& path,
                      std::uint64_t most_expansion = kDeflated);

/// Whether it must first be decoded without keeping its pixels.
bool is_large(const Extent& extent, const std::string& content);

/// The image of these bytes. *Shape*: bytes are [height, width, 3].
at::Tensor image_of(const std::string& pixels, const Extent& extent);

}  // namespace lockstep::train
