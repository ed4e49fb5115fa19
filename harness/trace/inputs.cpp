#include "harness/trace/inputs.h"

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::trace {

std::set<std::string> written_files(const std::filesystem::path& run, std::int64_t world_size) {
  std::set<std::string> files;
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    const std::filesystem::path path = run / ("written.rank" + std::to_string(rank) + ".json");
    if (!is_there(path)) continue;
    try {
      files.merge(Json::parse(read_file(path)).get<std::set<std::string>>());
    } catch (const Json::exception&) {
      throw DamagedFile({.what = "the files that a rank wrote cannot be understood",
                         .where = path.string(),
                         .expected = "a list of names"});
    }
  }
  return files;
}

Json inputs_in(const Json& header, const std::set<std::string>& written) {
  Json inputs = header.is_object() ? header.value("inputs", Json::object()) : Json::object();
  for (const std::string& file : written) inputs.erase(file);
  return inputs;
}

std::vector<std::string> inputs_that_differ(const Json& left, const Json& right) {
  std::vector<std::string> files;
  for (const auto& [file, digest] : left.items()) {
    if (right.value(file, Json()) != digest) files.push_back(file);
  }
  for (const auto& [file, digest] : right.items()) {
    if (!left.contains(file)) files.push_back(file);
  }
  return files;
}

}  // namespace lockstep::trace
