#include "harness/train/torch_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/checkpoint.h"
#include "harness/train/unpickler.h"

#include "tests/support/allocation.h"
#include "tests/support/support.h"
#include "tests/train/refused.h"
#include "tests/train/torch_archive.h"

// Files that Python itself wrote are read in tests/parity; here: what a pickle may not do.

namespace lockstep::train {
namespace {

std::string complaint_of(const std::string& pickle) {
  try {
    unpickle(pickle, "x.pt");
  } catch (const Error& error) {
    return error.what();
  }
  return "nothing was thrown";
}

const std::string kProto2 = std::string("\x80\x02", 2);

std::string from_hexadecimal(const std::string& text) {
  std::string bytes;
  for (std::size_t i = 0; i < text.size(); i += 2)
    bytes += static_cast<char>(std::stoi(text.substr(i, 2), nullptr, 16));
  return bytes;
}

// python3 -c "import pickle; print(pickle.dumps({'a': [1, -2, 2.5, True, None]}, protocol=2).hex())"
TEST(Unpickle, ReadsContainersAndNumbers) {
  const std::string pickle =
      from_hexadecimal("80027d710058010000006171015d7102284b014afeffffff474004000000000000884e65732e");
  const Unpickled read = unpickle(pickle, "x.pt");
  const auto& items = std::get<PickledDict*>(read.value)->items;
  ASSERT_EQ(items.size(), 1U);
  EXPECT_EQ(*std::get<const std::string_view*>(items[0].first), "a");
  const auto& list = std::get<PickledList*>(items[0].second)->items;
  ASSERT_EQ(list.size(), 5U);
  EXPECT_EQ(std::get<std::int64_t>(list[1]), -2);
  EXPECT_EQ(std::get<double>(list[2]), 2.5);
}

TEST(Unpickle, ExecutesNothing) {
  EXPECT_NE(complaint_of(kProto2 + "cos\nsystem\nX\x02").find("os.system"), std::string::npos);
  EXPECT_NE(complaint_of(kProto2 + "cbuiltins\neval\n.").find("builtins.eval"), std::string::npos);
  EXPECT_NE(complaint_of(kProto2 + "ctorch._utils\n_rebuild_parameter\n)R.").find("_rebuild_parameter with 0"),
            std::string::npos);
  EXPECT_NE(complaint_of("\x80\x05.").find("protocol 5"), std::string::npos);
}

TEST(Unpickle, NamesTheOffsetOfDamage) {
  for (const std::string& damaged :
       {kProto2, kProto2 + "K", kProto2 + "a.", kProto2 + "h\x07.", kProto2 + "t.", kProto2 + "\xff.",
        kProto2 + "(K\x01u.", kProto2 + "K\x01R.", kProto2 + "cos", std::string(".")}) {
    EXPECT_NE(complaint_of(damaged).find("data.pkl at offset"), std::string::npos) << complaint_of(damaged);
  }
}

TEST(Unpickle, ContainersThatHoldThemselvesAreFreed) {
  const std::string itself = kProto2 + std::string("]q\0h\0a}q\1", 9) + pickled_text("a") + "h\1s\x86.";
  unpickle(itself, "x.pt");
  test::forget_allocations();
  for (int i = 0; i < 100; ++i) unpickle(itself, "x.pt");
  EXPECT_EQ(test::still_allocated(), 0);
}

TEST(TorchFile, ContainersTooDeepInEachOtherAreDamage) {
  const test::Scratch scratch;
  const std::string deep = repeated(200'000, "\x85"), padded = repeated(200'000, "\x85" + kProto2);
  for (const std::string& pickle : {deep + ".", padded + ".", repeated(200'000, "("), std::string("q\0h\0a.", 6)}) {
    const auto file = write_torch_file(scratch.path() / "deep.pt", kProto2 + "]" + pickle);
    try {
      read_torch_file(file);
      ADD_FAILURE() << "not refused";
    } catch (const DamagedFile& error) {
      EXPECT_NE(error.problem().where.find(file.string()), std::string::npos) << error.what();
    }
  }
}

TEST(TorchFile, TensorsWithoutElementsAreRead) {
  const test::Scratch scratch;
  const std::string tensor = tensor_of(std::string("K\0K\3\x86", 5), "K\3K\1\x86");
  const auto file = write_torch_file(scratch.path() / "x.pt", kFourValues + "}" + pickled_text("x") + tensor + "s.",
                                     {{"data/0", ""}});
  const std::vector<NamedTensor> read = read_torch_file(file);
  ASSERT_EQ(read.size(), 1U);
  EXPECT_EQ(read[0].tensor.sizes(), at::IntArrayRef({0, 3}));
}

const std::string kOneNumber = [] {
  std::string tensor = tensor_of("K\1\x85", "K\1\x85");
  return tensor.replace(tensor.find(std::string("K\0tQ", 4)) + 1, 1, "\1");  // of a storage of one element
}();
const std::string kNumber = std::string("\0\0\x80\x3f", 4);

std::string dict_of(const std::string& key, const std::string& value) { return kFourValues + "}" + key + value + "s."; }

TEST(TorchFile, AnotherByteOrderIsRefused) {
  const test::Scratch scratch;
  const auto write = [&](const char* order) {
    return write_torch_file(scratch.path() / order, dict_of(pickled_text("x"), kOneNumber),
                            {{"data/0", kNumber}, {"byteorder", order}});
  };
  EXPECT_EQ(read_torch_file(write("little")).at(0).tensor.item<float>(), 1);
  expect_refused([&] { read_torch_file(write("big")); }, {"another byte order", "record byteorder", "little"});
}

// The elements of a negated or conjugated view are stored as they were before.
TEST(TorchFile, ViewsThatAreStillToBeComputedAreRefused) {
  const std::string with_attributes = [](std::string tensor) {
    return tensor.replace(tensor.rfind("Nt"), 2, "N}" + pickled_text("neg") + "\x88st");
  }(kOneNumber);
  EXPECT_NE(complaint_of(dict_of(pickled_text("x"), with_attributes)).find("negated"), std::string::npos);
  const std::string with_none = [](std::string tensor) {
    return tensor.replace(tensor.rfind("Nt"), 2, "NNt");
  }(kOneNumber);
  EXPECT_EQ(complaint_of(dict_of(pickled_text("x"), with_none)), "nothing was thrown");
}

TEST(TorchFile, KeysThatAreNoNamesAreRefused) {
  const test::Scratch scratch;
  const auto file =
      write_torch_file(scratch.path() / "x.pt", dict_of(pickled_text("a") + "\x85", kOneNumber), {{"data/0", kNumber}});
  expect_refused([&] { read_torch_file(file); }, {"whose keys are not names", "x.pt"});
}

TEST(TorchFile, AFlippedBitBreaksItsChecksum) {
  const test::Scratch scratch;
  const auto file = write_torch_file(scratch.path() / "x.pt", dict_of(pickled_text("x"), kOneNumber),
                                     {{"data/0", kNumber + std::string(96, 'a')}});
  std::string content = read_file(file);
  content[content.find(std::string(96, 'a')) + 50] ^= 1;
  scratch.write("x.pt", content);
  try {
    read_torch_file(file);
    ADD_FAILURE() << "not refused";
  } catch (const DamagedFile& error) {
    EXPECT_NE(std::string(error.what()).find("data/0 is not what was stored"), std::string::npos) << error.what();
    EXPECT_EQ(error.problem().where, file.string());
  }
}

// One byte each: more values than a pickle of tensors has, but not much memory.
TEST(TorchFile, MayHoldSomeThousandNumbers) {
  const test::Scratch scratch;
  const auto file = write_torch_file(scratch.path() / "x.pt", kProto2 + "](" + repeated(5000, "\x88") + "e.");
  EXPECT_TRUE(read_torch_file(file).empty());
}

TEST(TorchFile, WhatIsNoneIsRefused) {
  const test::Scratch scratch;
  EXPECT_THROW(read_torch_file(scratch.path() / "none.pt"), InputError);
  EXPECT_THROW(read_torch_file(scratch.path()), InputError);
  EXPECT_THROW(read_torch_file(scratch.write("text.pt", "PK is no archive")), DamagedFile);
  EXPECT_THROW(read_torch_file(scratch.write("empty.pt", "")), DamagedFile);
}

// python3 -c "import torch; torch.save({}, 'x.pt', _use_new_zipfile_serialization=False)"; head -c 20 x.pt | xxd -p
TEST(TorchFile, TheOldFormatIsCalledByItsName) {
  const test::Scratch scratch;
  const auto file = scratch.write("old.pt", from_hexadecimal("80028a0a6cfc9c46f9206aa850192e80024de903"));
  expect_refused([&] { read_weights(file); }, {"old format", "old.pt", "PyTorch 1.6"});
}

}  // namespace
}  // namespace lockstep::train
