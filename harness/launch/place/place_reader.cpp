#include "harness/launch/place/place_reader.h"

#include <algorithm>
#include <charconv>
#include <utility>

#include "harness/base/error.h"

namespace lockstep::launch {

std::optional<std::string> Reader::text(const std::string& name) {
  const auto found = environment_.find(name);
  if (found == environment_.end()) return std::nullopt;
  if (std::find(found_.begin(), found_.end(), name) == found_.end()) found_.push_back(name);
  if (found->second.empty()) refuse(name, "a value", "an empty text");
  return found->second;
}

std::optional<std::int64_t> Reader::number(const std::string& name, Range range) {
  const std::optional<std::string> value = text(name);
  if (!value) return std::nullopt;
  std::int64_t number = 0;
  const char* const last = value->data() + value->size();
  const auto [end, error] = std::from_chars(value->data(), last, number);
  if (error != std::errc() || end != last || number < range.low || number > range.high)
    refuse(name, "a number from " + std::to_string(range.low) + " to " + std::to_string(range.high), *value);
  return number;
}

std::int64_t Reader::required(const std::string& name, Range range) {
  const std::optional<std::int64_t> value = number(name, range);
  if (!value) refuse(name, "a number from " + std::to_string(range.low), "not set");
  return *value;
}

std::optional<std::int64_t> agreed(Reader& reader, std::initializer_list<const char*> names, Range range) {
  const char* first = nullptr;
  std::optional<std::int64_t> value;
  for (const char* name : names) {
    const auto number = name == nullptr ? std::nullopt : reader.number(name, range);
    if (!number) continue;
    if (value && *value != *number)
      refuse_contradiction(std::string(first) + " and " + name, "equal numbers",
                           first + ("=" + std::to_string(*value)) + ", " + name + "=" + std::to_string(*number),
                           "set one of them only");
    if (!value) first = name;
    value = number;
  }
  return value;
}

void read_master(Reader& reader, Place& place) {
  constexpr std::int64_t kLastPort = 65535;
  if (const auto address = reader.text("MASTER_ADDR")) {
    const bool has_port = std::count(address->begin(), address->end(), ':') == 1;  // IPv6 has more
    if (has_port || address->find_first_of(" \t\n/") != std::string::npos)
      refuse("MASTER_ADDR", "a host alone; its port stands in MASTER_PORT", *address);
    place.master_address = *address;
  }
  if (place.master_address.empty()) refuse("MASTER_ADDR", "the host of rank 0", "not set");
  const std::int64_t port = place.world_size > 1 ? reader.required("MASTER_PORT", {1, kLastPort})
                                                 : reader.number("MASTER_PORT", {0, kLastPort}).value_or(0);
  place.master_port = static_cast<std::uint16_t>(port);
}

void refuse(const std::string& name, std::string expected, std::string actual) {
  const std::string kind = name.ends_with('=') ? "argument " : "environment variable ";  // arguments.cpp
  throw InputError({.what = "the " + kind + name + " gives this rank no place",
                    .expected = std::move(expected),
                    .actual = std::move(actual),
                    .next = "docs/launchers.md lists the variables of each launcher; lockstep-worker --place says "
                            "which of them it reads"});
}

void refuse_contradiction(const std::string& names, std::string expected, std::string actual, std::string next) {
  throw InputError({.what = names + " contradict each other",
                    .expected = std::move(expected),
                    .actual = std::move(actual),
                    .next = std::move(next)});
}

}  // namespace lockstep::launch
