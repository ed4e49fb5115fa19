#include <algorithm>
#include <filesystem>
#include <string>
#include <string_view>
#include <tuple>
#include <utility>
#include <vector>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/data/data.h"
#include "harness/train/device/split_mix.h"
#include "harness/train/image/decode.h"
#include "harness/train/image/transforms.h"

namespace lockstep::train {
namespace {

namespace fs = std::filesystem;

/// What torchvision takes for an image. Only the first three are read here.
constexpr std::string_view kExtensions[] = {".jpg", ".jpeg", ".png", ".ppm", ".bmp", ".pgm", ".tif", ".tiff", ".webp"};
constexpr std::size_t kRead = 3;

/// Index of a name's extension; of no image, as many as there are.
std::size_t extension_of(std::string name) {
  std::transform(name.begin(), name.end(), name.begin(), [](unsigned char c) { return std::tolower(c); });
  std::size_t i = 0;
  while (i < std::size(kExtensions) && !name.ends_with(kExtensions[i])) ++i;
  return i;
}

std::vector<std::string> classes_in(const fs::path& folder) {
  std::error_code error;
  std::vector<std::string> names;
  for (fs::directory_iterator at(folder, error), end; !error && at != end; at.increment(error)) {
    if (at->is_directory()) names.push_back(at->path().filename().string());
  }
  if (error || names.empty()) {
    throw InputError({.what = "no folder of images",
                      .where = folder.string(),
                      .expected = "a folder with a folder for each class",
                      .actual = error ? error.message() : "no folder in it"});
  }
  std::sort(names.begin(), names.end());
  return names;
}

/// Images of one class, in the order of torchvision: folder by folder, then by name.
std::vector<fs::path> images_in(const fs::path& folder) {
  std::vector<fs::path> images;
  for (const std::string& name : files_below(folder)) {
    const std::size_t extension = extension_of(name);
    if (extension == std::size(kExtensions)) continue;
    if (extension >= kRead) {
      throw InputError({.what = "the format of an image is not supported",
                        .where = (folder / name).string(),
                        .expected = ".jpg, .jpeg or .png",
                        .actual = std::string(kExtensions[extension])});
    }
    if (!fs::is_regular_file(folder / name)) {
      throw InputError({.what = "an image is not a readable file",
                        .where = (folder / name).string(),
                        .expected = "a file, or a link to one",
                        .actual = fs::exists(folder / name) ? "something else" : "a link to nothing"});
    }
    images.emplace_back(name);
  }
  if (images.empty()) {
    throw InputError({.what = "a class has no images",
                      .where = folder.string(),
                      .expected = "files that end in .jpg, .jpeg or .png"});
  }
  std::sort(images.begin(), images.end(), [](const fs::path& a, const fs::path& b) {
    return std::pair(a.parent_path().string(), a.filename().string()) <
           std::pair(b.parent_path().string(), b.filename().string());
  });
  for (fs::path& image : images) image = folder / image;
  return images;
}

/// The generator of one sample in one epoch.
at::Generator generator_of(std::uint64_t seed, std::int64_t epoch, std::int64_t id) {
  const std::uint64_t mixed = split_mix(split_mix(seed) + static_cast<std::uint64_t>(epoch));
  return at::detail::createCPUGenerator(split_mix(mixed + static_cast<std::uint64_t>(id)));
}

}  // namespace

/// *Source*: torchvision 0.26, datasets/folder.py (ImageFolder).
Dataset make_image_folder_data(const Json& options) {
  const fs::path folder = options.at("path").get<std::string>();
  const auto size = options.at("size").get<std::int64_t>();
  using recipe::Augmentation;
  const auto augment = recipe::kind_at<Augmentation>(options, "augment");
  const auto seed = options.at("seed").get<std::uint64_t>();
  std::vector<at::Tensor> images;
  std::vector<std::int64_t> labels;
  const std::vector<std::string> classes = classes_in(folder);
  for (std::size_t label = 0; label < classes.size(); ++label) {
    for (const fs::path& file : images_in(folder / classes[label])) {
      const at::Tensor image = read_image(file);
      images.push_back(augment == Augmentation::kNone ? resized(image, size) : image);
      labels.push_back(static_cast<std::int64_t>(label));
    }
  }
  Dataset data{.labels = at::tensor(labels, at::kLong), .classes = std::max<std::int64_t>(std::ssize(classes), 2)};
  if (augment == Augmentation::kNone) {
    data.inputs = at::stack(images);
  } else {
    data.augmented = {.shape = {3, size, size}, .input = [=](std::int64_t id, std::int64_t epoch) {
                        const at::Generator generator = augment == Augmentation::kSample
                                                            ? generator_of(seed, epoch, id)
                                                            : at::detail::getDefaultCPUGenerator();
                        return randomly_cropped(images[static_cast<std::size_t>(id)], size, generator);
                      }};
  }
  return data;
}

}  // namespace lockstep::train
