#include <algorithm>
#include <csetjmp>
#include <cstring>

#include <ATen/ATen.h>
#include <png.h>

#include "harness/base/error.h"
#include "harness/train/image/decode.h"

namespace lockstep::train {
namespace {

/// libpng leaves by longjmp, which runs no destructor: what it may leave are functions without any.
class PngDecoder {
 public:
  explicit PngDecoder(const std::string& content)
      : content_(content),
        png_(png_create_read_struct(PNG_LIBPNG_VER_STRING, this, fail, ignore)),
        info_(png_create_info_struct(png_)) {
    LOCKSTEP_CHECK(png_ != nullptr && info_ != nullptr);
  }
  ~PngDecoder() { png_destroy_read_struct(&png_, &info_, nullptr); }
  PngDecoder(const PngDecoder&) = delete;
  PngDecoder& operator=(const PngDecoder&) = delete;

  /// False, here and below: message() says why.
  bool read_header() {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    png_set_read_fn(png_, this, read);
    png_set_crc_action(png_, PNG_CRC_ERROR_QUIT, PNG_CRC_ERROR_QUIT);
    png_set_benign_errors(png_, 0);  // what libpng would forgive is damage
    png_set_keep_unknown_chunks(png_, PNG_HANDLE_CHUNK_NEVER, nullptr, -1);
    png_read_info(png_, info_);
    return true;
  }

  /// Without `keep`, `pixels` ends as one row: the image is only looked through.
  bool read_pixels(std::string& pixels, bool keep) {
    if (setjmp(png_jmpbuf(png_)) != 0) return false;
    const auto color = png_get_color_type(png_, info_);
    if (color == PNG_COLOR_TYPE_PALETTE) png_set_palette_to_rgb(png_);
    if (color == PNG_COLOR_TYPE_GRAY) png_set_expand_gray_1_2_4_to_8(png_);
    if ((color & PNG_COLOR_MASK_COLOR) == 0) png_set_gray_to_rgb(png_);
    png_set_strip_alpha(png_);
    const int passes = png_set_interlace_handling(png_);
    png_read_update_info(png_, info_);
    const std::size_t row_bytes = png_get_rowbytes(png_, info_);
    if (row_bytes != std::size_t{3} * width()) png_error(png_, "its rows are not of RGB");
    for (int pass = 0; pass < passes; ++pass) {
      for (std::size_t row = 0; row < height(); ++row) {
        const std::size_t kept = keep ? row : 0;
        if (pass == 0) pixels.resize((kept + 1) * row_bytes);
        png_read_row(png_, reinterpret_cast<png_bytep>(pixels.data()) + kept * row_bytes, nullptr);
      }
    }
    png_read_end(png_, nullptr);
    return true;
  }

  std::size_t width() const { return png_get_image_width(png_, info_); }
  std::size_t height() const { return png_get_image_height(png_, info_); }
  int bits() const { return png_get_bit_depth(png_, info_); }
  int channels() const { return png_get_channels(png_, info_); }
  const char* message() const { return message_; }
  std::size_t offset() const { return at_; }

 private:
  [[noreturn]] static void fail(png_structp png, png_const_charp message) {
    auto* self = static_cast<PngDecoder*>(png_get_error_ptr(png));
    std::strncpy(self->message_, message, sizeof self->message_ - 1);
    png_longjmp(png, 1);
  }

  static void ignore(png_structp, png_const_charp) {}

  static void read(png_structp png, png_bytep to, std::size_t count) {
    auto* self = static_cast<PngDecoder*>(png_get_io_ptr(png));
    if (count > self->content_.size() - self->at_) {
      self->at_ = self->content_.size();
      png_error(png, "it ends early");
    }
    std::memcpy(to, self->content_.data() + self->at_, count);
    self->at_ += count;
  }

  const std::string& content_;
  std::size_t at_ = 0;
  char message_[256] = "";
  png_structp png_;
  png_infop info_;
};

/// The image's pixels; without `keep`, nothing but the assurance that it can be decoded.
at::Tensor decoded_png(const std::string& content, const std::filesystem::path& path, bool keep) {
  PngDecoder decoder(content);
  const auto require = [&](bool succeeded) {
    if (succeeded) return;
    throw InputError({.what = std::string("a PNG image is damaged: ") + decoder.message(),
                      .where = path.string() + ", before byte " + std::to_string(decoder.offset())});
  };
  require(decoder.read_header());
  if (decoder.bits() > 8) {
    throw InputError({.what = "a PNG image has more bits than a sample keeps",
                      .where = path.string(),
                      .expected = "at most 8 bits a channel",
                      .actual = std::to_string(decoder.bits()),
                      .next = "convert it to 8 bits a channel"});
  }
  const Extent extent{.width = decoder.width(), .height = decoder.height()};
  // Gray, palettes and few bits become three bytes a pixel.
  constexpr int kBitsOfPixel = 24;
  require_possible(
      extent, content, path,
      kDeflated * kBitsOfPixel / static_cast<std::uint64_t>(std::max(1, decoder.channels() * decoder.bits())));
  if (keep && is_large(extent, content)) decoded_png(content, path, /*keep=*/false);
  std::string pixels;
  require(decoder.read_pixels(pixels, keep));
  return keep ? image_of(pixels, extent) : at::Tensor();
}

}  // namespace

at::Tensor decode_png(const std::string& content, const std::filesystem::path& path) {
  return decoded_png(content, path, /*keep=*/true);
}

}  // namespace lockstep::train
