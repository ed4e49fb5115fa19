#include "harness/trace/header.h"

#include <algorithm>
#include <array>
#include <string_view>

#include "harness/trace/dtype.h"

namespace lockstep::trace {
namespace {

/// A key that readers know, with the type that they expect.
struct HeaderKey {
  std::string_view name;
  bool (*fits)(const Json& value);
  std::string_view expected;
};

bool is_string(const Json& value) { return value.is_string(); }
bool is_object(const Json& value) { return value.is_object(); }
bool is_count(const Json& value) { return value.is_number_integer() && value >= 0; }
bool is_share(const Json& value) {
  return value.is_object() && is_count(value.value("rank", Json())) && is_count(value.value("size", Json())) &&
         value["rank"] < value["size"];
}
bool is_dtype(const Json& value) { return is_string(value) && dtype_named(value.get<std::string>()); }
bool are_strings(const Json& value) { return value.is_array() && std::all_of(value.begin(), value.end(), is_string); }

constexpr std::array<HeaderKey, 14> kHeaderKeys = {{{"scenario", is_string, "a string"},
                                                    {"variant", is_string, "a string"},
                                                    {"train_digest", is_string, "a string"},
                                                    {"repeat", is_count, "a natural number"},
                                                    {"record", is_object, "an object"},
                                                    {"cpu", is_string, "a string"},
                                                    {"arithmetic", is_dtype, "a floating dtype's name"},
                                                    {"environment", is_object, "an object"},
                                                    {"samples", is_count, "a natural number"},
                                                    {"data_parallel", is_share, "a rank below a size"},
                                                    {"modules", is_object, "an object"},
                                                    {"inputs", is_object, "an object"},
                                                    {"targets_per_sample", is_count, "a natural number"},
                                                    {"warnings", are_strings, "an array of strings"}}};

}  // namespace

std::optional<HeaderFault> fault_of_header(const Json& header) {
  for (const HeaderKey& row : kHeaderKeys) {
    const auto found = header.find(row.name);
    if (found != header.end() && !row.fits(*found))
      return HeaderFault{std::string(row.name), std::string(row.expected)};
  }
  return std::nullopt;
}

}  // namespace lockstep::trace
