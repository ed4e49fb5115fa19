#include "harness/train/files/torch_file.h"

#include <algorithm>
#include <array>
#include <map>
#include <memory>
#include <optional>

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>
#include <zip.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/train/files/unpickler.h"

namespace lockstep::train {
namespace {

constexpr int kDeepest = 32;
constexpr std::size_t kMostDimensions = 64, kLongestName = 4096;

/// A record of fewer bytes may grow when it is packed, and is stored then.
constexpr std::uint64_t kLeastPacked = 64;

/// Tensors may share elements, as tied weights do; not so many that a small file fills the memory. A tensor
/// without elements counts too, and so does each of its dimensions; so many bytes are always allowed.
constexpr std::uintmax_t kMostCopies = 8, kBytesOfTensor = 512, kBytesOfDimension = 16, kAlwaysAllowed = 1 << 16;

const std::map<std::string, at::ScalarType> kStorages = {
    {"torch.FloatStorage", at::kFloat},       {"torch.DoubleStorage", at::kDouble}, {"torch.HalfStorage", at::kHalf},
    {"torch.BFloat16Storage", at::kBFloat16}, {"torch.LongStorage", at::kLong},     {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort},       {"torch.CharStorage", at::kChar},     {"torch.ByteStorage", at::kByte},
    {"torch.BoolStorage", at::kBool}};

/// Elements of a tensor that lies within so many of a storage; nothing when it does not.
std::optional<std::int64_t> count_within(std::int64_t elements, std::int64_t offset,
                                         const std::vector<std::int64_t>& sizes,
                                         const std::vector<std::int64_t>& strides) {
  const auto negative = [](std::int64_t extent) { return extent < 0; };
  if (offset < 0 || offset > elements || std::any_of(sizes.begin(), sizes.end(), negative) ||
      std::any_of(strides.begin(), strides.end(), negative))
    return std::nullopt;
  if (std::find(sizes.begin(), sizes.end(), 0) != sizes.end()) return 0;
  std::int64_t count = 1, last = offset;
  for (std::size_t i = 0; i < sizes.size(); ++i) {
    if (count > elements / sizes[i]) return std::nullopt;
    if (strides[i] > 0 && sizes[i] - 1 > (elements - last) / strides[i]) return std::nullopt;
    count *= sizes[i];
    last += (sizes[i] - 1) * strides[i];
  }
  return last < elements ? std::optional(count) : std::nullopt;
}

/// Reads a record to its end, where libzip compares checksums; how far it came, if something is wrong.
/// torch.save writes no checksum (zero) where it is told so.
std::optional<std::uint64_t> first_unreadable(zip_t* archive, const zip_stat_t& record) {
  if (record.crc == 0) return std::nullopt;
  const std::unique_ptr<zip_file_t, int (*)(zip_file_t*)> content(zip_fopen_index(archive, record.index, 0),
                                                                  zip_fclose);
  if (!content) return 0;
  std::array<char, 1 << 16> part;
  std::uint64_t offset = 0;
  while (true) {
    const zip_int64_t count = zip_fread(content.get(), part.data(), part.size());
    if (count < 0) return offset + part.size();
    if (count == 0) return offset == record.size ? std::nullopt : std::optional(offset);
    offset += static_cast<std::uint64_t>(count);
  }
}

/// Entries that a message lists.
constexpr std::size_t kShownEntries = 8;

/// Whether all records with content are packed, as after unpacking a file and packing it again.
bool is_packed_again(zip_t* archive) {
  bool any = false;
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive, 0); ++i) {
    zip_stat_t record;
    if (zip_stat_index(archive, static_cast<zip_uint64_t>(i), 0, &record) != 0) return false;
    if (record.comp_method != ZIP_CM_DEFLATE && record.size > kLeastPacked) return false;
    any = any || record.comp_method == ZIP_CM_DEFLATE;
  }
  return any;
}

/// LibTorch's reader believes what the archive says of its records' sizes, and unpacks some of them at once.
/// torch.save packs nothing: no record is larger than the file. *Returns*: `file`. *Throws*: DamagedFile.
const std::filesystem::path& require_plain_records(const std::filesystem::path& file) {
  const auto damaged = [&](const std::string& what) {
    return DamagedFile({.what = "a file of torch.save is damaged: " + what, .where = file.string()});
  };
  int error = 0;
  const std::unique_ptr<zip_t, void (*)(zip_t*)> archive(zip_open(file.c_str(), ZIP_RDONLY, &error), zip_discard);
  const std::uintmax_t bytes = std::filesystem::file_size(file);
  if (!archive)
    throw damaged("it is no ZIP archive that can be read: no list of records before its end, byte " +
                  std::to_string(bytes));
  if (is_packed_again(archive.get()))
    throw InputError({.what = "the file was unpacked and packed again: its records are compressed, which is not read",
                      .where = file.string(),
                      .expected = "records as torch.save stores them",
                      .next = "load and save it with torch"});
  for (zip_int64_t i = 0; i < zip_get_num_entries(archive.get(), 0); ++i) {
    zip_stat_t record;
    if (zip_stat_index(archive.get(), static_cast<zip_uint64_t>(i), 0, &record) != 0)
      throw damaged("its list of records cannot be read");
    if (record.comp_method != ZIP_CM_STORE || record.size > bytes)
      throw damaged("the record " + std::string(record.name) + " is compressed, or larger than the file");
    if (const auto offset = first_unreadable(archive.get(), record))
      throw damaged("the record " + std::string(record.name) +
                    " is not what was stored: its checksum differs, within " + std::to_string(*offset) +
                    " bytes from its beginning");
  }
  return file;
}

class TorchFile {
 public:
  TorchFile(const std::filesystem::path& file, const std::string& under)
      : file_(require_plain_records(file)),
        under_(under),
        bytes_(std::filesystem::file_size(file)),
        archive_(file.string()) {}

  std::vector<NamedTensor> tensors() {
    if (archive_.hasRecord("byteorder") && record("byteorder") != "little")
      throw InputError({.what = "a file of torch.save has another byte order",
                        .where = file_.string() + ", record byteorder",
                        .expected = "little",
                        .actual = record("byteorder").substr(0, kLongestName),
                        .next = "save it again on a little-endian machine"});
    const std::string pickle = record("data.pkl"), origin = file_.string();
    const Unpickled content = unpickle(pickle, origin);
    collect(content.value, "", 0);
    if (tensors_.empty() && !under_.empty()) lacks_entry(content.value);
    return std::move(tensors_);
  }

 private:
  [[noreturn]] void damaged(const std::string& what, const std::string& where) const {
    throw DamagedFile({.what = "a file of torch.save is damaged: " + what, .where = file_.string() + ", " + where});
  }

  /// Records are stored uncompressed: none can be larger than the file.
  std::string record(const std::string& name) {
    if (!archive_.hasRecord(name)) damaged("a record is missing", name);
    const std::size_t size = archive_.getRecordSize(name);
    if (size > bytes_) damaged("a record is larger than the file", name);
    std::string content(size, '\0');
    archive_.getRecord(name, content.data(), size);
    return content;
  }

  /// Whether what has this name is looked for, or lies within it.
  bool is_inside(std::string_view name) const {
    return under_.empty() || name == under_ || name.starts_with(under_ + ".");
  }

  /// Whether what is looked for is this, or lies within it.
  bool leads_inside(std::string_view name) const {
    return name.empty() || is_inside(name) || under_.starts_with(std::string(name) + ".");
  }

  [[noreturn]] void lacks_entry(const Pickled& value) const {
    std::vector<std::string> entries;
    if (const auto* dict = std::get_if<PickledDict*>(&value)) {
      for (const auto& [key, item] : (*dict)->items) {
        if (const auto* text = std::get_if<const std::string_view*>(&key))
          entries.emplace_back((*text)->substr(0, kLongestName));
      }
    }
    throw InputError({.what = "the checkpoint has no tensor under the entry that is asked for",
                      .where = file_.string(),
                      .expected = "tensors under '" + under_ + "'",
                      .actual = entries.empty() ? "no entry" : "the entries " + some_of(entries, kShownEntries),
                      .next = "set train.checkpoint.load.keys.under to the entry that holds the weights"});
  }

  /// Objects that may hold weights, where these are looked for.
  void require_plain(const PickledOther& other, const std::string& name) const {
    if (other.is_plain && !name.empty()) return;
    if (name.empty())
      throw InputError({.what = "a file of torch.save holds an object, and no tensors by their names",
                        .where = file_.string(),
                        .expected = "a dict of tensors, such as a state_dict()",
                        .actual = name_of(other),
                        .next = "save its state_dict(), or safetensors"});
    throw InputError({.what = "a file of torch.save holds more than tensors and containers",
                      .where = file_.string() + ", " + name,
                      .actual = name_of(other),
                      .next = "save a plain state dict, or safetensors; or set train.checkpoint.load.keys.under to the "
                              "entry that holds the weights"});
  }

  void collect(const Pickled& value, const std::string& name, int depth) {
    if (depth > kDeepest) damaged("containers are nested too deeply", name);
    if (const auto* other = std::get_if<const PickledOther*>(&value)) require_plain(**other, name);
    const auto* tensor = std::get_if<const TensorReference*>(&value);
    if (tensor != nullptr && is_inside(name)) tensors_.push_back({name, built(**tensor, name)});
    if (const auto* dict = std::get_if<PickledDict*>(&value)) {
      for (const auto& [key, item] : (*dict)->items) {
        if (const auto* text = std::get_if<const std::string_view*>(&key))
          collect_below(item, name, **text, depth);
        else if (const auto* number = std::get_if<std::int64_t>(&key))
          collect_below(item, name, std::to_string(*number), depth);
        else if (is_inside(name))
          throw InputError({.what = "a file of torch.save holds a dict whose keys are not names",
                            .where = file_.string() + ", " + (name.empty() ? "data.pkl" : name),
                            .expected = "strings or integers",
                            .next = "save a plain state dict, or safetensors"});
      }
    }
    if (const auto* list = std::get_if<PickledList*>(&value)) {
      for (std::size_t i = 0; i < (*list)->items.size(); ++i)
        collect_below((*list)->items[i], name, std::to_string(i), depth);
    }
    // Containers that hold each other could be walked for ever.
    if (++visited_ > bytes_) damaged("more values than bytes", name);
  }

  void collect_below(const Pickled& value, const std::string& name, std::string_view key, int depth) {
    if (!is_inside(name) && name.size() + key.size() > under_.size()) return;
    std::string full = below(name, key);
    if (leads_inside(full)) collect(value, full, depth + 1);
  }

  std::string below(const std::string& name, std::string_view key) const {
    if (name.size() + key.size() >= kLongestName) damaged("a name is too long", name);
    return name.empty() ? std::string(key) : name + "." + std::string(key);
  }

  std::vector<std::int64_t> extents(const PickledList& list, const std::string& name) const {
    std::vector<std::int64_t> extents;
    if (list.items.size() > kMostDimensions) damaged("a tensor has too many dimensions", name);
    for (const Pickled& item : list.items) {
      if (!std::holds_alternative<std::int64_t>(item)) damaged("a tensor's sizes or strides are no integers", name);
      extents.push_back(std::get<std::int64_t>(item));
    }
    return extents;
  }

  at::Tensor storage(const StorageReference& reference, const std::string& name) {
    const std::string key(reference.key.substr(0, kLongestName));
    const auto known = storages_.find(key);
    if (known != storages_.end()) return known->second;
    const auto type = kStorages.find(name_of(*reference.type));
    if (type == kStorages.end())
      throw InputError({.what = "a file of torch.save holds a tensor that is not supported",
                        .where = file_.string() + ", " + name,
                        .actual = name_of(*reference.type)});
    const std::string content = record("data/" + key);
    stored_ += content.size();
    if (stored_ > bytes_) damaged("its storages hold more than the file", "data/" + key);
    const auto size = static_cast<std::int64_t>(c10::elementSize(type->second));
    if (reference.elements < 0 || static_cast<std::int64_t>(content.size()) / size != reference.elements ||
        static_cast<std::int64_t>(content.size()) % size != 0)
      damaged("a storage has another size than the pickle says", "data/" + key);
    at::Tensor flat = at::empty({reference.elements}, type->second);
    std::copy(content.begin(), content.end(), static_cast<char*>(flat.mutable_data_ptr()));
    return storages_.emplace(key, flat).first->second;
  }

  at::Tensor built(const TensorReference& reference, const std::string& name) {
    const at::Tensor flat = storage(*reference.storage, name);
    const std::vector<std::int64_t> sizes = extents(*reference.sizes, name),
                                    strides = extents(*reference.strides, name);
    if (sizes.size() != strides.size()) damaged("a tensor has other sizes than strides", name);
    for (std::size_t i = 0; i < sizes.size(); ++i) {
      if (strides[i] == 0 && sizes[i] > 1)
        throw InputError({.what = "a file of torch.save holds an expanded tensor, which is not supported",
                          .where = file_.string() + ", " + name,
                          .actual = "stride 0 where the size is " + std::to_string(sizes[i]),
                          .next = "save its .contiguous() instead"});
    }
    const auto count = count_within(flat.numel(), reference.offset, sizes, strides);
    if (!count) damaged("a tensor lies outside its storage", name);
    built_ += static_cast<std::uintmax_t>(*count) * flat.element_size() + kBytesOfTensor +
              kBytesOfDimension * sizes.size() + name.size();
    if (built_ > kAlwaysAllowed + kMostCopies * bytes_) damaged("its tensors hold more than the file", name);
    return flat.as_strided(sizes, strides, reference.offset).clone();
  }

  std::filesystem::path file_;
  std::string under_;
  std::uintmax_t bytes_;
  caffe2::serialize::PyTorchStreamReader archive_;
  std::map<std::string, at::Tensor> storages_;
  std::vector<NamedTensor> tensors_;
  std::uintmax_t visited_ = 0, stored_ = 0, built_ = 0;
};

}  // namespace

std::vector<NamedTensor> read_torch_file(const std::filesystem::path& file, const std::string& under) {
  if (!std::filesystem::is_regular_file(file))
    throw InputError({.what = "cannot read a file", .where = file.string(), .expected = "a file of torch.save"});
  try {
    return TorchFile(file, under).tensors();
  } catch (const c10::Error& error) {
    throw DamagedFile({.what = "a file of torch.save is damaged: " + std::string(error.what_without_backtrace()),
                       .where = file.string()});
  }
}

}  // namespace lockstep::train
