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

/// A value in a pickle of tensors and containers. Values own nothing: they are shared, and containers may hold each
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

/// Location of a tensor's elements in a torch.save archive.
struct StorageReference {
  const PickledGlobal* type = nullptr;  ///< "torch", "FloatStorage"
  std::string_view key;                 ///< name of the record below data/
  std::int64_t elements = 0;
};

/// A tensor as torch._utils._rebuild_tensor_v2 would build it. Sizes and strides are not validated.
struct TensorReference {
  const StorageReference* storage = nullptr;
  std::int64_t offset = 0;
  const PickledList* sizes = nullptr;
  const PickledList* strides = nullptr;
};

/// A pickle's value and all objects that it points to.
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

/// Reads a pickle of protocol 2 without executing anything. It takes at most about 16 times the pickle's size in
/// memory. `origin` names the file.
/// *Throws*: DamagedFile, with the offset, for bytes that are invalid or that no pickle of this size needs; InputError
/// for a global that torch_file.h does not list.
Unpickled unpickle(std::string_view bytes, const std::string& origin);

}  // namespace lockstep::train
