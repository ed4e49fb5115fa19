#pragma once

#include <cstdint>

#include <ATen/core/Generator.h>
#include <ATen/core/Tensor.h>

namespace lockstep::train {

/// Transforms of torchvision 0.26, bit for bit. *Shape*: [3, height, width] uint8 → [3, size, size] float32 in [0, 1].

/// Resize((size, size)), bilinear with antialiasing.
at::Tensor resized(const at::Tensor& image, std::int64_t size);

/// RandomResizedCrop(size), then RandomHorizontalFlip(), drawn from `generator`.
at::Tensor randomly_cropped(const at::Tensor& image, std::int64_t size, at::Generator generator);

}  // namespace lockstep::train
