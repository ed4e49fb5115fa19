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
struct PickledOther;

/// A value in a pickle of tensors and containers. Values own nothing: they are shared, and containers may hold each
/// other.
using Pickled =
    std::variant<std::monostate, bool, std::int64_t, double, const std::string_view*, const PickledGlobal*,
                 const StorageReference*, const TensorReference*, PickledList*, PickledDict*, const PickledOther*>;

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

/// A value of another kind: bytes, a set, an object of some class. It is never built, and its content is dropped.
struct PickledOther {
  const PickledGlobal* type = nullptr;  ///< class or function that would build it; null: nobody would
  std::string_view what;                ///< what it is, where there is no type
  bool is_plain = false;                ///< it is known to hold no tensor
};

/// "argparse.Namespace"
std::string name_of(const PickledOther& other);

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
  std::deque<PickledOther> others;
};

/// "torch._utils._rebuild_tensor_v2"
std::string name_of(const PickledGlobal& global);

/// Reads a pickle of protocols 2 to 5 without executing anything. It takes at most about 16 times the pickle's size in
/// memory. `origin` names the file.
/// *Throws*: DamagedFile, with the offset, for bytes that are invalid; InputError for a function of Python that no
/// checkpoint needs, such as os.system, and for more values than a pickle of tensors has.
Unpickled unpickle(std::string_view bytes, const std::string& origin);

}  // namespace lockstep::train
