#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/train/optimizer/optimizer.h"

namespace lockstep::train {

/// Reads the tensors of a state dict that Python's torch.save wrote, in order. Names are the keys, "outer.inner" for
/// nested dicts. `under`: only what lies under this key; empty: all.
///
/// Nothing in the file is executed. Tensors are those of torch._utils._rebuild_tensor_v2, bare, as parameters or with
/// attributes. Numbers, strings, bytes, sets, devices, options and None are skipped. Any other object is skipped
/// outside of `under`, and refused by its name where weights are looked for. *Throws*: InputError if it cannot be read
/// or holds something else; DamagedFile, with the offset in the pickle, if it is damaged. *Source*:
/// torch/serialization.py and torch/_weights_only_unpickler.py, PyTorch 2.11; Python's Lib/pickletools.py.
std::vector<NamedTensor> read_torch_file(const std::filesystem::path& file, const std::string& under = "");

}  // namespace lockstep::train
