#include "harness/scenario/changes.h"

#include <algorithm>

namespace lockstep::scenario {

std::string Change::text() const { return path + " " + left.dump() + " -> " + right.dump(); }

std::vector<Change> changes_between(const Json& left, const Json& right, const std::string& path) {
  if (left == right) return {};
  const bool objects = left.is_object() && right.is_object();
  if (!objects || left.value("kind", Json()) != right.value("kind", Json())) return {{path, left, right}};
  Json keys = left;
  keys.update(right);
  std::vector<Change> changes;
  for (const std::string& key : keys_of(keys)) {
    for (Change& change :
         changes_between(left.value(key, Json()), right.value(key, Json()), path.empty() ? key : path + "." + key))
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
    std::string pointer = "/" + change.path;
    std::replace(pointer.begin(), pointer.end(), '.', '/');
    patch[Json::json_pointer(pointer)] = std::move(value);
  }
  return patch;
}

}  // namespace lockstep::scenario
