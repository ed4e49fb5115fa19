#pragma once

#include <string>

namespace lockstep::report {

/// `text` for an element or an attribute in double quotes: one line, shortened as in the other reports. Nothing in it
/// acts as a tag, and what `printable` escapes stays escaped.
std::string html_of(const std::string& text);

/// The same at full length: for commands.
std::string whole_html_of(const std::string& text);

/// Several lines for <pre>, in one line of the page: `&#10;` separates them, so that none starts a line of a CI log.
std::string html_of_lines(const std::string& text);

/// " name=\"value\"".
std::string html_attribute(const char* name, const std::string& value);

}  // namespace lockstep::report
