#include "harness/train/device/device.h"

#include <cstring>

#include <ATen/ATen.h>
#include <ATen/CPUGeneratorImpl.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/scenario/schema.h"
#include "harness/train/device/generator.h"
#include "harness/train/device/tensors.h"
#include "harness/train/loop/autocast.h"

namespace lockstep::train {
namespace {

TEST(Device, TheCpuIsAlwaysThere) {
  const std::unique_ptr<Device> cpu = make_device("cpu", {.local_rank = 3});
  EXPECT_EQ(cpu->place(), at::Device(at::kCPU));
  EXPECT_FALSE(cpu->generator()) << "its generator would be recorded twice";
  EXPECT_EQ(cpu->manifest(), Json::object()) << "headers of goldens hold no more";
}

TEST(Device, ABuildWithoutCudaRefusesItByName) {
  try {
    make_device("cuda", {});
    FAIL() << "this build has no CUDA";
  } catch (const Unsupported& error) {
    const Problem& problem = error.problem();
    EXPECT_NE(problem.what.find("built without CUDA"), std::string::npos) << problem.what;
    EXPECT_EQ(problem.where, "train.device");
    EXPECT_FALSE(problem.expected.empty() || problem.actual.empty()) << error.what();
    EXPECT_NE(problem.next.find("ci/cuda"), std::string::npos) << problem.next;
  }
  EXPECT_THROW(make_nccl_backend({}), Unsupported);
}

TEST(Device, EveryNameOfTheSchemaIsListed) {
  Json names = Json::array();
  for (const Json& device : devices_here()) {
    names.push_back(device.at("name"));
    EXPECT_EQ(device.at("usable"), device.at("name") == "cpu") << device;
    EXPECT_NE(device.at("says"), "") << device;
  }
  EXPECT_EQ(names, scenario::schema().at("/definitions/train/properties/device/enum"_json_pointer));
}

/// As a GPU: with a generator of its own.
class DeviceWithGenerator : public Device {
 public:
  at::Device place() const override { return at::kCPU; }
  std::string description() const override { return "a device of a test"; }
  std::optional<at::Generator> generator() const override { return generator_; }
  std::vector<Backend> join(const Member& member) const override { return {make_gloo_backend(member)}; }

 private:
  at::Generator generator_ = at::detail::createCPUGenerator(1);
};

TEST(Device, ItsGeneratorIsRestoredBesideTheCpus) {
  const DeviceWithGenerator device;
  const at::Tensor drawn_first = device.generator()->get_state(), cpu = rng_state();
  at::rand({3}, *device.generator());
  at::rand({3});
  restore_generators(device, {.cpu = cpu, .device = drawn_first});
  EXPECT_TRUE(device.generator()->get_state().equal(drawn_first));
  EXPECT_TRUE(rng_state().equal(cpu));
}

TEST(Device, GeneratorsOfAnotherDeviceAreRefused) {
  const at::Tensor state = rng_state();
  EXPECT_THROW(restore_generators(DeviceWithGenerator(), {.cpu = state}), InputError);
  EXPECT_THROW(restore_generators(*make_device("cpu", {}), {.cpu = state, .device = state}), InputError);
  EXPECT_NO_THROW(restore_generators(*make_device("cpu", {}), {.cpu = state}));
}

TEST(Device, AutocastIsOfOneDevice) {
  {
    const Autocast autocast(recipe::Autocast::kBf16, at::kCPU);
    EXPECT_TRUE(at::autocast::is_autocast_enabled(at::kCPU));
    EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCUDA));
  }
  EXPECT_FALSE(at::autocast::is_autocast_enabled(at::kCPU));
}

TEST(Tensors, AViewKeepsWhatItShows) {
  const HostView view = view_of(at::arange(4, at::kLong).view({2, 2}));  // nobody else holds it
  std::int64_t shown[4];
  std::memcpy(shown, view.data, sizeof(shown));
  EXPECT_EQ(std::vector<std::int64_t>(shown, shown + 4), (std::vector<std::int64_t>{0, 1, 2, 3}));
  EXPECT_EQ(std::vector<std::int64_t>(view.shape.begin(), view.shape.end()), (std::vector<std::int64_t>{2, 2}));
}

}  // namespace
}  // namespace lockstep::train
