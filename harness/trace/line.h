#pragma once

#include <array>
#include <cstdint>
#include <stdexcept>
#include <string>
#include <string_view>

#include "harness/trace/trace.h"

/// The grammar of one line (format.md): a JSON object whose last key, "check", guards the bytes before it.
namespace lockstep::trace {

inline constexpr std::string_view kTraceFormat = "lockstep.trace/1";

/// A key of a line. *Throws*: std::runtime_error if it is missing or has another type; the reader names the line.
template <typename T>
T field(const Json& object, const char* key) {
  const auto found = object.find(key);
  if (found == object.end()) throw std::runtime_error("the key '" + std::string(key) + "' is missing");
  try {
    return found->template get<T>();
  } catch (const Json::type_error&) {
    throw std::runtime_error("'" + std::string(key) + "' has the wrong type");
  }
}

/// Closes a JSON object that lacks its final brace: appends the check and a newline.
void seal(std::string& open_object);

/// Whether the check at the end of `line` (without newline) fits the bytes before it.
bool is_sealed(std::string_view line);

/// The line of a step, written while its records come: nothing is kept of them but text.
class LineBuilder {
 public:
  void begin(std::int64_t step);

  /// Adds a record; channels may come in any order. *Throws*: nothing.
  void add(const Record& record);

  /// The sealed line, channels in order.
  std::string seal();

 private:
  std::int64_t step_ = 0;
  std::array<std::string, kChannels.size()> records_;
};

/// The sealed line of a step. *Throws*: nothing.
std::string line_of(const Step& step);

/// The sealed first line.
std::string line_of_header(const Json& header);

/// The sealed last line; `lines` counts the lines before it, `sha256` covers their bytes with newlines.
std::string line_of_end(std::size_t lines, const std::string& sha256);

/// Reads what `line_of` wrote.
/// *Throws*: std::exception of any kind when `object` is no step; the reader names the line.
Step step_from(const Json& object);

}  // namespace lockstep::trace
