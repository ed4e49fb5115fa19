#include "harness/train/files/torch_file.h"

#include <ATen/ATen.h>
#include <gtest/gtest.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/files/unpickler.h"
#include "harness/train/loop/checkpoint.h"

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
  EXPECT_NE(complaint_of("\x80\x06.").find("protocol 6"), std::string::npos);
  EXPECT_NE(complaint_of(kProto2 + "csubprocess\nPopen\n.").find("subprocess.Popen"), std::string::npos);
  EXPECT_NE(complaint_of("\x80\x04\x8c\x05posix\x8c\x06system\x93.").find("posix.system"), std::string::npos);
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

TEST(TorchFile, ContainersTooDeepInEachOtherAreRefused) {
  const test::Scratch scratch;
  const std::string deep = repeated(200'000, "\x85"), padded = repeated(200'000, "\x85" + kProto2);
  for (const std::string& pickle : {deep + ".", padded + ".", repeated(200'000, "("), std::string("q\0h\0a.", 6)}) {
    const auto file = write_torch_file(scratch.path() / "deep.pt", kProto2 + "]" + pickle);
    try {
      read_torch_file(file);
      ADD_FAILURE() << "not refused";
    } catch (const Error& error) {
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
  const test::Scratch scratch;
  const auto read = [&](const std::string& under) {
    read_torch_file(write_torch_file(scratch.path() / ("x" + under + ".pt"),
                                     dict_of(pickled_text("x"), with_attributes), {{"data/0", kNumber}}),
                    under);
  };
  expect_refused([&] { read(""); }, {"negated", ", x"});
  expect_refused([&] { read("y"); }, {"no tensor under the entry", "'y'", "the entries x"});
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

/// The entry "model" holds one number; these opcodes make the other entry's value.
std::string beside(const std::string& opcodes) {
  return kFourValues + "}(" + pickled_text("other") + opcodes + pickled_text("model") + "}" + pickled_text("x") +
         kOneNumber + "su.";
}

// Each as Python's pickle writes it: a set, bytes, a device, a dtype, options, a large integer, a defaultdict, a key
// that is no name, a frozen set, an array of NumPy with its attributes, a function's result that is called again.
TEST(TorchFile, WhatLiesBesideTheWeightsMayBeAnything) {
  const test::Scratch scratch;
  const std::pair<const char*, std::string> others[] = {
      {"set", "c__builtin__\nset\n]K\1a\x85R"},
      {"bytes", "c_codecs\nencode\n" + pickled_text("x") + pickled_text("latin1") + "\x86R"},
      {"device", "ctorch\ndevice\n" + pickled_text("cpu") + "\x85R"},
      {"dtype", "ctorch\nfloat32\n"},
      {"options", "cargparse\nNamespace\n)\x81}" + pickled_text("lr") + "K\1sb"},
      {"large", std::string("\x8a\x0b\0\0\0\0\0\0\0\0\0\0\1", 13)},
      {"default", "ccollections\ndefaultdict\nc__builtin__\nlist\n\x85R" + pickled_text("loss") + "]s"},
      {"keys", "}K\1\x85K\2s"},
      {"new protocol",
       "\x8f(K\1\x90"
       "C\1a\x94(K\1\x91\x8c\1cG" +
           std::string(8, '\0') + "\x87"},
      {"array", "cnumpy.core.multiarray\n_reconstruct\nK\1\x85R(K\1K\2tb"},
      {"called again", "c__builtin__\ngetattr\nK\1\x85R)R(K\1e"}};
  for (const auto& [what, opcodes] : others) {
    SCOPED_TRACE(what);
    const auto file = write_torch_file(scratch.path() / "x.pt", beside(opcodes), {{"data/0", kNumber}});
    const std::vector<NamedTensor> read = read_torch_file(file, "model");
    ASSERT_EQ(read.size(), 1U);
    EXPECT_EQ(read[0].name, "model.x");
    std::filesystem::remove(file);
  }
}

TEST(TorchFile, ObjectsWhereWeightsAreLookedForAreRefused) {
  const test::Scratch scratch;
  const auto file = write_torch_file(scratch.path() / "x.pt", beside("cmodels\nNet\n)\x81}b"), {{"data/0", kNumber}});
  EXPECT_EQ(read_torch_file(file, "model").size(), 1U);
  expect_refused([&] { read_torch_file(file, "other"); }, {"models.Net", "x.pt, other", "keys.under"});
  expect_refused([&] { read_torch_file(file); }, {"models.Net", "x.pt, other", "keys.under"});
  expect_refused([&] { read_torch_file(file, "module"); }, {"'module'", "the entries other, model"});
  const auto whole = write_torch_file(scratch.path() / "whole.pt", kProto2 + "cmodels\nNet\n)\x81}b.");
  for (const char* under : {"", "model"})
    expect_refused([&] { read_torch_file(whole, under); }, {"an object", "models.Net", "state_dict()"});
}

TEST(TorchFile, ParametersWithAttributesAreTensors) {
  const test::Scratch scratch;
  const std::string with_state =
      "ctorch._utils\n_rebuild_parameter_with_state\n(" + kOneNumber + "\x89N}" + pickled_text("a") + "K\1stR";
  std::string arguments = kOneNumber;  // without the call
  arguments.pop_back();
  const std::string with_type = "ctorch._tensor\n_rebuild_from_type_v2\n(" + arguments + "0ctorch\nTensor\nh\2}tR";
  for (const std::string& tensor : {with_state, with_type}) {
    const auto file =
        write_torch_file(scratch.path() / "x.pt", dict_of(pickled_text("x"), tensor), {{"data/0", kNumber}});
    EXPECT_EQ(read_torch_file(file).at(0).tensor.item<float>(), 1);
    std::filesystem::remove(file);
  }
}

// import pickle; pickle.dumps({"model": {}, "a": [1, (2.5, None)], "b": {3}, "c": b"x"}, protocol=4)
TEST(Unpickle, ReadsNewerProtocols) {
  const std::string pickle = from_hexadecimal(
      "80049537000000000000007d94288c056d6f64656c947d948c0161945d94284b014740040000000000004e8694658c016294"
      "8f94284b03908c01639443017894752e");
  const Unpickled read = unpickle(pickle, "x.pt");
  const auto& items = std::get<PickledDict*>(read.value)->items;
  ASSERT_EQ(items.size(), 4U);
  EXPECT_EQ(*std::get<const std::string_view*>(items[1].first), "a");
  EXPECT_EQ(std::get<PickledList*>(items[1].second)->items.size(), 2U);
  EXPECT_EQ(name_of(*std::get<const PickledOther*>(items[2].second)), "a set");
  EXPECT_EQ(name_of(*std::get<const PickledOther*>(items[3].second)), "bytes");
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
