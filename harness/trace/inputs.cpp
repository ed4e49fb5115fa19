#include "harness/trace/inputs.h"

#include <algorithm>
#include <map>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep::trace {

std::set<std::string> written_files(const std::filesystem::path& run, std::int64_t world_size) {
  std::map<std::string, std::int64_t> read, written;  // the first time of all ranks
  const auto note = [](std::map<std::string, std::int64_t>& all, const Json& of_rank) {
    for (const auto& [file, time] : of_rank.items()) {
      const auto [known, is_new] = all.emplace(file, time.get<std::int64_t>());
      if (!is_new) known->second = std::min(known->second, time.get<std::int64_t>());
    }
  };
  for (std::int64_t rank = 0; rank < world_size; ++rank) {
    const std::filesystem::path path = run / ("files.rank" + std::to_string(rank) + ".json");
    if (!is_there(path)) continue;
    try {
      const Json times = Json::parse(read_file(path));
      note(read, times.at("read"));
      note(written, times.at("written"));
    } catch (const Json::exception&) {
      throw DamagedFile({.what = "the files that a rank read and wrote cannot be understood",
                         .where = path.string(),
                         .expected = "an object of 'read' and 'written', with times by name"});
    }
  }
  std::set<std::string> files;
  for (const auto& [file, time] : written) {
    if (!read.contains(file) || read[file] > time) files.insert(file);
  }
  return files;
}

Json inputs_in(const Json& header, const std::set<std::string>& written) {
  Json inputs = header.is_object() ? header.value("inputs", Json::object()) : Json::object();
  for (const std::string& file : written) inputs.erase(file);
  return inputs;
}

}  // namespace lockstep::trace
