#include "harness/train/loop/state_dict.h"

#include <algorithm>
#include <functional>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::train {
namespace {

auto begins_with(const std::string& prefix) {
  return [prefix](const NamedTensor& tensor) { return tensor.name.starts_with(prefix); };
}

/// The tensors of the chosen entry, without the prefix that all of them have, with the one that they get.
std::vector<NamedTensor> unwrapped(std::vector<NamedTensor> loaded, const recipe::KeySpec& keys) {
  if (!keys.under.empty()) {
    std::erase_if(loaded, std::not_fn(begins_with(keys.under + ".")));
    for (NamedTensor& tensor : loaded) tensor.name.erase(0, keys.under.size() + 1);
  }
  if (std::all_of(loaded.begin(), loaded.end(), begins_with(keys.strip))) {
    for (NamedTensor& tensor : loaded) tensor.name.erase(0, keys.strip.size());
  }
  for (NamedTensor& tensor : loaded) tensor.name.insert(0, keys.prepend);
  return loaded;
}

/// The loaded tensor for one of the model's names; nothing when there is none.
const NamedTensor* source_of(const std::string& name, const std::vector<NamedTensor>& loaded, recipe::KeyMatch match) {
  const NamedTensor* longest = nullptr;
  for (const NamedTensor& tensor : loaded) {
    const bool fits = match == recipe::KeyMatch::kSuffix ? name.ends_with(tensor.name) : name == tensor.name;
    if (fits && (longest == nullptr || tensor.name.size() > longest->name.size())) longest = &tensor;
  }
  return longest;
}

/// Names that a message lists, of each side.
constexpr std::size_t kShownNames = 5;

std::vector<std::string> names_of(const std::vector<NamedTensor>& tensors) {
  std::vector<std::string> names;
  for (const NamedTensor& tensor : tensors) names.push_back(tensor.name);
  return names;
}

/// Shows the names of both sides: which prefix is in the way can be seen.
[[noreturn]] void refuse_names(const std::string& what, const std::vector<std::string>& models,
                               const std::vector<std::string>& loaded, const std::string& without) {
  throw InputError({.what = what,
                    .where = "train.checkpoint.load",
                    .expected = "of the model: " + some_of(models, kShownNames),
                    .actual = loaded.empty() ? without : "in the file: " + some_of(loaded, kShownNames),
                    .next = "set train.checkpoint.load.keys: under, strip, skip, match, or strict = false"});
}

}  // namespace

std::vector<std::string> inert_prefixes(const std::vector<NamedTensor>& loaded, const recipe::KeySpec& keys) {
  std::vector<std::string> inert;
  const std::vector<NamedTensor> names = unwrapped(loaded, keys);
  for (const std::string& prefix : keys.skip) {
    if (std::none_of(names.begin(), names.end(), begins_with(prefix))) inert.push_back(prefix);
  }
  return inert;
}

std::vector<NamedTensor> match_keys(std::vector<NamedTensor> loaded, const std::vector<NamedTensor>& model,
                                    const recipe::KeySpec& keys) {
  loaded = unwrapped(std::move(loaded), keys);
  for (const std::string& prefix : keys.skip) std::erase_if(loaded, begins_with(prefix));
  std::vector<NamedTensor> matched;
  std::vector<std::string> missing, left_over;
  std::vector<const NamedTensor*> used;
  for (const NamedTensor& target : model) {
    const NamedTensor* source = source_of(target.name, loaded, keys.match);
    if (source == nullptr) {
      const bool skipped = std::any_of(keys.skip.begin(), keys.skip.end(),
                                       [&](const std::string& prefix) { return target.name.starts_with(prefix); });
      if (!skipped) missing.push_back(target.name);
      continue;
    }
    matched.push_back({target.name, source->tensor});
    used.push_back(source);
  }
  for (const NamedTensor& tensor : loaded) {
    if (std::find(used.begin(), used.end(), &tensor) == used.end()) left_over.push_back(tensor.name);
  }
  const std::string without = loaded.empty() ? "no tensor is left in the file" : "all others of the file are matched";
  if (keys.strict && !missing.empty())
    refuse_names("the checkpoint lacks tensors of the model", missing, left_over, without);
  if (keys.strict && !left_over.empty())
    refuse_names("the checkpoint has tensors that the model lacks", names_of(model), left_over, without);
  if (matched.empty() && !missing.empty())
    refuse_names("the checkpoint has no tensor of the model", missing, left_over, without);
  return matched;
}

}  // namespace lockstep::train
