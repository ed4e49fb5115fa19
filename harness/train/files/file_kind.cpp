#include "harness/train/files/file_kind.h"

#include <algorithm>
#include <cctype>
#include <cstdint>
#include <fstream>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <zip.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"

namespace lockstep::train {
namespace {

/// Bytes that tell the kind of a file.
constexpr std::size_t kHeadBytes = 1 << 16;

/// The longest header that safetensors allows. *Source*: safetensors/src/tensor.rs, MAX_HEADER_SIZE.
constexpr std::uint64_t kLongestHeader = 100'000'000;
constexpr std::size_t kBytesOfLength = 8;

/// Names that a message lists.
constexpr std::size_t kShownRecords = 4;

/// What a file is instead, and what to do about it.
struct OtherKind {
  std::string_view kind;
  std::string_view next;
};

constexpr std::string_view kSaveTensors = "load it with what wrote it, and save its tensors with torch.save";
constexpr std::string_view kUnpack = "unpack it";

/// Kinds that fixed bytes at a fixed place tell.
struct Signature {
  std::size_t offset;
  std::string_view bytes;
  OtherKind other;
};

using namespace std::string_view_literals;

constexpr Signature kSignatures[] = {
    {0,
     "version https://git-lfs.github.com/spec/"sv,
     {"a pointer of Git LFS: the file itself was not fetched", "git lfs pull"}},
    {0, "GGUF"sv, {"a GGUF file", kSaveTensors}},
    {0, "\x89HDF\r\n\x1a\n"sv, {"an HDF5 file", kSaveTensors}},
    {0, "\x93NUMPY"sv, {"an array of NumPy", kSaveTensors}},
    {0, "\x1f\x8b"sv, {"a gzip file", kUnpack}},
    {0, "BZh"sv, {"a bzip2 file", kUnpack}},
    {0,
     "\xfd"
     "7zXZ\0"sv,
     {"an xz file", kUnpack}},
    {0, "\x28\xb5\x2f\xfd"sv, {"a Zstandard file", kUnpack}},
    {0, "7z\xbc\xaf\x27\x1c"sv, {"a 7z archive", kUnpack}},
    {257, "ustar"sv, {"a tar archive", kUnpack}},
};

/// The first bytes of a file that torch.save wrote before PyTorch 1.6, or does with
/// _use_new_zipfile_serialization=False.
constexpr std::string_view kLegacy = "\x80\x02\x8a\x0a\x6c\xfc\x9c\x46\xf9\x20\x6a\xa8\x50\x19";

constexpr std::string_view kZip = "PK\3\4", kEmptyZip = "PK\5\6";

[[noreturn]] void refuse_kind(const std::filesystem::path& file, const OtherKind& other) {
  throw InputError({.what = "this is not a checkpoint of weights, but " + std::string(other.kind),
                    .where = file.string(),
                    .expected = "a file of torch.save (a ZIP archive), or safetensors",
                    .next = std::string(other.next)});
}

bool holds_at(std::string_view head, std::size_t offset, std::string_view bytes) {
  return head.size() >= offset && head.substr(offset).starts_with(bytes);
}

/// A length that a header may have, and the bracket with which it begins.
bool begins_as_safetensors(std::string_view head) {
  if (head.size() <= kBytesOfLength || head[kBytesOfLength] != '{') return false;
  std::uint64_t length = 0;
  for (std::size_t i = kBytesOfLength; i-- > 0;) length = length << 8 | static_cast<std::uint8_t>(head[i]);
  return length <= kLongestHeader;
}

/// A pickle's first opcode, and its protocol.
bool begins_as_pickle(std::string_view head) { return head.size() > 1 && head[0] == '\x80' && head[1] <= 5; }

/// Letters, digits and white space; some may be of another alphabet.
bool is_text(std::string_view head) {
  std::size_t others = 0;
  for (const char c : head) {
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x80) ++others;
    if (byte < 0x80 && std::isprint(byte) == 0 && std::isspace(byte) == 0) return false;
  }
  return !head.empty() && others <= head.size() / 2;
}

OtherKind kind_of_text(std::string_view head) {
  if (head.starts_with("\xef\xbb\xbf")) head.remove_prefix(3);  // a mark of UTF-8
  head.remove_prefix(std::min(head.find_first_not_of(" \t\r\n"), head.size()));
  std::string lower(head);
  std::transform(lower.begin(), lower.end(), lower.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  if (lower.starts_with("<!doctype html") || lower.find("<html") != std::string::npos)
    return {"a web page (HTML)", "fetch the file again; the page may say why it was not sent"};
  if (head.starts_with("<")) return {"a text in XML", "name the file that holds the weights"};
  if (head.starts_with("{") || head.starts_with("[")) {
    if (head.find("\"weight_map\"") != std::string_view::npos)
      return {"an index of weights that lie in several files", "join its parts into one file, and name that"};
    return {"a text in JSON", "name the file that holds the weights"};
  }
  return {"a text", "name the file that holds the weights"};
}

/// Names of an archive's records, without the folder that all of them lie in; nothing if it cannot be read.
std::optional<std::vector<std::string>> records_of(const std::filesystem::path& file) {
  int error = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(file.c_str(), ZIP_RDONLY, &error), zip_discard);
  if (!archive) return std::nullopt;
  std::vector<std::string> names;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    const char* name = zip_get_name(archive.get(), static_cast<zip_uint64_t>(i), ZIP_FL_ENC_RAW);
    if (name != nullptr) names.emplace_back(name);
  }
  const std::string folder = names.empty() ? "" : names[0].substr(0, names[0].find('/') + 1);
  if (std::all_of(names.begin(), names.end(), [&](const auto& name) { return name.starts_with(folder); })) {
    for (std::string& name : names) name.erase(0, folder.size());
  }
  return names;
}

/// What an archive is if torch.save did not write it; nothing if it did.
std::optional<OtherKind> other_archive(const std::vector<std::string>& records, std::string& text) {
  const auto has = [&](std::string_view name) {
    return std::find(records.begin(), records.end(), name) != records.end();
  };
  const auto any = [&](auto fits) { return std::any_of(records.begin(), records.end(), fits); };
  const auto in_code = [](const std::string& name) { return name.starts_with("code/"); };
  if (has("constants.pkl") && (any(in_code) || has("data.pkl")))
    return OtherKind{"a TorchScript archive", "load it with torch.jit.load, and save its state_dict() with torch.save"};
  if (has(".data/extern_modules"))
    return OtherKind{"an archive of torch.package",
                     "load it with torch.package, and save the state_dict() of its model"};
  if (has("archive_format") || has("serialized_exported_program.json"))
    return OtherKind{"a program of torch.export", "load it with torch.export.load, and save its state_dict"};
  const auto in_data = [](const std::string& name) { return name.starts_with("data/"); };
  if (has("data.pkl") || (has("version") && any(in_data))) return std::nullopt;  // it may have lost the one
  if (!records.empty() && !any([](const std::string& name) { return !name.ends_with(".npy"); }))
    return OtherKind{"an archive of NumPy arrays (.npz)", kSaveTensors};
  text = records.empty() ? "an empty ZIP archive" : "a ZIP archive of other files: " + some_of(records, kShownRecords);
  return OtherKind{text, "name the file that holds the weights"};
}

/// Whether a ZIP archive ends here: its last record, with the comment that may follow.
bool ends_as_zip(std::ifstream& stream, std::uintmax_t size) {
  std::string tail(std::min<std::uintmax_t>(size, kHeadBytes), '\0');
  stream.seekg(-static_cast<std::streamoff>(tail.size()), std::ios::end);
  stream.read(tail.data(), static_cast<std::streamsize>(tail.size()));
  return tail.find(kEmptyZip) != std::string::npos;
}

/// *Throws*: InputError if the folder is a checkpoint in parts, or a folder at all.
void require_file(const std::filesystem::path& file) {
  if (is_folder(file) && is_there(file / ".metadata"))
    refuse_kind(file, {"a folder of torch.distributed.checkpoint",
                       "python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE"});
  if (is_folder(file)) refuse_kind(file, {"a folder", "name the file that holds the weights"});
  if (!std::filesystem::is_regular_file(file))  // a pipe is not even opened
    throw InputError({.what = "cannot read a file", .where = file.string(), .expected = "a file of weights"});
}

}  // namespace

WeightsFormat format_of_weights(const std::filesystem::path& file) {
  require_file(file);
  const std::uintmax_t size = std::filesystem::file_size(file);
  std::ifstream stream(file, std::ios::binary);
  std::string head(std::min<std::uintmax_t>(size, kHeadBytes), '\0');
  stream.read(head.data(), static_cast<std::streamsize>(head.size()));
  if (!stream) throw InputError({.what = "cannot read a file", .where = file.string()});
  if (std::all_of(head.begin(), head.end(), [](char c) { return c == '\0'; }))
    throw DamagedFile({.what = head.empty() ? "the file is empty" : "the file begins with nothing but zeros",
                       .where = file.string(),
                       .expected = "a file of torch.save, or safetensors"});
  if (head.starts_with(kLegacy))
    throw InputError({.what = "the file is of torch.save's old format, which is not read",
                      .where = file.string(),
                      .expected = "a ZIP archive, as torch.save has written since PyTorch 1.6, or safetensors",
                      .next = "load and save it with a current PyTorch"});
  if (file.extension() == ".distcp")
    refuse_kind(file, {"a part of a folder of torch.distributed.checkpoint",
                       "python -m torch.distributed.checkpoint.format_utils dcp_to_torch FOLDER FILE"});
  if (begins_as_safetensors(head)) return WeightsFormat::kSafetensors;
  if (head.starts_with(kZip) || head.starts_with(kEmptyZip)) {
    std::string text;
    if (const auto records = records_of(file)) {
      if (const auto other = other_archive(*records, text)) refuse_kind(file, *other);
    }
    return WeightsFormat::kTorch;
  }
  for (const Signature& signature : kSignatures) {
    if (holds_at(head, signature.offset, signature.bytes)) refuse_kind(file, signature.other);
  }
  if (begins_as_pickle(head))
    refuse_kind(file, {"a pickle", "load it with pickle, and save its tensors with torch.save"});
  if (is_text(head)) refuse_kind(file, kind_of_text(head));
  if (file.extension() == ".safetensors" || size <= kBytesOfLength) return WeightsFormat::kSafetensors;
  if (ends_as_zip(stream, size)) return WeightsFormat::kTorch;
  refuse_kind(file, {"a file of an unknown kind", "name the file that holds the weights"});
}

}  // namespace lockstep::train
