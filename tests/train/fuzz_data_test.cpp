#include <string>

#include "harness/base/files.h"
#include "harness/trace/safetensors.h"
#include "harness/train/data.h"
#include "harness/train/image/decode.h"

#include "tests/train/arrays.h"
#include "tests/train/fuzz.h"

namespace lockstep::train {
namespace {

constexpr std::size_t kMostPacked = 4 * 1032;  ///< deflate's best, as float32
constexpr std::size_t kMostPixels = 1024;      ///< as image/decode.h promises

std::string some_bytes(std::size_t count) {
  std::string bytes;
  for (std::size_t i = 0; i < count; ++i) bytes += static_cast<char>(i * i >> 3);
  return bytes;
}

TEST_F(Fuzz, IdxFiles) {
  const auto labels = scratch_.write("labels", test_idx({9}, some_bytes(9)));
  const auto read = [&](const std::filesystem::path& file) {
    make_data({.kind = "idx", .options = {{"images", file.string()}, {"labels", labels.string()}}});
  };
  const std::string whole = test_idx({9, 4, 5}, some_bytes(180));
  EXPECT_GT(refused("images", whole, read), kFiles / 4);
  EXPECT_GT(refused("images.gz", gzipped(whole), read, kMostPacked), kFiles * 3 / 4);
}

TEST_F(Fuzz, NpyFiles) {
  const auto labels = scratch_.write("labels.npy", test_npy("|u1", "(9,)", some_bytes(9)));
  const auto read = [&](const std::filesystem::path& file) {
    make_data({.kind = "npy", .options = {{"inputs", file.string()}, {"labels", labels.string()}}});
  };
  EXPECT_GT(refused("inputs.npy", test_npy("<f4", "(9, 4, 5)", some_bytes(720)), read), kFiles / 4);
  EXPECT_GT(refused("pixels.npy", test_npy("|u1", "(9, 4, 5)", some_bytes(180), 2), read), kFiles / 3);
}

TEST_F(Fuzz, SafetensorsData) {
  const std::string whole = trace::to_safetensors(
      {{.name = "inputs", .dtype = trace::DType::kUInt8, .shape = {9, 4, 5}, .bytes = some_bytes(180)},
       {.name = "labels", .dtype = trace::DType::kUInt8, .shape = {9}, .bytes = some_bytes(9)}});
  const auto read = [](const std::filesystem::path& file) {
    const Json options = {{"path", file.string()}, {"inputs", "inputs"}, {"labels", "labels"}};
    make_data({.kind = "safetensors", .options = options});
  };
  EXPECT_GT(refused("data.safetensors", whole, read), kFiles / 4);
}

TEST_F(Fuzz, Images) {
  const auto folder = test::source_root() / "scenarios/data/formats";
  const auto read = [](const std::filesystem::path& file) { read_image(file); };
  EXPECT_GT(refused("image.png", read_file(folder / "exact/0/00.png"), read, kMostPixels), kFiles * 3 / 4);
  EXPECT_GT(refused("image.jpg", read_file(folder / "pictures/0/02.JPG"), read, kMostPixels), kFiles / 4);
}

}  // namespace
}  // namespace lockstep::train
