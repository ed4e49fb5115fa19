#pragma once

#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

/// Words of a golden's lines: separated by one space, so that a line is for people and for programs.
namespace lockstep::golden {

/// `text` as one word: as it is, or as a JSON string where it has spaces, quotes or characters that do not show.
std::string word_of(const std::string& text);

/// The text of a word. *Throws*: std::exception if it is quoted and no JSON string.
std::string text_of_word(std::string_view word);

/// Words of a line; spaces within quotes separate nothing.
std::vector<std::string_view> words_in(std::string_view line);

/// An object as lines: the path of each value that is no object, as words joined by dots, and the value as JSON.
/// "optimizer.lr 0.1".
std::vector<std::string> lines_of_object(const Json& object);

/// Puts the value of such a line into `object`. *Throws*: std::exception if it is none.
void take_line_of_object(Json& object, std::string_view line);

}  // namespace lockstep::golden
