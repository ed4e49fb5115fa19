#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/recipe/train_spec.h"

namespace lockstep::scenario {

/// An option of the data that names a file or folder.
struct DataFile {
  std::string option;  ///< "path", "images"
  std::string name;    ///< among the files of a RunSpec: "data", "data.images"
  bool is_folder = false;
};

/// Files of a kind of data, as the schema marks them, in alphabetical order.
std::vector<DataFile> files_of(const recipe::DataChoice& data);

/// Reads a completed "batch" object.
recipe::BatchSpec batch_spec_from(const Json& completed);

/// Reads a completed "train" object.
recipe::TrainSpec train_spec_from(const Json& completed);

/// Checks what the schema cannot. *Throws*: InputError that names the dotted path and `origin`.
void validate(const recipe::TrainSpec& spec, std::int64_t world_size, const std::string& origin);

/// Validates a schedule alone. `path`: of the object that holds it, "train" or "promises".
void validate_schedule(const recipe::TrainSpec& spec, const std::string& origin, const std::string& path);

}  // namespace lockstep::scenario
