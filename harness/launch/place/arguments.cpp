#include "harness/launch/place/arguments.h"

#include <array>
#include <charconv>
#include <string_view>

namespace lockstep::launch {
namespace {

struct Spelling {
  std::string_view argument;  ///< up to its value
  const char* variable;       ///< that carries the value; no variable of an environment has a '='
};

/// torch.distributed.launch wrote an underscore up to torch 1.13.
constexpr std::array<Spelling, 8> kSpellings = {{{"rank=", "rank="},
                                                 {"world_size=", "world_size="},
                                                 {"local_rank=", "local_rank="},
                                                 {"master_addr=", "master_addr="},
                                                 {"master_port=", "master_port="},
                                                 {"init_method=", "init_method="},
                                                 {"--local_rank=", "--local-rank="},
                                                 {"--local-rank=", "--local-rank="}}};

constexpr std::int64_t kLastPort = 65535;

/// "host" and "29500" of "tcp://host:29500", or "::1" of "tcp://[::1]:29500".
void read_tcp(const std::string& rest, const std::string& method, Place& place) {
  const std::size_t colon = rest.rfind(':');
  const std::string port = colon == std::string::npos ? "" : rest.substr(colon + 1);
  place.master_address = rest.substr(0, colon);
  if (place.master_address.starts_with('[') && place.master_address.ends_with(']'))
    place.master_address = place.master_address.substr(1, place.master_address.size() - 2);
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(port.data(), port.data() + port.size(), number);
  if (place.master_address.empty() || error != std::errc() || end != port.data() + port.size() || number < 1 ||
      number > kLastPort)
    refuse("init_method=", "tcp://HOST:PORT, with a port from 1 to 65535", method);
  place.master_port = static_cast<std::uint16_t>(number);
}

/// Whether the method says where the ranks meet.
bool read_init_method(Reader& reader, Place& place) {
  constexpr std::string_view kTcp = "tcp://", kFile = "file://";
  const auto method = reader.text("init_method=");
  if (!method || *method == "env://") return false;
  if (method->starts_with(kTcp)) {
    read_tcp(method->substr(kTcp.size()), *method, place);
  } else if (method->starts_with(kFile) && method->size() > kFile.size() + 1 && (*method)[kFile.size()] == '/') {
    place.store_file = method->substr(kFile.size());
  } else {
    refuse("init_method=", "tcp://HOST:PORT, file:///PATH or env://", *method);
  }
  for (const char* other : {"master_addr=", "master_port="}) {
    if (reader.has(other))
      refuse_contradiction(std::string("init_method= and ") + other, "one of them", *method, "leave one of them out");
  }
  return true;
}

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
  Place place;
  place.world_size = reader.required("world_size=", {1, kMostRanks});
  place.rank = reader.required("rank=", {0, place.world_size - 1});
  place.local_rank = reader.number("local_rank=", {0, place.world_size - 1}).value_or(place.rank);
  if (read_init_method(reader, place)) return place;
  const auto address = reader.text("master_addr=");
  const auto port = reader.number("master_port=", {1, kLastPort});
  if (!port) read_master(reader, place);
  if (address) place.master_address = *address;
  if (port) place.master_port = static_cast<std::uint16_t>(*port);
  return place;
}

}  // namespace lockstep::launch
