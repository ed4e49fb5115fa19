#include "harness/report/html_text.h"

#include <algorithm>

#include "harness/base/text.h"

namespace lockstep::report {

std::string whole_html_of(const std::string& text) {
  std::string out;
  for (const char c : printable(text)) {
    if (std::string_view("<>&\"'").find(c) != std::string_view::npos) {
      out += "&#" + std::to_string(static_cast<int>(c)) + ";";
    } else {
      out += c;
    }
  }
  return out;
}

std::string html_of(const std::string& text) { return whole_html_of(without_middle(text)); }

std::string html_of_lines(const std::string& text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    const std::size_t end = std::min(text.find('\n', at), text.size());
    out += (at == 0 ? "" : "&#10;") + whole_html_of(text.substr(at, end - at));
    at = end + 1;
  }
  return out;
}

std::string html_attribute(const char* name, const std::string& value) {
  return std::string(" ") + name + "=\"" + html_of(value) + "\"";
}

}  // namespace lockstep::report
