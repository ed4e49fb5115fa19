// Folders of images: order, decoding, augmentation, and what is wrong with such folders. That pixels and draws are
// torchvision's is what tests/parity/formats_test.cpp shows.

#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>
#include <png.h>
#include <sys/stat.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/data/data.h"
#include "harness/train/image/decode.h"

#include "tests/support/support.h"
#include "tests/train/refused.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

fs::path formats() { return test::source_root() / "scenarios/data/formats"; }
std::string png() { return read_file(formats() / "exact/0/00.png"); }
std::string jpeg() { return read_file(formats() / "pictures/0/02.JPG"); }

class ImageFolder : public ::testing::Test {
 protected:
  Dataset read(const fs::path& folder, const std::string& augment = "none", std::int64_t seed = 0) {
    return make_data({.kind = recipe::DataKind::kImageFolder,
                      .options = {{"path", folder.string()}, {"size", 8}, {"augment", augment}, {"seed", seed}}});
  }
  Dataset read() { return read(scratch_.path()); }

  /// As the only image of its class.
  void expect_image_refused(const std::string& content, const std::vector<std::string>& words) {
    scratch_.write("a/image.png", content);
    expect_refused([&] { read(); }, words);
  }

  test::Scratch scratch_;
};

TEST_F(ImageFolder, IsInTheOrderOfTorchvision) {
  // Folder by folder, then name by name, in the order of bytes: of a/'s folders "a", "a-b", "a/c".
  const char* names[] = {"B/z.PNG", "a/9.png", "a/a-b/1.jpeg", "a/a/2.png", "a/a/c/1.png"};
  const char* sources[] = {"exact/1/06.png", "exact/2/12.png", "pictures/0/02.JPG", "exact/3/18.png", "exact/4/24.png"};
  for (int i = 0; i < 5; ++i) scratch_.write(names[i], read_file(formats() / sources[i]));
  scratch_.write("a/notes.txt", "no image");
  scratch_.write("readme.png.txt", "of no class");
  const Dataset data = read();
  EXPECT_TRUE(at::equal(data.labels, at::tensor({0, 1, 1, 1, 1}, at::kLong)));
  const int order[] = {0, 1, 3, 2, 4};
  for (int i = 0; i < 5; ++i) {
    if (order[i] == 2) continue;  // resized
    const at::Tensor image = read_image(formats() / sources[order[i]]).to(at::kFloat) / 255;
    EXPECT_TRUE(at::equal(data.inputs[i], image)) << i;
  }
  EXPECT_EQ(data.classes, 2);
}

/// The same pixels in seven passes, which Pillow does not write.
std::string interlaced_png(const std::string& pixels, unsigned side) {
  std::string content;
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, nullptr, nullptr, nullptr);
  png_infop info = png_create_info_struct(png);
  png_set_write_fn(
      png, &content,
      [](png_structp to, png_bytep bytes, std::size_t count) {
        static_cast<std::string*>(png_get_io_ptr(to))->append(reinterpret_cast<char*>(bytes), count);
      },
      nullptr);
  png_set_IHDR(png, info, side, side, 8, PNG_COLOR_TYPE_RGB, PNG_INTERLACE_ADAM7, PNG_COMPRESSION_TYPE_DEFAULT,
               PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  const int passes = png_set_interlace_handling(png);
  for (int pass = 0; pass < passes; ++pass) {
    for (std::size_t row = 0; row < side; ++row)
      png_write_row(png, reinterpret_cast<png_const_bytep>(pixels.data()) + row * 3 * side);
  }
  png_write_end(png, nullptr);
  png_destroy_write_struct(&png, &info);
  return content;
}

TEST_F(ImageFolder, ReadsAnInterlacedImageWhole) {
  constexpr unsigned kSide = 11;
  std::string pixels;
  for (unsigned i = 0; i < 3 * kSide * kSide; ++i) pixels += static_cast<char>(i * i);
  const at::Tensor image = read_image(scratch_.write("a.png", interlaced_png(pixels, kSide)));
  const at::Tensor expected = at::from_blob(pixels.data(), {kSide, kSide, 3}, at::kByte).permute({2, 0, 1});
  EXPECT_TRUE(at::equal(image, expected));
}

TEST_F(ImageFolder, WithoutImagesIsRefused) {
  expect_refused([&] { read(scratch_.path() / "none"); }, {"no folder of images", "none", "No such file"});
  expect_refused([&] { read(); }, {"no folder of images", scratch_.path().string(), "no folder in it"});
  scratch_.write("a/notes.txt", "no image");
  expect_refused([&] { read(); }, {"a class has no images", (scratch_.path() / "a").string()});
  scratch_.write("a/image.webp", "RIFF");
  expect_refused([&] { read(); }, {"is not supported", "a/image.webp", ".webp"});
}

/// A link to a disk that is not mounted must not make the data set smaller.
TEST_F(ImageFolder, WhatIsNoFileIsNoImage) {
  scratch_.write("a/1.png", png());
  fs::create_directory(scratch_.path() / "a/folder.png");
  fs::create_symlink(scratch_.path() / "a/1.png", scratch_.path() / "a/2.png");
  fs::create_symlink("/nowhere", scratch_.path() / "a/notes.txt");
  EXPECT_EQ(read().size(), 2);
  fs::create_symlink("/nowhere", scratch_.path() / "a/3.png");
  expect_refused([&] { read(); }, {"an image is not a readable file", "a/3.png", "a link to nothing"});
  fs::remove(scratch_.path() / "a/3.png");
  ASSERT_EQ(::mkfifo((scratch_.path() / "a/4.png").c_str(), 0600), 0);
  expect_refused([&] { read(); }, {"an image is not a readable file", "a/4.png", "something else"});
}

TEST_F(ImageFolder, DamagedImagesAreNamed) {
  expect_image_refused("", {"neither a JPEG nor a PNG", "a/image.png", "empty"});
  expect_image_refused("GIF89a", {"neither a JPEG nor a PNG", "a/image.png"});
  for (const std::size_t left : {20U, 50U, 80U}) {
    expect_image_refused(png().substr(0, left), {"a PNG image is damaged: it ends early", "a/image.png", "byte"});
  }
  expect_image_refused(png().substr(0, png().size() - 12), {"it ends early"});  // without its end, but with all pixels
  expect_image_refused(jpeg().substr(0, 3), {"a JPEG image is damaged", "a/image.png", "about byte 2"});
  // libjpeg would fill the rest with gray, and only warn.
  expect_image_refused(jpeg().substr(0, jpeg().size() - 20), {"a JPEG image is damaged: Premature end", "a/image.png"});
  std::string flipped = png();
  flipped[flipped.size() - 20] ^= 1;
  expect_image_refused(flipped, {"a PNG image is damaged", "a/image.png"});
}

/// Which releases of libjpeg-turbo decode to different pixels.
TEST_F(ImageFolder, ColoursAtHalfTheHeightAreRefused) {
  std::string content = jpeg();
  const std::size_t header = content.find("\xff\xc0");
  ASSERT_NE(header, std::string::npos);
  content[header + 11] = 0x12;
  expect_image_refused(content, {"a JPEG image is not supported", "half the height", "a/image.png", "4:4:0"});
}

TEST_F(ImageFolder, AbsurdHeadersAreRefusedBeforeMemoryIsTaken) {
  std::string large = jpeg();
  const std::size_t frame = large.find("\xff\xc0");
  ASSERT_NE(frame, std::string::npos);
  for (std::size_t i = 5; i < 9; ++i) large[frame + i] = '\x7f';
  expect_image_refused(large, {"more pixels than its file could hold", "a/image.png", "32639 x 32639"});
}

TEST_F(ImageFolder, AugmentationPerSampleDependsOnSeedEpochAndSampleOnly) {
  const Dataset data = read(formats() / "pictures", "sample");
  const at::Tensor first = data.take({3}, 0).x[0];
  EXPECT_TRUE(at::equal(data.take({7, 3}, 0).x[1], first));
  EXPECT_FALSE(at::equal(data.take({3}, 1).x[0], first));
  EXPECT_FALSE(at::equal(read(formats() / "pictures", "sample", 1).take({3}, 0).x[0], first));
  EXPECT_EQ(first.sizes(), at::IntArrayRef({3, 8, 8}));
}

TEST_F(ImageFolder, AugmentationPerRankFollowsTheDefaultGenerator) {
  const Dataset data = read(formats() / "pictures", "rank");
  at::manual_seed(1);
  const at::Tensor first = data.take({3, 4}, 0).x;
  EXPECT_FALSE(at::equal(data.take({3, 4}, 0).x, first));
  at::manual_seed(1);
  EXPECT_TRUE(at::equal(data.take({3, 4}, 5).x, first));
}

}  // namespace
}  // namespace lockstep::train
