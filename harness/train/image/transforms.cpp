#include "harness/train/image/transforms.h"

#include <cmath>
#include <optional>

#include <ATen/ATen.h>

namespace lockstep::train {
namespace {

// Defaults of RandomResizedCrop.
constexpr double kLeastArea = 0.08, kMostArea = 1;
constexpr float kLeastRatio = 3.0F / 4.0F, kMostRatio = 4.0F / 3.0F;
constexpr int kTries = 10;

struct Box {
  std::int64_t top, left, height, width;
};

double draw(double from, double to, const at::Generator& generator) {
  return at::empty({1}).uniform_(from, to, generator).item<double>();
}

std::int64_t draw_below(std::int64_t end, const at::Generator& generator) {
  return at::randint(0, end, {1}, generator, at::TensorOptions(at::kLong)).item<std::int64_t>();
}

/// Python's round: a half goes to the even number, as the processor's usual rounding does.
std::int64_t to_whole(double value) { return static_cast<std::int64_t>(std::nearbyint(value)); }

/// The whole image, or as much of its middle as has an allowed ratio.
Box central_box(std::int64_t height, std::int64_t width) {
  // In Python the ratios are doubles here, though float32 where they are drawn.
  constexpr double least = 3.0 / 4.0, most = 4.0 / 3.0;
  const double ratio = static_cast<double>(width) / static_cast<double>(height);
  Box box{0, 0, height, width};
  if (ratio < least) box.height = to_whole(static_cast<double>(width) / least);
  if (ratio > most) box.width = to_whole(static_cast<double>(height) * most);
  box.top = (height - box.height) / 2;
  box.left = (width - box.width) / 2;
  return box;
}

/// *Source*: torchvision 0.26, transforms/transforms.py, RandomResizedCrop.get_params.
Box random_box(std::int64_t height, std::int64_t width, const at::Generator& generator) {
  const at::Tensor log_ratio = at::log(at::tensor({kLeastRatio, kMostRatio}));
  const auto least = log_ratio[0].item<double>(), most = log_ratio[1].item<double>();
  for (int i = 0; i < kTries; ++i) {
    const double area = static_cast<double>(height * width) * draw(kLeastArea, kMostArea, generator);
    const auto ratio = at::exp(at::empty({1}).uniform_(least, most, generator)).item<double>();
    const std::int64_t w = to_whole(std::sqrt(area * ratio)), h = to_whole(std::sqrt(area / ratio));
    if (w <= 0 || w > width || h <= 0 || h > height) continue;
    const std::int64_t top = draw_below(height - h + 1, generator);
    return {.top = top, .left = draw_below(width - w + 1, generator), .height = h, .width = w};
  }
  return central_box(height, width);
}

/// *Source*: torchvision 0.26, transforms/_functional_tensor.py, resize: uint8 goes through float32 and is rounded.
at::Tensor resized_bytes(const at::Tensor& image, std::int64_t size) {
  if (image.size(1) == size && image.size(2) == size) return image;
  const at::Tensor resized = at::_upsample_bilinear2d_aa(image.unsqueeze(0).to(at::kFloat), {size, size},
                                                         /*align_corners=*/false, std::nullopt, std::nullopt);
  return resized.squeeze(0).round().to(at::kByte);
}

at::Tensor to_float(const at::Tensor& image) { return image.to(at::kFloat) / 255; }

}  // namespace

at::Tensor resized(const at::Tensor& image, std::int64_t size) { return to_float(resized_bytes(image, size)); }

at::Tensor randomly_cropped(const at::Tensor& image, std::int64_t size, at::Generator generator) {
  const Box box = random_box(image.size(1), image.size(2), generator);
  at::Tensor result = resized_bytes(image.narrow(1, box.top, box.height).narrow(2, box.left, box.width), size);
  if (at::rand({1}, generator).item<double>() < 0.5) result = result.flip({-1});
  return to_float(result);
}

}  // namespace lockstep::train
