#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/train/optimizer.h"

namespace lockstep::train {

/// The tensors of a state dict that Python's torch.save wrote, named by their keys, in their order; those of nested
/// dicts "outer.inner". Numbers, strings and None beside them are left out.
///
/// Nothing in the file is executed: it may hold tensors and containers, built by torch._utils._rebuild_tensor_v2,
/// torch._utils._rebuild_parameter and collections.OrderedDict; everything else is refused by name.
/// *Throws*: InputError when it cannot be read or holds something else; DamagedFile, with the offset in the pickle,
/// when it is damaged.
/// *Source*: torch/serialization.py and torch/_weights_only_unpickler.py, PyTorch 2.11; Python's Lib/pickletools.py.
std::vector<NamedTensor> read_torch_file(const std::filesystem::path& file);

}  // namespace lockstep::train
