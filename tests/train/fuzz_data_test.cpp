#include <cstdio>
#include <cstdlib>
#include <random>
#include <string>

#include <jpeglib.h>
#include <png.h>

#include "harness/trace/safetensors.h"
#include "harness/train/data/data.h"
#include "harness/train/image/decode.h"

#include "tests/train/arrays.h"
#include "tests/train/fuzz.h"

namespace lockstep::train {
namespace {

/// Bytes that hardly pack.
std::string some_bytes(std::size_t count) {
  std::mt19937 random(7);
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(random() % 256);
  return bytes;
}

constexpr unsigned kSide = 96;

/// Pixels of an image whose files have at least 16 KiB.
std::string some_pixels() { return some_bytes(std::size_t{3} * kSide * kSide); }

std::string some_jpeg(bool progressive, std::string pixels, unsigned side) {
  jpeg_compress_struct info{};
  jpeg_error_mgr errors{};
  info.err = jpeg_std_error(&errors);
  jpeg_create_compress(&info);
  unsigned char* packed = nullptr;
  unsigned long size = 0;
  jpeg_mem_dest(&info, &packed, &size);
  info.image_width = info.image_height = side;
  info.input_components = 3;
  info.in_color_space = JCS_RGB;
  jpeg_set_defaults(&info);
  jpeg_set_quality(&info, 95, TRUE);
  if (progressive) jpeg_simple_progression(&info);
  jpeg_start_compress(&info, TRUE);
  while (info.next_scanline < side) {
    auto* row = reinterpret_cast<JSAMPROW>(pixels.data() + std::size_t{3} * side * info.next_scanline);
    jpeg_write_scanlines(&info, &row, 1);
  }
  jpeg_finish_compress(&info);
  std::string content(reinterpret_cast<char*>(packed), size);
  jpeg_destroy_compress(&info);
  std::free(packed);
  return content;
}

std::string some_png(const std::string& pixels, unsigned side) {
  png_image image{};
  image.version = PNG_IMAGE_VERSION;
  image.width = image.height = side;
  image.format = PNG_FORMAT_RGB;
  png_alloc_size_t size = 0;
  EXPECT_NE(png_image_write_get_memory_size(image, size, 0, pixels.data(), 0, nullptr), 0);
  std::string content(size, 0);
  EXPECT_NE(png_image_write_to_memory(&image, content.data(), &size, 0, pixels.data(), 0, nullptr), 0);
  content.resize(size);
  return content;
}

TEST_F(Fuzz, IdxFiles) {
  const auto labels = scratch_.write("labels", test_idx({90}, std::string(90, 1)));
  const auto read = [&](const std::filesystem::path& file) {
    make_data({.kind = recipe::DataKind::kIdx, .options = {{"images", file.string()}, {"labels", labels.string()}}});
  };
  const std::string whole = test_idx({90, 14, 15}, some_bytes(90 * 14 * 15));
  EXPECT_GT(refused("images", whole, read), kFiles / 5);
  EXPECT_GT(refused("images.gz", gzipped(whole), read), kFiles * 3 / 4);
}

/// What is packed may hold far more than its file; what it cannot hold is not even unpacked.
TEST_F(Fuzz, IdxFilesThatClaimMoreThanTheyCanHold) {
  const auto labels = scratch_.write("labels", test_idx({90}, std::string(90, 1)));
  const std::string claims = test_idx({1 << 16, 64, 64}, std::string(16 << 20, '\0'));  // of 1 << 28
  const auto file = scratch_.write("images.gz", gzipped(claims));
  EXPECT_TRUE(refuses(file, [&](const auto& images) {
    make_data({.kind = recipe::DataKind::kIdx, .options = {{"images", images.string()}, {"labels", labels.string()}}});
  }));
}

TEST_F(Fuzz, NpyFiles) {
  const auto labels = scratch_.write("labels.npy", test_npy("|u1", "(90,)", std::string(90, 1)));
  const auto read = [&](const std::filesystem::path& file) {
    make_data({.kind = recipe::DataKind::kNpy, .options = {{"inputs", file.string()}, {"labels", labels.string()}}});
  };
  EXPECT_GT(refused("inputs.npy", test_npy("<f4", "(90, 9, 10)", some_bytes(4 * 90 * 9 * 10)), read), kFiles / 5);
  EXPECT_GT(refused("pixels.npy", test_npy("|u1", "(90, 14, 15)", some_bytes(90 * 14 * 15), 2), read), kFiles / 5);
}

TEST_F(Fuzz, SafetensorsData) {
  const std::string whole = trace::to_safetensors(
      {{.name = "inputs", .dtype = trace::DType::kUInt8, .shape = {90, 14, 15}, .bytes = some_bytes(90 * 14 * 15)},
       {.name = "labels", .dtype = trace::DType::kUInt8, .shape = {90}, .bytes = std::string(90, 1)}});
  const auto read = [](const std::filesystem::path& file) {
    const Json options = {{"path", file.string()}, {"inputs", "inputs"}, {"labels", "labels"}};
    make_data({.kind = recipe::DataKind::kSafetensors, .options = options});
  };
  EXPECT_GT(refused("data.safetensors", whole, read), kFiles / 5);
}

/// One colour packs 1,000 to 1: what is lost at the end must show before the rest is unpacked and kept.
TEST_F(Fuzz, FilesThatPackWellAndEndEarly) {
  const auto labels = scratch_.write("labels", test_idx({90}, std::string(90, 1)));
  const auto read = [&](const std::filesystem::path& images) {
    make_data({.kind = recipe::DataKind::kIdx, .options = {{"images", images.string()}, {"labels", labels.string()}}});
  };
  const std::string packed = gzipped(test_idx({5000, 64, 64}, std::string(5000 << 12, '\0')));
  EXPECT_TRUE(refuses(scratch_.write("images.gz", packed.substr(0, packed.size() - 30)), read));
  const auto look = [](const std::filesystem::path& file) { read_image(file); };
  const std::string png = some_png(std::string(std::size_t{3} * 2048 * 2048, '\7'), 2048);
  const std::string jpeg = some_jpeg(false, std::string(std::size_t{3} * 2048 * 2048, '\7'), 2048);
  const std::string progressive = some_jpeg(true, std::string(std::size_t{3} * 2048 * 2048, '\7'), 2048);
  EXPECT_TRUE(refuses(scratch_.write("flat.png", png.substr(0, png.size() - 40)), look));
  EXPECT_TRUE(refuses(scratch_.write("flat.jpg", jpeg.substr(0, jpeg.size() - 40)), look));
  EXPECT_TRUE(refuses(scratch_.write("slow.jpg", progressive.substr(0, progressive.size() - 40)), look));
  EXPECT_EQ(read_image(scratch_.write("whole.png", png)).size(1), 2048);
  EXPECT_EQ(read_image(scratch_.write("whole.jpg", jpeg)).size(1), 2048);
}

TEST_F(Fuzz, Images) {
  const auto read = [](const std::filesystem::path& file) { read_image(file); };
  EXPECT_GT(refused("image.png", some_png(some_pixels(), kSide), read), kFiles * 3 / 4);
  EXPECT_GT(refused("image.jpg", some_jpeg(false, some_pixels(), kSide), read), kFiles / 5);
  EXPECT_GT(refused("progressive.jpg", some_jpeg(true, some_pixels(), kSide), read), kFiles / 5);
}

}  // namespace
}  // namespace lockstep::train
