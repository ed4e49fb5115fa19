#include "harness/launch/worker_failure.h"

#include <exception>

#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::launch {

std::filesystem::path failure_path(const std::filesystem::path& run_directory, std::int64_t rank) {
  return run_directory / ("rank" + std::to_string(rank) + ".failure.json");
}

void write_failure(const std::filesystem::path& path, const WorkerFailure& failure) noexcept {
  try {
    const Json object = {
        {"what", failure.what}, {"where", failure.where}, {"damaged", failure.damaged}, {"missing", failure.missing}};
    write_file(path, object.dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const std::exception&) {  // the disk is full, for instance
  }
}

std::optional<WorkerFailure> read_failure(const std::filesystem::path& path) {
  try {
    if (!std::filesystem::exists(path)) return std::nullopt;
    const Json object = parse_json(read_file(path), path.string());
    return WorkerFailure{.what = object.at("what").get<std::string>(),
                         .where = object.at("where").get<std::string>(),
                         .damaged = object.at("damaged").get<bool>(),
                         .missing = object.at("missing").get<bool>()};
  } catch (const std::exception&) {  // written by whom?
    return std::nullopt;
  }
}

}  // namespace lockstep::launch
