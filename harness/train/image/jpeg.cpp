#include <csetjmp>
#include <cstdio>
#include <functional>

#include <ATen/ATen.h>
#include <jpeglib.h>

#include "harness/base/error.h"
#include "harness/train/image/decode.h"

namespace lockstep::train {
namespace {

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

class Decoder {
 public:
  explicit Decoder(const std::string& content) : content_(content) {
    info_.err = jpeg_std_error(&failure_);
    failure_.error_exit = fail;
    failure_.emit_message = take_message;
  }
  ~Decoder() { jpeg_destroy_decompress(&info_); }
  Decoder(const Decoder&) = delete;
  Decoder& operator=(const Decoder&) = delete;

  /// False, here and below: message() says why.
  bool read_header() {
    if (setjmp(failure_.back) != 0) return false;
    jpeg_create_decompress(&info_);
    jpeg_mem_src(&info_, reinterpret_cast<const unsigned char*>(content_.data()), content_.size());
    jpeg_read_header(&info_, TRUE);
    return true;
  }

  bool read_pixels(std::string& pixels) {
    if (setjmp(failure_.back) != 0) return false;
    info_.out_color_space = JCS_RGB;
    jpeg_start_decompress(&info_);
    while (info_.output_scanline < info_.output_height) {
      const std::size_t before = pixels.size();
      pixels.resize(before + std::size_t{3} * info_.output_width);
      auto* row = reinterpret_cast<JSAMPROW>(pixels.data() + before);
      jpeg_read_scanlines(&info_, &row, 1);
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
};

}  // namespace

at::Tensor decode_jpeg(const std::string& content, const std::filesystem::path& path) {
  Decoder decoder(content);
  const auto require = [&](bool succeeded) {
    if (succeeded) return;
    throw InputError({.what = std::string("a JPEG image is damaged: ") + decoder.message(),
                      .where = path.string() + ", about byte " + std::to_string(decoder.offset())});
  };
  require(decoder.read_header());
  const jpeg_decompress_struct& info = decoder.info();
  if (info.jpeg_color_space == JCS_CMYK || info.jpeg_color_space == JCS_YCCK) {
    throw InputError({.what = "a JPEG image has colors for print",
                      .where = path.string(),
                      .expected = "RGB, YCbCr or gray",
                      .actual = "CMYK",
                      .next = "convert it to RGB"});
  }
  const Extent extent{.width = info.image_width, .height = info.image_height};
  require_possible(extent, content, path);
  std::string pixels;
  require(decoder.read_pixels(pixels));
  return image_of(pixels, extent);
}

}  // namespace lockstep::train
