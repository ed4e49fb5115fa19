#include "harness/train/files/file_kind.h"

#include <fstream>

#include <caffe2/serialize/inline_container.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/loop/checkpoint.h"

#include "tests/support/support.h"
#include "tests/train/refused.h"
#include "tests/train/torch_archive.h"

// Files that programs wrote are read in tests/programs; here: what tells their kind.

namespace lockstep::train {
namespace {

using namespace std::string_literals;

/// A ZIP archive of these records, as LibTorch writes one.
std::filesystem::path write_archive(const std::filesystem::path& file, const std::vector<std::string>& records) {
  caffe2::serialize::PyTorchStreamWriter writer(file.string());
  for (const std::string& name : records) writer.writeRecord(name, "content", 7);
  writer.writeEndOfFile();
  return file;
}

TEST(FileKind, BytesAtTheBeginningTell) {
  const test::Scratch scratch;
  const std::pair<std::string, const char*> files[] = {
      {"version https://git-lfs.github.com/spec/v1\noid sha256:abc\nsize 12345\n", "a pointer of Git LFS"},
      {"<!DOCTYPE html><html><body>404 Not Found</body></html>", "a web page"},
      {"\n  <html>\n<head>", "a web page"},
      {"<?xml version=\"1.0\"?><error/>", "in XML"},
      {R"({"metadata": {"total_size": 1}, "weight_map": {"a": "part-1.safetensors"}})", "an index of weights"},
      {R"({"lr": 0.1})", "in JSON"},
      {"Entry not found", "a text"},
      {"gr\xc3\xbc\xc3\x9f dich\n", "a text"},
      {"\x80\x04\x95\x10\0\0\0\0\0\0\0}\x94."s, "a pickle"},
      {"\x80\x02}q\0."s, "a pickle"},
      {"GGUF\3\0\0\0"s, "a GGUF file"},
      {"\x89HDF\r\n\x1a\n\0\0\0\0"s, "an HDF5 file"},
      {"\x93NUMPY\1\0v\0"s, "an array of NumPy"},
      {"\x1f\x8b\x08\0\0\0\0\0\0\3"s, "a gzip file"},
      {std::string(257, 'a') + "ustar\0"s, "a tar archive"},
      {"\x08\x07\x12\x07pytorch\x1a\x05\x32\x2e\x31\0\0"s, "an unknown kind"}};
  for (const auto& [content, kind] : files) {
    for (const char* name : {"a.pt", "a.safetensors", "a.bin"}) {
      if (std::string(name) == "a.safetensors" && std::string(kind) == "an unknown kind") continue;
      const auto file = scratch.write(name, content);
      expect_refused([&] { read_weights(file); }, {"not a checkpoint of weights", kind, name, "next"});
    }
  }
}

TEST(FileKind, RecordsTellWhatAnArchiveIs) {
  const test::Scratch scratch;
  const std::pair<std::vector<std::string>, const char*> archives[] = {
      {{"data.pkl", "code/__torch__/Net.py", "constants.pkl"}, "a TorchScript archive"},
      {{"data.pkl", ".data/extern_modules"}, "torch.package"},
      {{"archive_format", "models/model.json"}, "torch.export"},
      {{"config.json", "model.weights.h5"}, "other files: "}};
  for (const auto& [records, kind] : archives) {
    const auto file = write_archive(scratch.path() / "a.pt", records);
    expect_refused([&] { format_of_weights(file); }, {"not a checkpoint of weights", kind, "a.pt"});
    std::filesystem::remove(file);
  }
}

TEST(FileKind, FoldersAreNoFiles) {
  const test::Scratch scratch;
  expect_refused([&] { format_of_weights(scratch.path()); }, {"a folder", scratch.path().string()});
  scratch.write(".metadata", "x");
  expect_refused([&] { format_of_weights(scratch.path()); }, {"torch.distributed.checkpoint", "dcp_to_torch"});
  const auto part = scratch.write("__0_0.distcp", "PK\3\4 and more");
  expect_refused([&] { format_of_weights(part); }, {"torch.distributed.checkpoint", "dcp_to_torch"});
  EXPECT_THROW(format_of_weights(scratch.path() / "none.pt"), InputError);
}

/// Cut off or damaged, they still are of their kind.
TEST(FileKind, DamagedFilesAreNoOtherKind) {
  const test::Scratch scratch;
  const auto torch_file = write_torch_file(scratch.path() / "x.pt", kFourValues + "}.", {{"data/0", "abcd"}});
  const std::string whole = read_file(torch_file);
  write_weights(scratch.path() / "x.safetensors", {});
  const std::string tensors = read_file(scratch.path() / "x.safetensors");
  const std::pair<const char*, std::string> files[] = {{"empty.pt", ""},
                                                       {"zeros.pt", std::string(5000, '\0')},
                                                       {"cut.pt", whole.substr(0, whole.size() * 2 / 3)},
                                                       {"begins.pt", "\1\2\3\4" + whole.substr(4)},
                                                       {"cut.safetensors", tensors.substr(0, tensors.size() - 1)},
                                                       {"length.safetensors", tensors.substr(0, 4)},
                                                       {"length.bin", tensors.substr(0, 8)},
                                                       {"noise.safetensors", std::string(100, '\xfe')}};
  for (const auto& [name, content] : files) {
    const auto file = scratch.write(name, content);
    try {
      read_weights(file);
      ADD_FAILURE() << "not refused: " << name;
    } catch (const DamagedFile& error) {
      EXPECT_NE(std::string(error.what()).find(name), std::string::npos) << error.what();
    }
  }
}

TEST(FileKind, BothFormatsAreRead) {
  const test::Scratch scratch;
  EXPECT_EQ(format_of_weights(write_torch_file(scratch.path() / "x", kFourValues + "}.", {{"data/0", ""}})),
            WeightsFormat::kTorch);
  write_weights(scratch.path() / "y", {});
  EXPECT_EQ(format_of_weights(scratch.path() / "y"), WeightsFormat::kSafetensors);
}

}  // namespace
}  // namespace lockstep::train
