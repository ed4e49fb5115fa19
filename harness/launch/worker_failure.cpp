#include "harness/launch/worker_failure.h"

#include <exception>

#include "harness/base/files.h"

namespace lockstep::launch {

std::filesystem::path failure_path(const std::filesystem::path& run_directory, std::int64_t rank) {
  return run_directory / ("rank" + std::to_string(rank) + ".failure.json");
}

std::filesystem::path command_failure_path(const std::filesystem::path& run_directory) {
  return run_directory / "command.failure.json";
}

Json json_of(const WorkerFailure& failure) {
  Json json = {
      {"what", failure.what}, {"where", failure.where}, {"damaged", failure.damaged}, {"missing", failure.missing}};
  if (failure.at_ns != 0) json["at_ns"] = failure.at_ns;
  if (!failure.nccl_interfaces.empty()) json["nccl_interfaces"] = failure.nccl_interfaces;
  return json;
}

WorkerFailure failure_from(const Json& json) {
  return {.what = json.at("what").get<std::string>(),
          .where = json.at("where").get<std::string>(),
          .damaged = json.at("damaged").get<bool>(),
          .missing = json.at("missing").get<bool>(),
          .at_ns = json.value("at_ns", std::int64_t{0}),
          .nccl_interfaces = json.value("nccl_interfaces", "")};
}

void write_failure(const std::filesystem::path& path, const WorkerFailure& failure) noexcept {
  try {
    write_file(path, json_of(failure).dump(-1, ' ', false, Json::error_handler_t::replace) + "\n");
  } catch (const std::exception&) {  // the disk is full, for instance
  }
}

std::optional<WorkerFailure> read_failure(const std::filesystem::path& path) {
  try {
    if (!std::filesystem::exists(path)) return std::nullopt;
    return failure_from(parse_json(read_file(path), path.string()));
  } catch (const std::exception&) {  // written by whom?
    return std::nullopt;
  }
}

}  // namespace lockstep::launch
