#include "harness/train/device/determinism.h"

#include <limits>

#include <ATen/ATen.h>
#include <ATen/Parallel.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep::train {
namespace {

recipe::DeterminismSpec spec(const std::string& cpu) {
  return {.algorithms = recipe::Algorithms::kDeterministic, .cpu = cpu};
}

// CTest starts every test in a process of its own; LibTorch chooses its kernels once for each.

TEST(Determinism, PortableProfilesTakeEffect) {
  apply_determinism(spec("portable-v1"));
  EXPECT_EQ(at::get_cpu_capability(), "DEFAULT");
  EXPECT_EQ(at::get_num_threads(), 1);
  const Json manifest = environment_manifest();
  EXPECT_EQ(manifest.at("/variables/MKL_CBWR"_json_pointer), "COMPATIBLE");
  EXPECT_EQ(manifest.at("mkldnn"), false);
  EXPECT_EQ(manifest.at("deterministic_algorithms"), true);
}

TEST(Determinism, TheManifestTellsEverySwitch) {
  apply_determinism(spec("portable"));
  const Json strict = environment_manifest();
  EXPECT_EQ(strict.at("deterministic_algorithms_warn_only"), false);
  EXPECT_EQ(strict.at("fill_uninitialized_memory"), true);
  EXPECT_EQ(strict.at("cudnn_deterministic"), true);
  EXPECT_EQ(strict.at("cudnn_benchmark"), false);
  EXPECT_EQ(strict.at("tf32_cublas"), false);
  EXPECT_EQ(strict.at("tf32_cudnn"), false);
  apply_determinism({.algorithms = recipe::Algorithms::kDefault, .tf32 = true, .cpu = "portable"});
  const Json loose = environment_manifest();
  EXPECT_EQ(loose.at("fill_uninitialized_memory"), false);
  EXPECT_EQ(loose.at("tf32_cublas"), true);
  EXPECT_EQ(loose.at("tf32_cudnn"), true);
}

TEST(Determinism, DenormalsAreFlushedOnDemand) {
  const auto halved = [] {
    return (at::full({64}, std::numeric_limits<float>::min()) * 0.5).count_nonzero().item<std::int64_t>();
  };
  apply_determinism(spec("portable"));
  EXPECT_EQ(environment_manifest().at("flush_denormal"), false);
  EXPECT_EQ(halved(), 64);
  recipe::DeterminismSpec flushed = spec("portable");
  flushed.flush_denormal = true;
  apply_determinism(flushed);
  EXPECT_EQ(environment_manifest().at("flush_denormal"), true);
  EXPECT_EQ(halved(), 0);
}

TEST(Determinism, AProfileThatComesTooLateIsRefused) {
  unsetenv("ATEN_CPU_CAPABILITY");
  if (std::string(at::get_cpu_capability()) == "DEFAULT") GTEST_SKIP() << "this processor knows nothing but DEFAULT";
  try {
    apply_determinism(spec("portable-v1"));
    FAIL() << "accepted, although the kernels were chosen already";
  } catch (const InputError& error) {
    EXPECT_NE(std::string(error.what()).find("too late"), std::string::npos) << error.what();
    EXPECT_EQ(error.problem().expected, "DEFAULT");
  }
}

}  // namespace
}  // namespace lockstep::train
