#include "harness/scenario/changes.h"

#include <utility>

#include "harness/base/text.h"

namespace lockstep::scenario {

std::string Change::path() const { return join(keys, "."); }

std::string Change::text() const { return path() + " " + left.dump() + " -> " + right.dump(); }

std::vector<Change> changes_between(const Json& left, const Json& right, const std::vector<std::string>& keys) {
  if (left == right) return {};
  const bool objects = left.is_object() && right.is_object();
  if (!objects || left.value("kind", Json()) != right.value("kind", Json())) return {{keys, left, right}};
  Json all = left;
  all.update(right);
  std::vector<Change> changes;
  for (const std::string& key : keys_of(all)) {
    std::vector<std::string> below = keys;
    below.push_back(key);
    for (Change& change : changes_between(left.value(key, Json()), right.value(key, Json()), below))
      changes.push_back(std::move(change));
  }
  return changes;
}

Json patch_of(const std::vector<Change>& changes) {
  Json patch = Json::object();
  for (const Change& change : changes) {
    Json value = change.right;
    if (value.is_object() && change.left.is_object()) {
      for (const std::string& key : keys_of(change.left)) {
        if (!value.contains(key)) value[key] = nullptr;
      }
    }
    Json::json_pointer at;
    for (const std::string& key : change.keys) at /= key;
    patch[at] = std::move(value);
  }
  return patch;
}

}  // namespace lockstep::scenario
