#include "harness/train/files/pickled_types.h"

#include <algorithm>
#include <iterator>
#include <string>

namespace lockstep::train {
namespace {

constexpr std::string_view kBlockedModules[] = {"os", "posix", "nt", "sys", "subprocess", "pty", "runpy", "importlib"};
constexpr std::string_view kBlockedFunctions[] = {"eval", "exec", "execfile", "compile", "open", "input", "__import__"};

/// What files hold beside tensors: a value, or an object of that class, without tensors.
struct PlainType {
  std::string_view name;
  std::string_view value;
};

constexpr PlainType kPlainTypes[] = {{"_codecs.encode", "bytes"},
                                     {"builtins.bytearray", "bytes"},
                                     {"builtins.bytes", "bytes"},
                                     {"builtins.set", "a set"},
                                     {"builtins.frozenset", "a set"},
                                     {"builtins.complex", "a number"},
                                     {"numpy.core.multiarray.scalar", "a number"},
                                     {"numpy._core.multiarray.scalar", "a number"},
                                     {"numpy.dtype", ""},
                                     {"torch.device", ""},
                                     {"torch.serialization._get_layout", ""},
                                     {"argparse.Namespace", ""},
                                     {"pathlib.Path", ""},
                                     {"pathlib.PosixPath", ""},
                                     {"pathlib.PurePosixPath", ""},
                                     {"pathlib.WindowsPath", ""},
                                     {"datetime.datetime", ""},
                                     {"datetime.timedelta", ""}};

bool holds(const auto& names, std::string_view name) {
  return std::find(std::begin(names), std::end(names), name) != std::end(names);
}

/// Protocol 2 writes Python 2's name of the module.
bool is_builtin(const PickledGlobal& global) { return global.module == "builtins" || global.module == "__builtin__"; }

}  // namespace

bool is_blocked(const PickledGlobal& global) {
  const std::string_view package = global.module.substr(0, global.module.find('.'));
  return holds(kBlockedModules, package) || (is_builtin(global) && holds(kBlockedFunctions, global.name));
}

PickledOther other_built_by(const PickledGlobal& global) {
  const std::string name = is_builtin(global) ? "builtins." + std::string(global.name) : name_of(global);
  for (const PlainType& plain : kPlainTypes) {
    if (name != plain.name) continue;
    if (plain.value.empty()) return {.type = &global, .is_plain = true};
    return {.what = plain.value, .is_plain = true};
  }
  return {.type = &global};
}

}  // namespace lockstep::train
