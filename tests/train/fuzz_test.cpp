#include <functional>
#include <random>

#include <ATen/ATen.h>
#include <c10/core/Allocator.h>
#include <c10/core/CPUAllocator.h>
#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>
#include <zlib.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/launch/progress.h"
#include "harness/train/checkpoint.h"
#include "harness/train/data.h"
#include "harness/train/torch_file.h"

#include "tests/support/support.h"

// Damaged files end in an error that names them: no crash, no hang, no memory out of proportion to the file.

namespace lockstep::train {
namespace {

constexpr int kFiles = 1000;       ///< of each kind
constexpr std::size_t kMost = 16;  ///< bytes allocated at once for each byte of a file

/// Watches the sizes that tensors are allocated with.
class WatchedAllocator : public c10::Allocator {
 public:
  WatchedAllocator() : usual_(c10::GetCPUAllocator()) { c10::SetCPUAllocator(this, /*priority=*/100); }
  ~WatchedAllocator() override { c10::SetCPUAllocator(usual_, /*priority=*/100); }

  c10::DataPtr allocate(std::size_t size) override {
    if (size > limit) throw std::length_error("an allocation of " + std::to_string(size) + " bytes");
    return usual_->allocate(size);
  }
  c10::DeleterFnPtr raw_deleter() const override { return usual_->raw_deleter(); }
  void copy_data(void* to, const void* from, std::size_t count) const override { default_copy_data(to, from, count); }

  std::size_t limit = static_cast<std::size_t>(-1);

 private:
  c10::Allocator* usual_;
};

/// One damage, as a disk, a network or an enemy would do it.
std::string damaged(std::string content, std::mt19937& random) {
  const auto below = [&](std::size_t end) {
    return static_cast<std::size_t>(random() % std::max<std::size_t>(end, 1));
  };
  switch (random() % 5) {
    case 0:  // truncated
      content = content.substr(0, below(content.size()));
      break;
    case 1:  // one bit
      content[below(content.size())] ^= static_cast<char>(1 << random() % 8);
      break;
    case 2:  // an absurd length, wherever one may stand
      for (std::size_t i = 0, at = below(content.size()); i < 8 && at + i < content.size(); ++i)
        content[at + i] = static_cast<char>(i < 7 ? 0xff : 0x7f);
      break;
    case 3:  // an absurd number, where a number stands in text
      if (const auto digit = content.find_first_of("0123456789", below(content.size())); digit != std::string::npos)
        content.replace(digit, 1, "99999999999999");
      break;
    default:  // a page of zeros
      for (std::size_t i = 0, at = below(content.size()); i < 512 && at + i < content.size(); ++i) content[at + i] = 0;
  }
  return content;
}

std::string gzipped(const std::string& text) {
  std::vector<char> packed(2 * text.size() + 1024);
  z_stream stream{};
  deflateInit2(&stream, 9, Z_DEFLATED, 16 + MAX_WBITS, 8, Z_DEFAULT_STRATEGY);
  stream.next_in = reinterpret_cast<Bytef*>(const_cast<char*>(text.data()));
  stream.avail_in = static_cast<uInt>(text.size());
  stream.next_out = reinterpret_cast<Bytef*>(packed.data());
  stream.avail_out = static_cast<uInt>(packed.size());
  deflate(&stream, Z_FINISH);
  deflateEnd(&stream);
  return std::string(packed.data(), stream.total_out);
}

class Fuzz : public ::testing::Test {
 protected:
  /// Damages `content` kFiles times and reads each; returns how many were refused.
  int refused(const std::string& name, const std::string& content,
              const std::function<void(const std::filesystem::path&)>& read) {
    std::mt19937 random(static_cast<unsigned>(std::hash<std::string>{}(name)));
    int count = 0;
    for (int i = 0; i < kFiles; ++i) {
      const std::string changed = damaged(content, random);
      const auto file = scratch_.write(name, changed);
      allocator_.limit = std::max<std::size_t>(kMost * changed.size(), 4096);
      try {
        read(file);
      } catch (const Error& error) {
        EXPECT_NE(std::string(error.what()).find(scratch_.path().string()), std::string::npos) << error.what();
        ++count;
      } catch (const std::exception& error) {
        ADD_FAILURE() << name << " " << i << ": no error of ours: " << error.what();
      }
      allocator_.limit = static_cast<std::size_t>(-1);
    }
    return count;
  }

  test::Scratch scratch_;
  WatchedAllocator allocator_;
};

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

TEST_F(Fuzz, TorchFiles) {
  const at::Tensor weight = at::arange(600, at::kFloat).view({20, 30}), bias = at::arange(20, at::kDouble);
  std::string pickle;
  for (const char* at = kPickle; *at != 0; at += 2)
    pickle += static_cast<char>(std::stoi(std::string(at, 2), nullptr, 16));
  const auto file = scratch_.path() / "whole.pt";
  caffe2::serialize::PyTorchStreamWriter writer(file.string());
  writer.writeRecord("data.pkl", pickle.data(), pickle.size());
  writer.writeRecord("data/0", weight.const_data_ptr(), weight.nbytes());
  writer.writeRecord("data/1", bias.const_data_ptr(), bias.nbytes());
  writer.writeEndOfFile();
  const std::vector<NamedTensor> read = read_torch_file(file);
  ASSERT_EQ(read.size(), 2U);
  EXPECT_TRUE(read[0].name == "fc.weight" && at::equal(read[0].tensor, weight));
  EXPECT_TRUE(read[1].name == "fc.bias" && at::equal(read[1].tensor, bias));
  EXPECT_GT(refused("state.pt", read_file(file), read_torch_file), kFiles / 3);
}

TEST_F(Fuzz, Safetensors) {
  const auto folder = scratch_.path() / "saved";
  launch::ProgressWriter progress(scratch_.path() / "rank0.progress");
  Collective alone({.rank = 0, .world_size = 1}, progress);
  const at::Tensor rng = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  save_checkpoint(folder, {.weights = {{"fc.weight", at::arange(600, at::kFloat).view({20, 30})}}, .rng = rng}, 0,
                  alone);
  const std::string whole = read_file(folder / "weights.safetensors");
  EXPECT_GT(refused("weights.safetensors", whole, read_weights), kFiles / 6);
}

TEST_F(Fuzz, CheckpointFolders) {
  const auto folder = scratch_.path() / "saved";
  launch::ProgressWriter progress(scratch_.path() / "rank0.progress");
  Collective alone({.rank = 0, .world_size = 1}, progress);
  const at::Tensor rng = at::Generator(at::detail::getDefaultCPUGenerator()).get_state();
  const Checkpoint checkpoint{.position = {.epoch = 0, .epoch_rng = rng},
                              .buckets = {{0}},
                              .weights = {{"fc.weight", at::arange(60, at::kFloat)}},
                              .rng = rng};
  save_checkpoint(folder, checkpoint, 0, alone);
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
    make_data({.kind = "digits", .options = {{"path", file.string()}, {"size", 40}}});
  };
  EXPECT_GT(refused("digits.csv.gz", gzipped(text), read), kFiles / 2);
}

TEST_F(Fuzz, Texts) {
  const std::string text = read_file(test::source_root() / "scenarios/data/sonnets.txt").substr(0, 600);
  for (const char* by : {"block", "line"}) {
    refused("sonnets.txt", text, [&](const auto& file) {
      make_data({.kind = "text", .options = {{"path", file.string()}, {"length", 16}, {"by", by}}});
    });
  }
}

}  // namespace
}  // namespace lockstep::train
