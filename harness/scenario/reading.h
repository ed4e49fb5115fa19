#pragma once

#include <cstdint>
#include <optional>
#include <string>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// An optional key of a completed object.
std::optional<std::int64_t> integer_at(const Json& object, const char* key);
std::optional<double> number_at(const Json& object, const char* key);

/// *Throws*: InputError at the dotted `path` unless it `holds`. `origin`: file and variant.
void require(bool holds, const std::string& origin, const std::string& path, const std::string& what,
             const std::string& expected, const std::string& actual);

}  // namespace lockstep::scenario
