#include <algorithm>
#include <csetjmp>
#include <cstdio>
#include <functional>
#include <string_view>

#include <ATen/ATen.h>
#include <jpeglib.h>

#include "harness/base/error.h"
#include "harness/train/image/decode.h"

namespace lockstep::train {
namespace {

/// The marker that ends an image: it stands nowhere else, because 0xff within data is followed by 0.
constexpr std::string_view kEnd = "\xff\xd9";

/// Bytes of pixels for each byte of a progressive image, whose coefficients are all in memory before its first row.
constexpr std::uint64_t kMostOfProgressive = 64;

/// libjpeg leaves by longjmp, which runs no destructor: what it may leave are functions without any.
struct Failure : jpeg_error_mgr {
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void fail(j_common_ptr info) {
  auto* failure = static_cast<Failure*>(info->err);
  failure->format_message(info, failure->message);
  std::longjmp(failure->back, 1);
}

/// Warnings, which have a negative level, are of damaged data.
void take_message(j_common_ptr info, int level) {
  if (level < 0) fail(info);
}

bool is_for_print(const jpeg_decompress_struct& info) {
  return info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK;
}

/// Whether a colour is stored at full width and half the height (4:4:0). Releases of libjpeg-turbo smooth it by
/// different roundings, the one in torchvision's wheel by others than Debian's (measured).
bool is_halved_in_height(const jpeg_decompress_struct& info) {
  for (int i = 0; i < info.num_components; ++i) {
    const jpeg_component_info& component = info.comp_info[i];
    if (component.h_samp_factor == info.max_h_samp_factor && 2 * component.v_samp_factor == info.max_v_samp_factor)
      return true;
  }
  return false;
}

/// A row of inks, inverted as Adobe writes them, in red, green and blue.
/// *Source*: torchvision 0.26, decode_jpeg, which follows Pillow.
void to_rgb(const std::string& inks, char* pixels) {
  for (std::size_t i = 0; i + 3 < inks.size(); i += 4) {
    const int black = static_cast<unsigned char>(inks[i + 3]);
    for (std::size_t color = 0; color < 3; ++color) {
      int light = black * (255 - static_cast<unsigned char>(inks[i + color])) + 128;
      light = ((light >> 8) + light) >> 8;
      *pixels++ = static_cast<char>(std::clamp(black - light, 0, 255));
    }
  }
}

class JpegDecoder {
 public:
  explicit JpegDecoder(const std::string& content) : content_(content) {
    info_.err = jpeg_std_error(&failure_);
    failure_.error_exit = fail;
    failure_.emit_message = take_message;
  }
  ~JpegDecoder() { jpeg_destroy_decompress(&info_); }
  JpegDecoder(const JpegDecoder&) = delete;
  JpegDecoder& operator=(const JpegDecoder&) = delete;

  /// False, here and below: message() says why.
  bool read_header() {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(content_.data()), content_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  /// Without `keep`, `pixels` ends as one row: the image is only looked through.
  bool read_pixels(std::string& pixels, bool keep) {
    if (setjmp(failure_.back) != 0) return false;
    info_.out_color_space = is_for_print(info_) ? JCS_CMYK : JCS_RGB;
    jpeg_start_decompress(&info_);
    inks_.resize(is_for_print(info_) ? std::size_t{4} * info_.output_width : 0);
    while (info_.output_scanline < info_.output_height) {
      const std::size_t before = keep ? pixels.size() : 0;
      pixels.resize(before + std::size_t{3} * info_.output_width);
      auto* row = reinterpret_cast<JSAMPROW>(inks_.empty() ? pixels.data() + before : inks_.data());
      jpeg_read_scanlines(&info_, &row, 1);
      if (!inks_.empty()) to_rgb(inks_, pixels.data() + before);
    }
    jpeg_finish_decompress(&info_);
    return true;
  }

  const jpeg_decompress_struct& info() const { return info_; }
  const char* message() const { return failure_.message; }

  /// Where it reads. Past the end libjpeg reads from elsewhere.
  std::size_t offset() const {
    const char* begin = content_.data();
    const char* at = info_.src != nullptr ? reinterpret_cast<const char*>(info_.src->next_input_byte) : begin;
    const bool within = std::less_equal<>()(begin, at) && std::less_equal<>()(at, begin + content_.size());
    return within ? static_cast<std::size_t>(at - begin) : content_.size();
  }

 private:
  const std::string& content_;
  Failure failure_{};
  jpeg_decompress_struct info_{};
  std::string inks_;  ///< one row of four inks
};

/// The image's pixels; without `keep`, nothing but the assurance that it can be decoded.
at::Tensor decoded_jpeg(const std::string& content, const std::filesystem::path& path, bool keep) {
  JpegDecoder decoder(content);
  const auto damaged = [&](const std::string& what, std::size_t offset) {
    return InputError({.what = "a JPEG image is damaged: " + what,
                       .where = path.string() + ", about byte " + std::to_string(offset)});
  };
  if (!decoder.read_header()) throw damaged(decoder.message(), decoder.offset());
  const jpeg_decompress_struct& info = decoder.info();
  if (is_halved_in_height(info))
    throw InputError({.what = "a JPEG image is not supported: a colour is stored at half the height and full width",
                      .where = path.string(),
                      .expected = "4:4:4, 4:2:2, 4:2:0 or 4:1:1",
                      .actual = "4:4:0"});
  const Extent extent{.width = info.image_width, .height = info.image_height};
  if (info.progressive_mode != 0) {
    require_possible(extent, content, path, kMostOfProgressive);
    if (content.find(kEnd) == std::string::npos) throw damaged("it ends early", content.size());
  } else {
    require_possible(extent, content, path);
  }
  if (keep && is_large(extent, content)) decoded_jpeg(content, path, /*keep=*/false);
  std::string pixels;
  if (!decoder.read_pixels(pixels, keep)) throw damaged(decoder.message(), decoder.offset());
  return keep ? image_of(pixels, extent) : at::Tensor();
}

}  // namespace

at::Tensor decode_jpeg(const std::string& content, const std::filesystem::path& path) {
  return decoded_jpeg(content, path, /*keep=*/true);
}

}  // namespace lockstep::train
