#include "harness/launch/place/arguments.h"

#include <array>
#include <string_view>

namespace lockstep::launch {
namespace {

struct Spelling {
  std::string_view argument;  ///< up to its value
  const char* variable;       ///< that carries the value; no variable of an environment has a '='
};

/// torch.distributed.launch wrote an underscore up to torch 1.13.
constexpr std::array<Spelling, 7> kSpellings = {{{"rank=", "rank="},
                                                 {"world_size=", "world_size="},
                                                 {"local_rank=", "local_rank="},
                                                 {"master_addr=", "master_addr="},
                                                 {"master_port=", "master_port="},
                                                 {"--local_rank=", "--local-rank="},
                                                 {"--local-rank=", "--local-rank="}}};

}  // namespace

bool is_place_argument(const std::string& argument) {
  for (const Spelling& spelling : kSpellings) {
    if (argument.starts_with(spelling.argument)) return true;
  }
  return false;
}

Environment variables_of_arguments(const std::vector<std::string>& arguments) {
  Environment variables;
  for (const std::string& argument : arguments) {
    for (const Spelling& spelling : kSpellings) {
      if (!argument.starts_with(spelling.argument)) continue;
      const std::string value = argument.substr(spelling.argument.size());
      const auto [before, is_new] = variables.emplace(spelling.variable, value);
      if (!is_new && before->second != value)
        refuse_contradiction(std::string(spelling.variable) + " (given twice)", "one value",
                             before->second + " and " + value, "give each argument once");
    }
  }
  return variables;
}

Place place_of_arguments(Reader& reader) {
  constexpr std::int64_t kLastPort = 65535;
  Place place;
  place.world_size = reader.required("world_size=", {1, kMostRanks});
  place.rank = reader.required("rank=", {0, place.world_size - 1});
  place.local_rank = reader.number("local_rank=", {0, place.world_size - 1}).value_or(place.rank);
  const auto address = reader.text("master_addr=");
  const auto port = reader.number("master_port=", {1, kLastPort});
  if (!port) read_master(reader, place);
  if (address) place.master_address = *address;
  if (port) place.master_port = static_cast<std::uint16_t>(*port);
  return place;
}

}  // namespace lockstep::launch
