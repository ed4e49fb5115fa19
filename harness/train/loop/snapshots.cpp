#include "harness/train/loop/snapshots.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <vector>

#include <ATen/ATen.h>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::train {
namespace {

constexpr const char* kPointer = "last_checkpoint";

/// Updates in a checkpoint's name; 0 for any other name.
std::int64_t number_of(const std::string& name) {
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(name.data(), name.data() + name.size(), number);
  return error == std::errc() && end == name.data() + name.size() ? number : 0;
}

/// Nothing, where there is no such folder.
std::vector<std::string> names_in(const std::filesystem::path& folder) {
  std::vector<std::string> names;
  std::error_code missing;
  for (const auto& entry : std::filesystem::directory_iterator(folder, missing))
    names.push_back(entry.path().filename().string());
  return names;
}

std::vector<std::string> checkpoints_in(const std::filesystem::path& run) {
  std::vector<std::string> names = names_in(run);
  std::erase_if(names, [](const std::string& name) { return number_of(name) == 0; });
  if (!names.empty()) return names;
  throw DamagedFile({.what = "the checkpoints are lost", .where = run.string(), .expected = "a folder for each"});
}

std::string name_pointed_to(const std::filesystem::path& run) {
  const std::filesystem::path file = run / kPointer;
  if (!std::filesystem::exists(file))
    throw DamagedFile({.what = "the file 'last_checkpoint' is lost", .where = file.string()});
  std::string name = read_file(file);
  if (name.ends_with('\n')) name.pop_back();
  if (number_of(name) > 0 && std::filesystem::is_directory(run / name)) return name;
  throw DamagedFile({.what = "the pointer to the last checkpoint names no folder",
                     .where = file.string(),
                     .expected = "the name of a folder beside it",
                     .actual = Json(name).dump(-1, ' ', true, Json::error_handler_t::replace)});
}

std::string picked_name(const std::filesystem::path& run, const recipe::LoadSpec& load) {
  if (load.pick == recipe::LoadPick::kLastCheckpoint) return name_pointed_to(run);
  const std::vector<std::string> names = checkpoints_in(run);
  if (load.pick == recipe::LoadPick::kHighestName) return *std::max_element(names.begin(), names.end());
  return *std::max_element(names.begin(), names.end(),
                           [](const auto& a, const auto& b) { return number_of(a) < number_of(b); });
}

/// Content of a string on every rank as it is on `root`.
void broadcast(std::string& content, std::int64_t root, Collective& collective) {
  const auto from_root = [&](const at::Tensor& tensor) {
    std::vector<at::Tensor> tensors{tensor};
    c10d::BroadcastOptions options;
    options.rootRank = root;
    collective.group()->broadcast(tensors, options)->wait();
    return tensors[0];
  };
  const auto size = from_root(at::scalar_tensor(static_cast<std::int64_t>(content.size()), at::kLong).view({1}));
  content.resize(static_cast<std::size_t>(size.item<std::int64_t>()));
  at::Tensor bytes = at::empty({static_cast<std::int64_t>(content.size())}, at::kByte);
  std::memcpy(bytes.mutable_data_ptr(), content.data(), content.size());
  bytes = from_root(bytes);
  std::memcpy(content.data(), bytes.const_data_ptr(), content.size());
}

}  // namespace

std::filesystem::path snapshot_folder(const std::filesystem::path& run, std::int64_t updates) {
  return run / std::to_string(updates);
}

void point_to_snapshot(const std::filesystem::path& run, std::int64_t updates) {
  write_file(run / kPointer, std::to_string(updates) + "\n");
}

std::filesystem::path pick_snapshot(const std::filesystem::path& run, const recipe::LoadSpec& load, std::int64_t rank) {
  const auto number = load.of_rank.empty() ? load.number : load.of_rank.at(static_cast<std::size_t>(rank));
  if (number) return snapshot_folder(run, *number);
  return load.of_rank.empty() ? run / picked_name(run, load) : std::filesystem::path();
}

std::filesystem::path shared_snapshot(const std::filesystem::path& own, const std::filesystem::path& received,
                                      std::int64_t owner, const launch::Place& place, Collective& collective) {
  std::string list = Json(place.rank == owner ? names_in(own) : std::vector<std::string>{}).dump();
  broadcast(list, owner, collective);
  if (place.rank != owner) make_directories(received);
  for (const Json& name : Json::parse(list)) {
    const std::string file = name.get<std::string>();
    std::string content = place.rank == owner ? read_file(own / file) : "";
    broadcast(content, owner, collective);
    if (place.rank != owner) write_file(received / file, content);
  }
  return place.rank == owner ? own : received;
}

std::filesystem::path newest_snapshot(const std::filesystem::path& own, const std::filesystem::path& received,
                                      const launch::Place& place, Collective& collective) {
  at::Tensor updates = at::zeros({place.world_size}, at::kLong);
  updates[place.rank] = number_of(own.filename().string());
  updates = collective.sum(updates);
  const auto* const first = updates.const_data_ptr<std::int64_t>();
  const std::int64_t newest = std::max_element(first, first + place.world_size) - first;
  return shared_snapshot(own, received, newest, place, collective);
}

}  // namespace lockstep::train
