#include "harness/base/console.h"

#include "harness/base/text.h"

namespace lockstep {

namespace {

/// Longest line that is no part of a message: a command with many files, say. *Units*: bytes.
constexpr std::size_t kMostOfLine = std::size_t{1} << 18;

}  // namespace

void print_line(std::FILE* to, const std::string& text) {
  print_page(to, printable(without_middle(text, kMostOfLine)) + "\n");
}

void print_page(std::FILE* to, const std::string& page) { std::fputs(page.c_str(), to); }

std::string page_of(const Json& value) {
  std::string text = value.dump(2, ' ', /*ensure_ascii=*/true, Json::error_handler_t::replace) + "\n";
  // Azure's runner takes "##vso[" for a command wherever it stands; '#' stands inside strings only.
  for (std::size_t at = text.find("##"); at != std::string::npos; at = text.find("##", at))
    text.replace(at, 2, "#\\u0023");
  return text;
}

void print_json(std::FILE* to, const Json& value) { print_page(to, page_of(value)); }

}  // namespace lockstep
