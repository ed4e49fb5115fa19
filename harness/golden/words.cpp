#include "harness/golden/words.h"

#include <algorithm>
#include <stdexcept>

namespace lockstep::golden {
namespace {

/// End of the word that begins at `from`: a space or `stop`, and not within quotes.
std::size_t end_of_word(std::string_view line, std::size_t from, char stop) {
  bool quoted = false;
  for (std::size_t i = from; i < line.size(); ++i) {
    if (quoted && line[i] == '\\') {
      ++i;
    } else if (line[i] == '"') {
      quoted = !quoted;
    } else if (!quoted && (line[i] == ' ' || line[i] == stop)) {
      return i;
    }
  }
  return line.size();
}

bool is_plain(const std::string& text, std::string_view forbidden) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [&](unsigned char c) {
    return c > 0x20 && c < 0x7f && forbidden.find(static_cast<char>(c)) == std::string_view::npos;
  });
}

std::string quoted(const std::string& text) { return Json(text).dump(-1, ' ', true, Json::error_handler_t::replace); }

void append_lines(std::vector<std::string>& lines, const std::string& path, const Json& value) {
  if (!value.is_object() || value.empty()) {
    lines.push_back(path + " " + value.dump(-1, ' ', true, Json::error_handler_t::replace));
    return;
  }
  for (const auto& [key, member] : value.items()) {
    const std::string word = is_plain(key, "\".\\") ? key : quoted(key);
    append_lines(lines, path.empty() ? word : path + "." + word, member);
  }
}

}  // namespace

std::string word_of(const std::string& text) { return is_plain(text, "\"\\") ? text : quoted(text); }

std::string text_of_word(std::string_view word) {
  if (!word.starts_with('"')) return std::string(word);
  return Json::parse(word).get<std::string>();
}

std::vector<std::string_view> words_in(std::string_view line) {
  std::vector<std::string_view> words;
  for (std::size_t from = 0; from <= line.size();) {
    const std::size_t end = end_of_word(line, from, ' ');
    words.push_back(line.substr(from, end - from));
    from = end + 1;
  }
  return words;
}

std::vector<std::string> lines_of_object(const Json& object) {
  std::vector<std::string> lines;
  for (const auto& [key, member] : object.items()) append_lines(lines, "", Json{{key, member}});
  return lines;
}

void take_line_of_object(Json& object, std::string_view line) {
  Json* at = &object;
  for (std::size_t from = 0;;) {
    const std::size_t end = end_of_word(line, from, '.');
    if (end == line.size()) throw std::runtime_error("a value is missing");
    if (!at->is_object()) throw std::runtime_error("a value is given twice");
    const std::string key = text_of_word(line.substr(from, end - from));
    const auto [member, is_new] = at->emplace(key, Json::object());
    at = &*member;
    from = end + 1;
    if (line[end] == '.') continue;
    if (!is_new) throw std::runtime_error("a value is given twice");
    *at = Json::parse(line.substr(from));
    return;
  }
}

}  // namespace lockstep::golden
