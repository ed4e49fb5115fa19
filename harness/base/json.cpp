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
