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
