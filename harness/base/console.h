#pragma once

#include <cstdio>
#include <string>

#include "harness/base/json.h"

/// The one place that prints (`ci/lint` looks for others). Names and texts come from files of others: a pull request's
/// scenario must not start a line of a CI log, where runners look for commands.
namespace lockstep {

/// Prints one line. Whatever stands in `text`, it stays one line (`printable`).
void print_line(std::FILE* to, const std::string& text);

/// Prints a page that was put together line by line: a word of ours first, then what is `printable`.
void print_page(std::FILE* to, const std::string& page);

/// JSON in ASCII, indented; the same value as any other spelling.
std::string page_of(const Json& value);

/// Prints it.
void print_json(std::FILE* to, const Json& value);

}  // namespace lockstep
