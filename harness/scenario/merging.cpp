#include "harness/scenario/merging.h"

#include <algorithm>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/override.h"

namespace lockstep::scenario {
namespace {

/// Variants of one scenario: a matrix multiplies without end.
constexpr std::size_t kMostVariants = 10000;

/// A value as part of a name: "0.1", "sgd_lr0.1_nesterov", "1024_700", "default" for an empty object.
std::string label_of(const Json& value) {
  if (value.is_object()) {
    std::vector<std::string> parts;
    if (value.contains("kind")) parts.push_back(label_of(value["kind"]));
    for (const auto& [key, part] : value.items()) {
      if (key == "kind") continue;
      parts.push_back(part == Json(true) ? key : part == Json(false) ? "no-" + key : key + label_of(part));
    }
    return parts.empty() ? "default" : join(parts, "_");
  }
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& part : value) parts.push_back(label_of(part));
    return join(parts, "_");
  }
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return text;
}

/// Every patch with every combination of the matrix.
std::vector<Patch> expand_matrix(std::vector<Patch> patches, const Json& matrix, const std::string& file) {
  for (const auto& [path, values] : matrix.items()) {
    if (patches.size() * values.size() > kMostVariants)
      throw InputError({.what = "the matrix makes too many variants",
                        .where = file + ": matrix." + path,
                        .expected = "at most " + std::to_string(kMostVariants),
                        .actual = std::to_string(patches.size()) + " x " + std::to_string(values.size())});
    std::vector<Patch> expanded;
    const std::string last = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
    for (const Patch& patch : patches) {
      for (const Json& value : values) {
        Patch next = patch;
        const std::string label = last + "=" + label_of(value);
        next.name = patch.name.empty() ? label : patch.name + "-" + label;
        set_path(next.changes, path, value, file + ": matrix." + path);
        expanded.push_back(std::move(next));
      }
    }
    patches = std::move(expanded);
  }
  return patches;
}

/// The ways to give a batch exclude each other; a variant that gives one means that one.
void take_one_batch(Json& batch, const Json& change) {
  const auto given = [&](const char* key) { return change.contains(key); };
  if (given("global") + given("per_rank") + given("per_node") != 1) return;
  for (const char* key : {"global", "per_rank", "per_node"}) {
    if (!given(key)) batch.erase(key);
  }
  if (!given("per_node")) batch.erase("ranks_per_node");
}

}  // namespace

Json shared_by_variants(const Json& document) {
  Json shared = Json::object();
  for (const char* part : {"world_size", "train", "program", "promises", "launch"}) {
    if (document.contains(part)) shared[part] = document[part];
  }
  return shared;
}

std::vector<Patch> patches_of(const Json& variants, const Json& matrix, const std::string& file) {
  std::vector<Patch> patches;
  for (const auto& [variant, changes] : variants.items()) patches.push_back({variant, changes});
  if (patches.empty()) patches.push_back({matrix.empty() ? "main" : "", Json::object()});
  return expand_matrix(std::move(patches), matrix, file);
}

void take_other_kinds(Json& merged, const Json& before, const Json& changes) {
  for (const std::string part : {"train", "promises"}) {
    if (!changes.contains(part)) continue;
    const Json old = before.value(part, Json::object());
    for (const auto& [key, change] : changes[part].items()) {
      const bool other_kind = change.is_object() && change.contains("kind") && old.contains(key) &&
                              old[key].is_object() && old[key].value("kind", Json()) != change["kind"];
      if (other_kind) merged[part][key] = change;
      if (key == "batch" && change.is_object()) take_one_batch(merged[part]["batch"], change);
    }
  }
}

Json with_changes(const Json& base, const Json& changes) {
  Json merged = base;
  merge_json(merged, changes);
  take_other_kinds(merged, base, changes);
  return merged;
}

}  // namespace lockstep::scenario
