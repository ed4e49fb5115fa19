#pragma once

#include <cstdint>
#include <deque>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::train {

struct PickledGlobal;
struct PickledList;
struct PickledDict;
struct StorageReference;
struct TensorReference;

/// What a pickle of tensors and containers can hold. Nothing is owned: values are shared, and containers may hold each
/// other.
using Pickled = std::variant<std::monostate, bool, std::int64_t, double, const std::string_view*, const PickledGlobal*,
                             const StorageReference*, const TensorReference*, PickledList*, PickledDict*>;

/// A global name: "torch._utils", "_rebuild_tensor_v2".
struct PickledGlobal {
  std::string_view module, name;
};

/// A list or a tuple.
struct PickledList {
  std::vector<Pickled> items;
};

/// A dict or an OrderedDict, in its order.
struct PickledDict {
  std::vector<std::pair<Pickled, Pickled>> items;
};

/// Where a tensor's elements lie in a torch.save archive.
struct StorageReference {
  const PickledGlobal* type = nullptr;  ///< "torch", "FloatStorage"
  std::string_view key;                 ///< name of the record below data/
  std::int64_t elements = 0;
};

/// A tensor as torch._utils._rebuild_tensor_v2 would build it. Sizes and strides may hold anything.
struct TensorReference {
  const StorageReference* storage = nullptr;
  std::int64_t offset = 0;
  const PickledList* sizes = nullptr;
  const PickledList* strides = nullptr;
};

/// A pickle's value, and everything that values point to.
/// *Lifetime*: strings are views into the pickle's bytes.
struct Unpickled {
  Pickled value;
  std::deque<std::string_view> strings;
  std::deque<PickledGlobal> globals;
  std::deque<StorageReference> storages;
  std::deque<TensorReference> tensors;
  std::deque<PickledList> lists;
  std::deque<PickledDict> dicts;
};

/// "torch._utils._rebuild_tensor_v2"
std::string name_of(const PickledGlobal& global);

/// Reads a pickle of protocol 2 without executing anything, in about 16 times the memory of its bytes at most.
/// *Throws*: DamagedFile with the offset of what cannot be understood, or of what no pickle of this size needs;
/// InputError for what is understood and refused: a global that is none of torch_file.h's. `origin` names the file.
Unpickled unpickle(std::string_view bytes, const std::string& origin);

}  // namespace lockstep::train
