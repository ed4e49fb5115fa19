#include "harness/base/json.h"

#include <algorithm>
#include <set>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep {
namespace {

/// Deeper nesting than any file of ours; stops hostile input before it exhausts the stack.
constexpr std::size_t kMaxDepth = 64;

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return std::to_string(line) + ":" + std::to_string(before.size() - start + 1);
}

/// Refuses what nlohmann takes: of two equal keys it keeps the last; for us that is a mistake of the author. It builds
/// nothing: a parser callback that looks at every value makes nlohmann walk whole containers again and again.
class Strictness : public nlohmann::json_sax<Json> {
 public:
  explicit Strictness(const std::string& origin) : origin_(origin) {}

  bool null() override { return true; }
  bool boolean(bool) override { return true; }
  bool number_integer(number_integer_t) override { return true; }
  bool number_unsigned(number_unsigned_t) override { return true; }
  bool number_float(number_float_t, const string_t&) override { return true; }
  bool string(string_t&) override { return true; }
  bool binary(binary_t&) override { return true; }
  bool start_object(std::size_t) override { return enter(); }
  bool end_object() override { return leave(); }
  bool start_array(std::size_t) override { return enter(); }
  bool end_array() override { return leave(); }

  bool key(string_t& name) override {
    if (keys_.back().insert(name).second) return true;
    throw InputError({.what = "the key '" + name + "' appears twice in one object",
                      .where = origin_,
                      .next = "rename or remove one of them"});
  }

  /// Left to the parser that says where.
  bool parse_error(std::size_t, const std::string&, const nlohmann::detail::exception&) override { return false; }

 private:
  bool enter() {
    keys_.emplace_back();
    if (keys_.size() <= kMaxDepth) return true;
    throw InputError({.what = "JSON is nested too deeply", .where = origin_});
  }

  bool leave() {
    keys_.pop_back();
    return true;
  }

  const std::string& origin_;
  std::vector<std::set<std::string>> keys_;  ///< of each container that is open
};

/// Walks a valid document: nlohmann's parser does not say where a value stands (3.12 does, where it is built so).
class PlaceFinder {
 public:
  explicit PlaceFinder(std::string_view text) : text_(text) {
    if (text_.starts_with("\xef\xbb\xbf")) line_begin_ = next_ = 3;
    value(Json::json_pointer());
  }

  std::map<std::string, std::string> places() && { return std::move(places_); }

 private:
  void value(const Json::json_pointer& at) {
    const char first = next_character();
    places_[at.to_string()] = std::to_string(line_) + ":" + std::to_string(next_ - line_begin_ + 1);
    if (first == '{') {
      for (++next_; next_character() != '}';) {
        const Json key = Json::parse(string());
        value(at / key.get<std::string>());
      }
      ++next_;
    } else if (first == '[') {
      ++next_;
      for (std::size_t i = 0; next_character() != ']'; ++i) value(at / i);
      ++next_;
    } else if (first == '"') {
      string();
    } else {
      next_ = std::min(text_.find_first_of(" \t\r\n,:]}/", next_), text_.size());
    }
  }

  /// The first character of the next value, or the end of a container.
  char next_character() {
    while (next_ < text_.size()) {
      const char c = text_[next_];
      if (c == '/') {
        const bool is_line = text_.substr(next_).starts_with("//");
        skip_to(is_line ? text_.find('\n', next_) : text_.find("*/", next_ + 2) + 2);
      } else if (c == ' ' || c == '\t' || c == '\r' || c == '\n' || c == ',' || c == ':') {
        skip_to(next_ + 1);
      } else {
        return c;
      }
    }
    return '\0';
  }

  void skip_to(std::size_t end) {
    for (end = std::min(end, text_.size()); next_ < end; ++next_) {
      if (text_[next_] != '\n') continue;
      ++line_;
      line_begin_ = next_ + 1;
    }
  }

  /// A string with its quotes.
  std::string_view string() {
    const std::size_t begin = next_++;
    while (text_[next_] != '"') next_ += text_[next_] == '\\' ? 2 : 1;
    return text_.substr(begin, ++next_ - begin);
  }

  std::string_view text_;
  std::size_t next_ = 0, line_ = 1, line_begin_ = 0;
  std::map<std::string, std::string> places_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  try {
    Strictness strictness(origin);
    Json::sax_parse(text, &strictness, Json::input_format_t::json, /*strict=*/true, /*ignore_comments=*/true);
    return Json::parse(text, nullptr, /*allow_exceptions=*/true, /*ignore_comments=*/true);
  } catch (const Json::parse_error& error) {
    const std::string reason = error.what();
    const std::size_t colon = reason.find(": ", reason.find("column"));
    throw InputError({.what = "not valid JSON: " + (colon == std::string::npos ? reason : reason.substr(colon + 2)),
                      .where = origin + ":" + line_and_column(text, error.byte)});
  } catch (const Json::out_of_range& error) {
    const std::string reason = error.what();
    throw InputError({.what = "not valid JSON: " + reason.substr(reason.find("] ") + 2), .where = origin});
  }
}

Json parse_modest_json(std::string_view text, const std::string& origin) {
  constexpr std::size_t kContainer = 100, kValue = 48, kMember = 64, kMost = 16;  // bytes; measured, with growth
  constexpr std::size_t kFree = 1 << 20;
  std::size_t bytes = 0;
  for (const char c : text) bytes += c == '{' || c == '[' ? kContainer : c == ',' ? kValue : c == ':' ? kMember : 0;
  if (bytes <= kMost * text.size() + kFree) return parse_json(text, origin);
  throw InputError(
      {.what = "the document would take far more memory than its size",
       .where = origin,
       .expected = "at most " + std::to_string(kMost) + " times its " + std::to_string(text.size()) + " bytes",
       .actual = "about " + std::to_string(bytes) + " bytes"});
}

Json read_json(const std::filesystem::path& path) { return parse_json(read_file(path), path.string()); }

std::map<std::string, std::string> places_in(std::string_view text) { return PlaceFinder(text).places(); }

void merge_json(Json& base, const Json& patch) {
  if (!base.is_object() || !patch.is_object()) {
    base = patch;
    return;
  }
  for (const auto& [key, value] : patch.items()) {
    if (base.contains(key)) {
      merge_json(base[key], value);
    } else {
      base[key] = value;
    }
  }
}

std::vector<std::string> keys_of(const Json& object) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : object.items()) keys.push_back(key);
  return keys;
}

std::vector<std::string> keys_that_differ(const Json& a, const Json& b) {
  std::vector<std::string> keys;
  for (const auto& [key, value] : a.items()) {
    if (!b.contains(key) || b[key] != value) keys.push_back(key);
  }
  for (const auto& [key, value] : b.items()) {
    if (!a.contains(key)) keys.push_back(key);
  }
  return keys;
}

std::string dotted(const std::string& json_pointer) {
  std::string text = json_pointer.empty() ? "" : json_pointer.substr(1);
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

}  // namespace lockstep
