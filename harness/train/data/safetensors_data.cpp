#include <algorithm>
#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/train/files/stored_data.h"

namespace lockstep::train {
namespace {

StoredArray named(const std::vector<trace::StoredTensor>& tensors, const std::string& name, const std::string& path) {
  std::vector<std::string> names;
  for (const trace::StoredTensor& tensor : tensors) {
    if (tensor.name == name) return {.tensor = tensor, .where = path + ", tensor '" + name + "'"};
    names.push_back(tensor.name);
  }
  throw InputError({.what = "a safetensors file has no tensor of this name",
                    .where = path,
                    .expected = "one of: " + join(names, ", "),
                    .actual = "'" + name + "'",
                    .next = suggest(name, names)});
}

}  // namespace

Dataset make_safetensors_data(const Json& options) {
  const auto path = options.at("path").get<std::string>();
  try {
    const std::vector<trace::StoredTensor> tensors = trace::read_safetensors(path);
    return dataset_from(named(tensors, options.at("inputs").get<std::string>(), path),
                        named(tensors, options.at("labels").get<std::string>(), path), options);
  } catch (const DamagedFile& error) {
    throw InputError(error.problem());  // the user's file, not our evidence
  }
}

}  // namespace lockstep::train
