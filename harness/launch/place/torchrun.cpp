#include "harness/launch/place/torchrun.h"

#include <charconv>
#include <cstdlib>
#include <optional>
#include <string_view>

#include "harness/base/error.h"

namespace lockstep::launch {
namespace {

constexpr const char* kListenVariable = "LOCKSTEP_LISTEN_FD";
constexpr const char* kSupervisorVariable = "LOCKSTEP_SUPERVISOR_FD";
constexpr const char* kStepDelayVariable = "LOCKSTEP_STEP_DELAY_MS";

[[noreturn]] void refuse(const char* name, std::string expected, std::string actual) {
  throw InputError({.what = std::string("the environment variable ") + name + " does not tell this rank its place",
                    .expected = std::move(expected),
                    .actual = std::move(actual),
                    .next = "start the worker with lockstep, torchrun, or with RANK, WORLD_SIZE and MASTER_PORT set"});
}

struct Range {
  std::int64_t low;
  std::int64_t high;
};

/// A whole decimal number and nothing else, or nothing when the variable is not set.
std::optional<std::int64_t> number_of(const char* name, Range range) {
  const char* const value = std::getenv(name);
  if (value == nullptr) return std::nullopt;
  const std::string_view text = value;
  std::int64_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  if (error != std::errc() || end != text.data() + text.size() || number < range.low || number > range.high) {
    refuse(name, "a number from " + std::to_string(range.low) + " to " + std::to_string(range.high), std::string(text));
  }
  return number;
}

std::int64_t required(const char* name, Range range) {
  const std::optional<std::int64_t> number = number_of(name, range);
  if (!number) refuse(name, "a number from " + std::to_string(range.low), "not set");
  return *number;
}

}  // namespace

Place place_from_torchrun() {
  constexpr std::int64_t kMostRanks = 1 << 20;
  constexpr std::int64_t kLastPort = 65535;
  constexpr std::int64_t kLastDescriptor = 1 << 30;
  constexpr std::int64_t kLongestDelay = 60000;
  Place place;
  place.world_size = required("WORLD_SIZE", {1, kMostRanks});
  place.rank = required("RANK", {0, kMostRanks});
  if (place.rank >= place.world_size) {
    refuse("RANK", "less than WORLD_SIZE, which is " + std::to_string(place.world_size), std::to_string(place.rank));
  }
  place.local_rank = number_of("LOCAL_RANK", {0, kMostRanks}).value_or(place.rank);
  if (place.local_rank >= place.world_size) {
    refuse("LOCAL_RANK", "less than WORLD_SIZE, which is " + std::to_string(place.world_size),
           std::to_string(place.local_rank));
  }
  if (const char* const address = std::getenv("MASTER_ADDR"); address != nullptr) {
    if (*address == '\0') refuse("MASTER_ADDR", "a host name or address", "an empty text");
    place.master_address = address;
  }
  const auto port = place.world_size > 1 ? required("MASTER_PORT", {1, kLastPort})
                                         : number_of("MASTER_PORT", {0, kLastPort}).value_or(0);
  place.master_port = static_cast<std::uint16_t>(port);
  if (const auto descriptor = number_of(kListenVariable, {0, kLastDescriptor})) {
    if (place.rank != 0) refuse(kListenVariable, "not set, since only rank 0 listens", std::to_string(*descriptor));
    place.listen_descriptor = static_cast<int>(*descriptor);
  }
  if (const auto descriptor = number_of(kSupervisorVariable, {0, kLastDescriptor}))
    place.supervisor_descriptor = static_cast<int>(*descriptor);
  place.step_delay_ms = number_of(kStepDelayVariable, {0, kLongestDelay}).value_or(0);
  return place;
}

Environment torchrun_variables_of(const Place& place) {
  Environment variables = {{"RANK", std::to_string(place.rank)},
                           {"LOCAL_RANK", std::to_string(place.local_rank)},
                           {"WORLD_SIZE", std::to_string(place.world_size)},
                           {"LOCAL_WORLD_SIZE", std::to_string(place.world_size)},
                           {"MASTER_ADDR", place.master_address},
                           {"MASTER_PORT", std::to_string(place.master_port)}};
  if (place.listen_descriptor) variables[kListenVariable] = std::to_string(*place.listen_descriptor);
  if (place.supervisor_descriptor) variables[kSupervisorVariable] = std::to_string(*place.supervisor_descriptor);
  if (place.step_delay_ms > 0) variables[kStepDelayVariable] = std::to_string(place.step_delay_ms);
  return variables;
}

void forget_own_place(Environment& environment) {
  for (const char* name : {kListenVariable, kSupervisorVariable, kStepDelayVariable}) environment.erase(name);
}

void forget_place(Environment& environment) {
  forget_own_place(environment);
  for (const char* name : {"RANK", "LOCAL_RANK", "WORLD_SIZE", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE",
                           "ROLE_RANK", "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT"})
    environment.erase(name);
}

}  // namespace lockstep::launch
