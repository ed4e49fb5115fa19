// Data in the file formats of the field, read by the field's own libraries and by the worker.

#include <gtest/gtest.h>

#include "tests/parity/twin.h"
#include "tests/support/support.h"

namespace lockstep::test {
namespace {

std::string format(const char* name) { return (source_root() / "scenarios/data/formats" / name).string(); }

/// `base_scenario`, with variants that differ in their data.
Json scenario_of(const std::string& name, const Json& data) {
  Json scenario = base_scenario(name);
  scenario["train"].erase("data");
  for (const auto& [variant, choice] : data.items()) scenario["variants"][variant]["train"]["data"] = choice;
  return scenario;
}

TEST(Parity, ArraysInFiles) {
  Json scenario = scenario_of(
      "arrays",
      {{"idx", {{"kind", "idx"}, {"images", format("images-idx3-ubyte.gz")}, {"labels", format("labels-idx1-ubyte")}}},
       {"gray", {{"kind", "npy"}, {"inputs", format("gray.npy")}, {"labels", format("labels.npy")}, {"size", 41}}},
       {"colors", {{"kind", "npy"}, {"inputs", format("inputs.npy")}, {"labels", format("labels.npy")}}},
       {"safetensors", {{"kind", "safetensors"}, {"path", format("digits.safetensors")}, {"classes", 12}}}});
  scenario["world_size"] = 2;
  expect_parity(scenario, kCore);
}

/// Arrays of other types and shapes than images have.
constexpr const char* kWritesArrays = R"(
import sys, numpy as np
random = np.random.default_rng(1)
folder = sys.argv[1] + "/"
np.save(folder + "float32.npy", random.standard_normal((60, 7), np.float32))
np.save(folder + "float64.npy", random.standard_normal((60, 2, 5, 4)))
np.save(folder + "float16.npy", random.standard_normal((60, 6, 5)).astype(np.float16))
np.save(folder + "labels.npy", random.integers(0, 5, 60).astype(np.int16))
tokens = random.integers(0, 30, (60, 9), np.int32)
np.save(folder + "tokens.npy", tokens[:, :-1])
with open(folder + "next.npy", "wb") as file:
    np.lib.format.write_array(file, np.ascontiguousarray(tokens[:, 1:].astype(np.int64)), version=(2, 0))
np.save(folder + "tokens.npy", np.ascontiguousarray(tokens[:, :-1]))
)";

TEST(Parity, ArraysThatPythonWrote) {
  const Scratch scratch;
  const Outcome written = run_program({parity_python(), "-c", kWritesArrays, scratch.path()}, 60);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const auto npy = [&](const char* inputs, const char* labels) {
    return Json{{"kind", "npy"}, {"inputs", scratch.path() / inputs}, {"labels", scratch.path() / labels}};
  };
  Json scenario = scenario_of("numpy", {{"float32", npy("float32.npy", "labels.npy")},
                                        {"float64", npy("float64.npy", "labels.npy")},
                                        {"float16", npy("float16.npy", "labels.npy")},
                                        {"tokens", npy("tokens.npy", "next.npy")}});
  scenario["train"]["model"] = {{"kind", "mlp"}};
  scenario["variants"]["tokens"]["train"]["model"] = {{"kind", "transformer"}};
  expect_parity(scenario, kCore);
}

Json pictures(const char* augment) {
  return {{"kind", "image_folder"}, {"path", format("pictures")}, {"size", 16}, {"augment", augment}, {"seed", 3}};
}

/// 30 pictures, so four epochs; dropout draws between the batches from the generator that augmentation draws from.
TEST(Parity, FoldersOfImages) {
  Json scenario =
      scenario_of("images", {{"none", pictures("none")}, {"rank", pictures("rank")}, {"sample", pictures("sample")}});
  scenario["matrix"] = {{"world_size", {1, 2}},
                        {"train.model", {{{"kind", "lenet"}}, {{"kind", "mlp"}, {"dropout", 0.2}}}}};
  scenario["train"].erase("model");
  scenario["train"]["batch"] = {{"global", 12}};
  scenario["train"]["seed"] = {{"base", 5}, {"policy", "add_rank"}};
  expect_parity(scenario, kCore);
}

/// Images in every encoding of the two formats, of odd extents; the smallest fills its square by the fallback's crop.
constexpr const char* kWritesImages = R"(
import os, sys, numpy as np
from PIL import Image
random = np.random.default_rng(3)
def pixels(width, height):
    x, y = np.meshgrid(np.arange(width), np.arange(height))
    waves = [128 + 100 * np.sin(x / (3 + c) + y / (5 - c)) for c in range(3)]
    return np.clip(np.stack(waves, -1) + random.normal(0, 9, (height, width, 3)), 0, 255).astype(np.uint8)
def save(image, name, **options):
    for copy in range(3):
        folder = os.path.join(sys.argv[1], str(copy))
        os.makedirs(folder, exist_ok=True)
        image.save(os.path.join(folder, name), **options)
rgb = Image.fromarray(pixels(37, 29))
for sampling in (0, 1, 2):
    save(rgb, f"sampled-{sampling}.jpg", quality=85, subsampling=sampling)
save(rgb, "progressive.jpeg", progressive=True, quality=60)
save(rgb, "restarts.JPG", quality=75, restart_marker_blocks=2)
save(rgb.convert("L"), "gray.jpg")
save(rgb.convert("CMYK"), "inks.jpg", quality=90)
save(rgb, "rgb.png")
save(Image.new("1", (600, 600), 1), "blank.png")
save(rgb.convert("L"), "gray.png")
save(rgb.convert("1"), "bilevel.png")
save(rgb.quantize(200), "palette.png")
save(rgb.quantize(11), "palette-4-bits.png", bits=4)
alpha = Image.fromarray(random.integers(0, 256, (29, 37), np.uint8))
with_alpha = rgb.copy()
with_alpha.putalpha(alpha)
save(with_alpha, "alpha.png")
gray_alpha = rgb.convert("L").copy()
gray_alpha.putalpha(alpha)
save(gray_alpha, "gray-alpha.png")
save(Image.fromarray(pixels(90, 5)), "wide.png")
save(Image.fromarray(pixels(3, 70)), "tall.jpg", quality=95)
save(Image.fromarray(pixels(1, 1)), "single.png")
exif = Image.Exif()
exif[0x0112] = 6
save(rgb, "turned.jpg", exif=exif)
)";

TEST(Parity, ImagesInEveryEncoding) {
  const Scratch scratch;
  const auto folder = scratch.path() / "images";
  const Outcome written = run_program({parity_python(), "-c", kWritesImages, folder}, 60);
  ASSERT_EQ(written.exit_code, 0) << written.err;
  const auto data = [&](const char* augment) {
    return Json{{"kind", "image_folder"}, {"path", folder}, {"size", 15}, {"augment", augment}};
  };
  Json scenario = scenario_of("encodings", {{"none", data("none")}, {"rank", data("rank")}});
  scenario["train"]["sampler"] = {{"kind", "distributed"}, {"shuffle", false}};
  scenario["train"]["batch"] = {{"global", 6}};
  expect_parity(scenario, kCore);
}

TEST(Parity, ImagesWithSamplersOfTheField) {
  Json scenario = base_scenario("sampled");
  scenario["train"].erase("data");
  scenario["world_size"] = 2;
  scenario["train"]["batch"] = {{"global", 12}, {"accumulation", 2}};
  for (const char* sampler : {"none", "contiguous", "stream", "accelerate", "dispatch"}) {
    for (const char* augment : {"rank", "sample"}) {
      const bool ahead = std::string(sampler) == "accelerate" || std::string(sampler) == "dispatch";
      if (ahead && std::string(augment) == "rank") continue;  // refused
      scenario["variants"][std::string(sampler) + "-" + augment]["train"] = {{"data", pictures(augment)},
                                                                             {"sampler", {{"kind", sampler}}}};
    }
  }
  expect_parity(scenario, kCore);
}

}  // namespace
}  // namespace lockstep::test
