#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/train/optimizer.h"

namespace lockstep::train {

/// Reads the tensors of a state dict that Python's torch.save wrote, in order. Names are the keys, "outer.inner" for
/// nested dicts. Numbers, strings and None are skipped.
///
/// Nothing in the file is executed. It may hold tensors and containers built by torch._utils._rebuild_tensor_v2,
/// torch._utils._rebuild_parameter and collections.OrderedDict. Everything else is refused by name.
/// *Throws*: InputError if it cannot be read or holds something else; DamagedFile, with the offset in the pickle, if it
/// is damaged.
/// *Source*: torch/serialization.py and torch/_weights_only_unpickler.py, PyTorch 2.11; Python's Lib/pickletools.py.
std::vector<NamedTensor> read_torch_file(const std::filesystem::path& file);

}  // namespace lockstep::train
