#include "harness/train/torch_file.h"

#include <map>
#include <optional>

#include <ATen/ATen.h>
#include <caffe2/serialize/inline_container.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/train/unpickler.h"

namespace lockstep::train {
namespace {

constexpr int kDeepest = 32;

/// Tensors may share elements, as tied weights do; not so many that a small file fills the memory.
constexpr std::uintmax_t kMostCopies = 8;

const std::map<std::string, at::ScalarType> kStorages = {
    {"torch.FloatStorage", at::kFloat},       {"torch.DoubleStorage", at::kDouble}, {"torch.HalfStorage", at::kHalf},
    {"torch.BFloat16Storage", at::kBFloat16}, {"torch.LongStorage", at::kLong},     {"torch.IntStorage", at::kInt},
    {"torch.ShortStorage", at::kShort},       {"torch.CharStorage", at::kChar},     {"torch.ByteStorage", at::kByte},
    {"torch.BoolStorage", at::kBool}};

class TorchFile {
 public:
  explicit TorchFile(const std::filesystem::path& file)
      : file_(file), bytes_(std::filesystem::file_size(file)), archive_(file.string()) {}

  std::vector<NamedTensor> tensors() {
    collect(unpickle(record("data.pkl"), file_.string()), "", 0);
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

  void collect(const Pickled& value, const std::string& name, int depth) {
    if (depth > kDeepest) damaged("containers lie too deep in each other", name);
    if (const auto* tensor = std::get_if<std::shared_ptr<TensorReference>>(&value))
      tensors_.push_back({name, built(**tensor, name)});
    if (const auto* dict = std::get_if<std::shared_ptr<PickledDict>>(&value)) {
      for (const auto& [key, item] : (*dict)->items) {
        const auto* text = std::get_if<std::string>(&key);
        const auto* number = std::get_if<std::int64_t>(&key);
        if (text != nullptr || number != nullptr)
          collect(item, below(name, text != nullptr ? *text : std::to_string(*number)), depth + 1);
      }
    }
    if (const auto* list = std::get_if<std::shared_ptr<PickledList>>(&value)) {
      for (std::size_t i = 0; i < (*list)->items.size(); ++i)
        collect((*list)->items[i], below(name, std::to_string(i)), depth + 1);
    }
    // Containers that hold each other could be walked for ever.
    if (++visited_ > bytes_) damaged("more values than bytes", name);
  }

  static std::string below(const std::string& name, const std::string& key) {
    return name.empty() ? key : name + "." + key;
  }

  at::Tensor storage(const StorageReference& reference, const std::string& name) {
    const auto known = storages_.find(reference.key);
    if (known != storages_.end()) return known->second;
    const auto type = kStorages.find(reference.type);
    if (type == kStorages.end())
      throw InputError({.what = "a file of torch.save holds a tensor that is not supported",
                        .where = file_.string() + ", " + name,
                        .actual = reference.type});
    const std::string content = record("data/" + reference.key);
    const auto size = static_cast<std::int64_t>(c10::elementSize(type->second));
    if (reference.elements < 0 || static_cast<std::int64_t>(content.size()) / size != reference.elements ||
        static_cast<std::int64_t>(content.size()) % size != 0)
      damaged("a storage has another size than the pickle says", "data/" + reference.key);
    at::Tensor flat = at::empty({reference.elements}, type->second);
    std::copy(content.begin(), content.end(), static_cast<char*>(flat.mutable_data_ptr()));
    return storages_.emplace(reference.key, flat).first->second;
  }

  at::Tensor built(const TensorReference& reference, const std::string& name) {
    const at::Tensor flat = storage(reference.storage, name);
    std::int64_t last = reference.offset, count = 1;
    bool fits = reference.offset >= 0 && reference.offset <= flat.numel();
    for (std::size_t i = 0; fits && i < reference.sizes.size(); ++i) {
      const std::int64_t size = reference.sizes[i], stride = reference.strides[i];
      fits =
          size >= 0 && stride >= 0 &&
          (size == 0 || (count <= flat.numel() / size && (stride == 0 || size - 1 <= (flat.numel() - last) / stride)));
      if (!fits) break;
      count *= size;
      last += size > 0 ? (size - 1) * stride : 0;
    }
    fits = fits && count <= flat.numel() && (count == 0 || last < flat.numel());
    if (!fits) damaged("a tensor lies outside its storage", name);
    built_ += static_cast<std::uintmax_t>(count) * flat.element_size();
    if (built_ > kMostCopies * bytes_) damaged("its tensors hold more than the file", name);
    return flat.as_strided(reference.sizes, reference.strides, reference.offset).clone();
  }

  std::filesystem::path file_;
  std::uintmax_t bytes_;
  caffe2::serialize::PyTorchStreamReader archive_;
  std::map<std::string, at::Tensor> storages_;
  std::vector<NamedTensor> tensors_;
  std::uintmax_t visited_ = 0, built_ = 0;
};

}  // namespace

std::vector<NamedTensor> read_torch_file(const std::filesystem::path& file) {
  if (!std::filesystem::is_regular_file(file))
    throw InputError({.what = "cannot read a file", .where = file.string(), .expected = "a file of torch.save"});
  try {
    return TorchFile(file).tensors();
  } catch (const c10::Error& error) {
    throw DamagedFile({.what = "a file of torch.save is damaged: " + std::string(error.what_without_backtrace()),
                       .where = file.string()});
  }
}

}  // namespace lockstep::train
