#include "harness/trace/rest.h"

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"

namespace lockstep::trace {

std::optional<Rest> read_rest(const std::filesystem::path& run, std::int64_t rank) {
  const std::filesystem::path path = run / ("rest.rank" + std::to_string(rank) + ".json");
  if (!is_there(path)) return std::nullopt;
  const std::string text = read_file(path);
  try {
    const Json entry = Json::parse(text);
    return Rest{.micro_batches = entry.at("micro_batches").get<std::int64_t>(),
                .losses = entry.at("losses").get<std::vector<std::string>>(),
                .samples = entry.at("samples").get<std::vector<std::int64_t>>()};
  } catch (const Json::exception&) {
    throw DamagedFile({.what = "passes after the last update cannot be understood",
                       .where = path.string(),
                       .actual = text.substr(0, 200)});
  }
}

}  // namespace lockstep::trace
