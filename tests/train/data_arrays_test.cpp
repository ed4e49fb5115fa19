// Samples from IDX, .npy and safetensors files, and what is wrong with such files.

#include <cstring>
#include <string>
#include <vector>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/trace/safetensors.h"
#include "harness/train/data/data.h"

#include "tests/support/support.h"
#include "tests/train/arrays.h"
#include "tests/train/fuzz.h"
#include "tests/train/refused.h"

namespace lockstep::train {
namespace {

class DataFiles : public ::testing::Test {
 protected:
  Dataset idx(const std::string& images, const std::string& labels, Json options = Json::object()) {
    options.update({{"images", scratch_.write("images", images)}, {"labels", scratch_.write("labels", labels)}});
    return make_data({.kind = recipe::DataKind::kIdx, .options = options});
  }

  Dataset npy(const std::string& inputs, const std::string& labels, Json options = Json::object()) {
    options.update(
        {{"inputs", scratch_.write("inputs.npy", inputs)}, {"labels", scratch_.write("labels.npy", labels)}});
    return make_data({.kind = recipe::DataKind::kNpy, .options = options});
  }

  test::Scratch scratch_;
};

const std::string kImages = test_idx({3, 2, 2}, std::string("\x00\x01\x02\x03\x04\x05\x06\x07\x08\x09\x0a\xff", 12));
const std::string kLabels = test_idx({3}, std::string("\x02\x00\x01", 3));

TEST_F(DataFiles, IdxImagesAreDividedBy255) {
  for (const std::string& images :
       {kImages, gzipped(kImages), gzipped(kImages.substr(0, 9)) + gzipped(kImages.substr(9))}) {
    const Dataset data = idx(images, kLabels);
    EXPECT_EQ(data.inputs.sizes(), at::IntArrayRef({3, 1, 2, 2}));
    EXPECT_EQ(data.inputs[2][0][1][1].item<float>(), 1);
    EXPECT_EQ(data.inputs[0][0][0][1].item<float>(), 1.0F / 255.0F);
    EXPECT_TRUE(at::equal(data.labels, at::tensor({2, 0, 1}, at::kLong)));
    EXPECT_EQ(data.classes, 3);
  }
  EXPECT_EQ(idx(kImages, kLabels, {{"size", 2}}).size(), 2);
  EXPECT_EQ(idx(kImages, kLabels, {{"classes", 7}}).classes, 7);
}

TEST_F(DataFiles, IdxDamageIsNamedWithItsByte) {
  const auto images = [&](const std::string& content) { return [=, this] { idx(content, kLabels); }; };
  const auto changed = [](std::size_t at, char value) {
    std::string content = kImages;
    content[at] = value;
    return content;
  };
  expect_refused(images(changed(0, 'x')), {"magic number", "images, byte 0"});
  expect_refused(images(changed(2, 0x0d)), {"unsupported type", "images, byte 2", "13"});
  expect_refused(images(changed(3, 2)), {"number of dimensions", "images, byte 3"});
  expect_refused(images(changed(7, 0)), {"empty", "images, byte 4"});
  expect_refused(images(kImages.substr(0, 1)), {"ends within the magic number", "byte 1"});
  expect_refused(images(kImages.substr(0, 9)), {"ends within its dimensions", "byte 9"});
  expect_refused(images(kImages.substr(0, 20)), {"ends within its elements", "byte 20", "12 bytes", "4 bytes"});
  expect_refused(images(kImages + "x"), {"bytes follow", "byte 28"});
  std::string absurd = kImages;
  for (std::size_t i = 4; i < 16; ++i) absurd[i] = '\xff';
  expect_refused(images(absurd), {"too large", "byte 8"});
  const std::string packed = gzipped(kImages);
  expect_refused(images(packed.substr(0, packed.size() - 3)), {"gzip ends early", "images, byte"});
  expect_refused([&] { idx(kImages, test_idx({2}, "ab")); },
                 {"numbers of inputs and labels differ", "labels", "images"});
  expect_refused([&] { idx(kImages, kLabels, {{"classes", 2}}); }, {"element 0 is not a class", "labels"});
  expect_refused([&] { idx(kImages, kLabels, {{"size", 4}}); }, {"train.data.size", "at most 3", "images"});
}

TEST_F(DataFiles, NpyInputsBecomeWhatModelsTake) {
  const std::string labels = test_npy("<i8", "(2,)", bytes_of<std::int64_t>({1, 0}));
  const Dataset rows = npy(test_npy("<f8", "(2, 3)", bytes_of<double>({0, 1, 2, 3, 4, 5.5})), labels);
  EXPECT_EQ(rows.inputs.sizes(), at::IntArrayRef({2, 1, 1, 3}));
  EXPECT_EQ(rows.inputs[1][0][0][2].item<float>(), 5.5F);
  const Dataset bytes = npy(test_npy("|u1", "(2, 1, 1, 1)", std::string("\xff\x33", 2)), labels);
  EXPECT_TRUE(at::equal(bytes.inputs.flatten(), at::tensor({1.0F, 51.0F / 255.0F})));
  for (const int version : {1, 2, 3}) {
    const Dataset tokens = npy(test_npy("<i4", "(2, 2)", bytes_of<std::int32_t>({0, 4, 1, 2}), version),
                               test_npy("<i8", "(2, 2)", bytes_of<std::int64_t>({4, kNoLabel, 2, 3})));
    EXPECT_TRUE(tokens.tokens());
    EXPECT_EQ(tokens.classes, 5);
    EXPECT_FALSE(tokens.targets_per_sample());
  }
}

TEST_F(DataFiles, NpyDamageIsNamedWithItsByte) {
  const std::string labels = test_npy("<i8", "(2,)", bytes_of<std::int64_t>({1, 0}));
  const auto inputs = [&](const std::string& content) { return [=, this] { npy(content, labels); }; };
  const auto of = [&](const std::string& dtype, const std::string& shape) {
    return inputs(test_npy(dtype, shape, "12345678"));
  };
  const std::string good = test_npy("<f4", "(2, 1)", "12345678");
  EXPECT_NO_THROW(inputs(good)());
  expect_refused(inputs("x" + good), {"magic number", "inputs.npy, byte 0"});
  expect_refused(inputs(good.substr(0, 9)), {"ends within the header", "byte 9"});
  expect_refused(inputs(good.substr(0, 40)), {"longer than the file", "byte 8"});
  std::string newer = good;
  newer[6] = 4;
  expect_refused(inputs(newer), {"version", "byte 6", "4.0"});
  expect_refused(inputs(good.substr(0, good.size() - 1)),
                 {"ends within its elements", "byte 128", "8 bytes", "7 bytes"});
  expect_refused(inputs(good + "x"), {"bytes follow", "byte 128"});
  expect_refused(of("|O", "(2, 1)"), {"Python objects", "byte 20"});
  expect_refused(of(">f4", "(2, 1)"), {"unsupported type", "'>f4'", "byte 20"});
  expect_refused(of("<f4", "(2, -1)"), {"impossible extent", "byte"});
  expect_refused(of("<f4", "(4294967296, 4294967296)"), {"ends within its elements"});
  expect_refused(of("<f4", "(2, 1, 1, 1, 1)"), {"do not have the shape of samples", "float32[2,1,1,1,1]"});
  expect_refused(inputs(test_npy("<f4", "(0, 2)", "")), {"do not have the shape of samples", "float32[0,2]"});
  expect_refused(of("<i4", "(2,)"), {"do not have the shape of samples"});
  expect_refused(of("<i2", "(2, 2)"), {"neither pixels", "int16[2,2]"});
  expect_refused(of("<i4", "(2, 1)"), {"labels do not fit such samples", "labels.npy"});
  std::string fortran = good;
  fortran.replace(fortran.find("False"), 5, "True ");
  expect_refused(inputs(fortran), {"Fortran order", "byte"});
  std::string missing = good;
  missing.replace(missing.find("'shape'"), 7, "'shaqe'");
  expect_refused(inputs(missing), {"unknown key", "'shaqe'"});
  const auto with_labels = [&](std::int64_t label) {
    return [=, this] { npy(good, test_npy("<i8", "(2,)", bytes_of<std::int64_t>({1, label}))); };
  };
  for (const std::int64_t label : {std::int64_t{-1}, std::int64_t{1} << 40, kNoLabel})
    expect_refused(with_labels(label), {"element 1 is not a class", "labels.npy", std::to_string(label)});
  // One flipped bit of a label would make a network of as many classes.
  expect_refused(with_labels(65543), {"element 1 is too large a label", "labels.npy", "less than 1000", "65543"});
  EXPECT_EQ(npy(good, test_npy("<i8", "(2,)", bytes_of<std::int64_t>({1, 65543})), {{"classes", 70000}}).classes,
            70000);
  expect_refused([&] { npy(good, test_npy("<f4", "(2,)", "12345678")); },
                 {"labels do not fit such samples", "float32[2]"});
}

TEST_F(DataFiles, SafetensorsAreTakenByName) {
  const std::string whole = trace::to_safetensors(
      {{.name = "x", .dtype = trace::DType::kUInt8, .shape = {2, 2, 2}, .bytes = "abcdefgh"},
       {.name = "y", .dtype = trace::DType::kInt64, .shape = {2}, .bytes = bytes_of<std::int64_t>({0, 1})}});
  const auto read = [&](const std::string& content, const char* inputs) {
    const Json options = {{"path", scratch_.write("data.safetensors", content)}, {"inputs", inputs}, {"labels", "y"}};
    return make_data({.kind = recipe::DataKind::kSafetensors, .options = options});
  };
  EXPECT_EQ(read(whole, "x").inputs.sizes(), at::IntArrayRef({2, 1, 2, 2}));
  expect_refused([&] { read(whole, "z"); }, {"no tensor of this name", "data.safetensors", "x, y", "'z'"});
  expect_refused([&] { read(whole.substr(0, whole.size() - 1), "x"); }, {"damaged safetensors", "data.safetensors"});
  expect_refused([&] { read(whole, "y"); }, {"data.safetensors, tensor 'y'"});
}

}  // namespace
}  // namespace lockstep::train
