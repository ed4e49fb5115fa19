#include "harness/trace/checkpoint_files.h"

#include <sstream>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::trace {
namespace {

CheckpointFile file_in(const std::string& line, std::int64_t rank, const std::string& where) {
  try {
    const Json entry = Json::parse(line);
    const Json& sha256 = entry.at("sha256");
    const Json file = entry.value("file", Json()), digests = entry.value("digests", Json());
    CheckpointFile found{.written = entry.at("what") == "written",
                         .updates = entry.at("updates").get<std::int64_t>(),
                         .sha256 = sha256.is_string() ? sha256.get<std::string>() : "",
                         .rank = rank,
                         .name = file.is_string() ? std::filesystem::path(file.get<std::string>()).filename() : "",
                         .tensors = std::nullopt};
    if (!digests.is_null()) found.tensors = digests.get<std::map<std::string, std::string>>();
    return found;
  } catch (const Json::exception&) {
    throw DamagedFile({.what = "a line about a checkpoint cannot be understood", .where = where, .actual = line});
  }
}

}  // namespace

std::vector<CheckpointFile> read_checkpoint_files(const std::filesystem::path& run, std::int64_t world_size) {
  std::vector<CheckpointFile> files;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    const std::filesystem::path path = run / ("checkpoints.rank" + std::to_string(rank) + ".jsonl");
    if (!is_there(path)) continue;
    std::istringstream lines(read_file(path));
    for (std::string line; std::getline(lines, line);) {
      if (lines.eof()) break;  // torn: the process ended while it wrote
      files.push_back(file_in(line, rank, path.string()));
    }
  }
  return files;
}

}  // namespace lockstep::trace
