#include "tests/train/fuzz.h"

#include <random>

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/launch/progress.h"
#include "harness/train/data/data.h"
#include "harness/train/files/torch_file.h"
#include "harness/train/loop/checkpoint.h"

#include "tests/support/support.h"
#include "tests/train/torch_archive.h"

namespace lockstep::train {
namespace {

// import io, torch, zipfile
// file = io.BytesIO()
// torch.save({"fc.weight": torch.arange(600.0).view(20, 30), "fc.bias": torch.arange(20, dtype=torch.float64)}, file)
// print(zipfile.ZipFile(file).read("archive/data.pkl").hex())
constexpr const char* kPickle =
    "80027d710028580900000066632e776569676874710163746f7263682e5f7574696c730a5f72656275696c645f74656e736f725f"
    "76320a71022828580700000073746f72616765710363746f7263680a466c6f617453746f726167650a7104580100000030710558"
    "0300000063707571064d5802747107514b004b144b1e8671084b1e4b018671098963636f6c6c656374696f6e730a4f7264657265"
    "64446963740a710a2952710b74710c52710d580700000066632e62696173710e68022828680363746f7263680a446f75626c6553"
    "746f726167650a710f580100000031711068064b14747111514b004b148571124b0185711389680a29527114747115527116752e";

void read_torch(const std::filesystem::path& file) { read_torch_file(file); }
void read_any(const std::filesystem::path& file) { read_weights(file); }

TEST_F(Fuzz, TorchFiles) {
  const at::Tensor weight = at::arange(600, at::kFloat).view({20, 30}), bias = at::arange(20, at::kDouble);
  std::string pickle;
  for (const char* at = kPickle; *at != 0; at += 2)
    pickle += static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16));
  const auto content = [](const at::Tensor& tensor) {
    return std::string(static_cast<const char*>(tensor.const_data_ptr()), tensor.nbytes());
  };
  const auto file =
      write_torch_file(scratch_.path() / "whole.pt", pickle, {{"data/0", content(weight)}, {"data/1", content(bias)}});
  const std::vector<NamedTensor> read = read_torch_file(file);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_TRUE(read[0].name == "fc.weight" && at::equal(read[0].tensor, weight));
  EXPECT_TRUE(read[1].name == "fc.bias" && at::equal(read[1].tensor, bias));
  EXPECT_GT(refused("state.pt", read_file(file), read_torch), kFiles / 3);
}

/// Small files that ask for much memory.
TEST_F(Fuzz, TorchFilesThatBlowUp) {
  constexpr std::size_t kMany = 60000;
  const std::string zero("K\0", 2), put("q\0", 2), get("h\0", 2), long_name(200000, 'n'),
      text = pickled_text(long_name);
  const std::string none = tensor_of(zero + "\x85", "K\1\x85") + "q\3";
  const std::string deep = tensor_of("(" + repeated(kMany, zero) + "t" + put, get);
  std::string puts = "]";
  for (std::uint32_t i = 0; i < kMany; ++i) puts += "r" + little_endian(i);
  const std::pair<const char*, std::string> pickles[] = {
      {"a string", "(" + text + put + repeated(2000, get) + "t"},
      {"a type", "(ctorch\n" + long_name + "Storage\n" + put + repeated(2000, get) + "t"},
      {"names in each other", "}" + text + put + repeated(29, "}" + get) + none + repeated(30, "s")},
      {"a name of many tensors", "}(" + text + put + none + repeated(1000, get + "h\3") + "u"},
      {"names of many tensors",
       "}(" + pickled_text(std::string(4000, 'n')) + put + none + repeated(3000, get + "h\3") + "u"},
      {"dimensions", "(" + deep + repeated(200, "h\1h\2R") + "t"},
      {"tensors", "(" + none + repeated(kMany, "h\3") + "t"},
      {"marks", repeated(10 * kMany, "(")},
      {"lists", "(" + repeated(kMany, "]") + "t"},
      {"dicts", "(" + repeated(kMany, "}") + "t"},
      {"numbers", "(" + repeated(kMany, "N") + "t"},
      {"numbers one by one", "]" + repeated(kMany, "Na")},
      {"memo", puts}};
  for (const auto& [what, pickle] : pickles) {
    SCOPED_TRACE(what);
    const auto file = scratch_.path() / "blow-up.pt";
    refuses(write_torch_file(file, kFourValues + pickle + ".", {{"data/0", ""}}), read_torch);
  }
}

/// The archive's list says that a record is packed, and 2 GB large.
TEST_F(Fuzz, TorchFilesWhoseRecordsClaimTooMuch) {
  const auto file = scratch_.path() / "claims.pt";
  write_torch_file(file, kFourValues + "}.", {{"data/0", "abcd"}});
  const std::string whole = read_file(file);
  int records = 0;
  for (std::size_t at = whole.find("PK\1\2"); at != std::string::npos; at = whole.find("PK\1\2", at + 46)) {
    ++records;
    for (const bool packed : {true, false}) {
      std::string claims = whole;
      if (packed) claims[at + 10] = 8;
      claims.replace(at + 24, 4, "\xf0\xff\xff\x7f");
      replace_file(file, claims);
      EXPECT_TRUE(refuses(file, read_torch)) << whole.substr(at + 46, 30);
    }
  }
  EXPECT_GE(records, 4);
}

TEST_F(Fuzz, Safetensors) {
  const auto folder = scratch_.path() / "saved";
  launch::ProgressWriter progress(scratch_.path() / "rank0.progress");
  Collective alone({.rank = 0, .world_size = 1}, progress, *make_device("cpu", {}), make_reduction("ring"));
  const at::Tensor rng = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  save_checkpoint(folder, {.weights = {{"fc.weight", at::arange(600, at::kFloat).view({20, 30})}}, .rng = rng}, 0,
                  alone);
  const std::string whole = read_file(folder / "weights.safetensors");
  EXPECT_GT(refused("weights.safetensors", whole, read_any), kFiles / 6);
}

/// Small values that would each take far more memory than text.
TEST_F(Fuzz, HeadersThatBlowUp) {
  const auto header = [](const std::string& text) {
    std::string length(8, '\0');
    for (std::size_t i = 0; i < 8; ++i) length[i] = static_cast<char>(text.size() >> (8 * i) & 0xff);
    return length + text;
  };
  const auto many = [](const std::string& one) {
    std::string text;
    for (int i = 0; i < 500'000; ++i) text += one;
    return text;
  };
  for (const std::string& text : {R"({"a":[)" + many("{},") + "0]}", R"({"a":[)" + many("[],") + "0]}",
                                  R"({"a":{"dtype":"F32","shape":[)" + many("0,") + R"(0],"data_offsets":[0,0]}})",
                                  R"({"a":{"dtype":"F32","shape":[0],"data_offsets":[)" + many("0,") + "0]}}"})
    EXPECT_TRUE(refuses(scratch_.write("a.safetensors", header(text)), read_any));
}

TEST_F(Fuzz, CheckpointFolders) {
  const auto folder = scratch_.path() / "saved";
  launch::ProgressWriter progress(scratch_.path() / "rank0.progress");
  Collective alone({.rank = 0, .world_size = 1}, progress, *make_device("cpu", {}), make_reduction("ring"));
  const at::Tensor rng = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  const Checkpoint checkpoint{
      .rates = {.steps = 0, .rates = {{.initial = 0.1, .current = 0.1}}, .schedule = Json::object()},
      .position = {.epoch = 0, .epoch_rng = rng},
      .buckets = {{0}},
      .weights = {{"fc.weight", at::arange(60, at::kFloat)}},
      .recipe = {.kind = recipe::OptimizerKind::kSgd, .options = {{"lr", 0.1}}},
      .rng = rng};
  save_checkpoint(folder, checkpoint, 0, alone);
  EXPECT_NO_THROW(load_checkpoint(folder, 0, 1, true));
  const std::string whole = read_file(folder / "state.json");
  // Every change of what is sealed is seen; spaces between the words are not.
  EXPECT_GT(
      refused("saved/state.json", whole, [&](const auto& file) { load_checkpoint(file.parent_path(), 0, 1, true); }),
      kFiles * 3 / 4);
}

TEST_F(Fuzz, Digits) {
  std::mt19937 random(3);
  std::string text;
  for (int line = 0; line < 40; ++line) {
    for (int pixel = 0; pixel < 64; ++pixel) text += std::to_string(random() % 17) + ",";
    text += std::to_string(line % 10) + "\n";
  }
  const auto read = [](const std::filesystem::path& file) {
    make_data({.kind = recipe::DataKind::kDigits, .options = {{"path", file.string()}, {"size", 40}}});
  };
  EXPECT_GT(refused("digits.csv.gz", gzipped(text), read), kFiles / 2);
}

TEST_F(Fuzz, Texts) {
  const std::string text = read_file(test::source_root() / "scenarios/data/sonnets.txt").substr(0, 600);
  for (const char* by : {"block", "line"}) {
    refused("sonnets.txt", text, [&](const auto& file) {
      make_data({.kind = recipe::DataKind::kText, .options = {{"path", file.string()}, {"length", 16}, {"by", by}}});
    });
  }
}

}  // namespace
}  // namespace lockstep::train
