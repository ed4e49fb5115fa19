#pragma once

#include "harness/train/files/unpickler.h"

namespace lockstep::train {

/// Whether no checkpoint needs this function or module: what calls it means harm, such as os.system.
/// *Source*: the blocked modules of torch/_weights_only_unpickler.py, PyTorch 2.11; the others here do the same.
bool is_blocked(const PickledGlobal& global);

/// The value that this class or function would build, of which at most the name is kept. Bytes, sets, options, paths
/// and the like are known to hold no tensor.
PickledOther other_built_by(const PickledGlobal& global);

}  // namespace lockstep::train
