#pragma once

#include <cstdint>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <variant>
#include <vector>

namespace lockstep::train {

/// Where a tensor's elements lie in a torch.save archive.
struct StorageReference {
  std::string type;  ///< "torch.FloatStorage"
  std::string key;   ///< name of the record below data/
  std::int64_t elements = 0;
};

/// A tensor as torch._utils._rebuild_tensor_v2 would build it.
struct TensorReference {
  StorageReference storage;
  std::int64_t offset = 0;
  std::vector<std::int64_t> sizes, strides;
};

struct PickledList;
struct PickledDict;

/// A global name: "torch._utils._rebuild_tensor_v2".
struct PickledGlobal {
  std::string name;
};

/// What a pickle of tensors and containers can hold.
using Pickled = std::variant<std::monostate, bool, std::int64_t, double, std::string, PickledGlobal,
                             std::shared_ptr<StorageReference>, std::shared_ptr<TensorReference>,
                             std::shared_ptr<PickledList>, std::shared_ptr<PickledDict>>;

/// A list or a tuple.
struct PickledList {
  std::vector<Pickled> items;
};

/// A dict or an OrderedDict, in its order.
struct PickledDict {
  std::vector<std::pair<Pickled, Pickled>> items;
};

/// Reads a pickle of protocol 2 without executing anything.
/// *Throws*: DamagedFile with the offset of what cannot be understood; InputError for what is understood and refused:
/// a global that is none of torch_file.h's. `origin` names the file.
Pickled unpickle(std::string_view bytes, const std::string& origin);

}  // namespace lockstep::train
