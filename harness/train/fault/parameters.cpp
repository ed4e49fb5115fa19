#include "harness/train/fault/parameters.h"

#include <algorithm>

#include <fnmatch.h>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::train {

ParameterChoice::ParameterChoice(const Json& options) : pattern_(options.at("parameter").get<std::string>()) {}

bool ParameterChoice::include(const std::string& name) const {
  return pattern_.empty() || ::fnmatch(pattern_.c_str(), name.c_str(), 0) == 0;
}

const NamedTensor& ParameterChoice::first_of(const std::vector<NamedTensor>& parameters) const {
  const auto found =
      std::find_if(parameters.begin(), parameters.end(), [&](const NamedTensor& one) { return include(one.name); });
  LOCKSTEP_CHECK(found != parameters.end());
  return *found;
}

void ParameterChoice::require_in(const std::vector<NamedTensor>& parameters) const {
  std::vector<std::string> names;
  for (const NamedTensor& parameter : parameters) names.push_back(parameter.name);
  if (std::any_of(names.begin(), names.end(), [&](const std::string& name) { return include(name); })) return;
  throw InputError({.what = "a fault names a parameter that the model lacks",
                    .where = "train.faults",
                    .expected = "one of: " + join(names, ", "),
                    .actual = "'" + pattern_ + "'",
                    .next = suggest(pattern_, names)});
}

}  // namespace lockstep::train
