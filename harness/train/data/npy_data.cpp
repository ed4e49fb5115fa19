#include <string>

#include "harness/train/files/npy_file.h"
#include "harness/train/files/stored_data.h"

namespace lockstep::train {

Dataset make_npy_data(const Json& options) {
  const auto inputs = options.at("inputs").get<std::string>(), labels = options.at("labels").get<std::string>();
  return dataset_from({.tensor = read_npy(inputs), .where = inputs}, {.tensor = read_npy(labels), .where = labels},
                      options);
}

}  // namespace lockstep::train
