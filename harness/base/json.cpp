#include "harness/base/json.h"

#include <algorithm>
#include <set>

#include "harness/base/error.h"
#include "harness/base/files.h"

namespace lockstep {
namespace {

/// Deeper nesting than any file of ours; stops hostile input before it exhausts the stack.
constexpr int kMaxDepth = 64;

std::string line_and_column(std::string_view text, std::size_t byte) {
  const std::string_view before = text.substr(0, std::min(byte > 0 ? byte - 1 : 0, text.size()));
  const auto line = 1 + std::count(before.begin(), before.end(), '\n');
  const std::size_t start = before.rfind('\n') == std::string_view::npos ? 0 : before.rfind('\n') + 1;
  return std::to_string(line) + ":" + std::to_string(before.size() - start + 1);
}

/// nlohmann keeps the last of two equal keys; for us that is a mistake of the author.
class DuplicateKeys {
 public:
  explicit DuplicateKeys(const std::string& origin) : origin_(origin) {}

  bool operator()(int depth, Json::parse_event_t event, const Json& parsed) {
    if (depth > kMaxDepth) throw InputError({.what = "JSON is nested too deeply", .where = origin_});
    if (event == Json::parse_event_t::object_start) keys_.emplace_back();
    if (event == Json::parse_event_t::object_end) keys_.pop_back();
    if (event == Json::parse_event_t::key && !keys_.back().insert(parsed.get<std::string>()).second) {
      throw InputError({.what = "the key '" + parsed.get<std::string>() + "' stands twice in one object",
                        .where = origin_,
                        .next = "rename or remove one of them"});
    }
    return true;
  }

 private:
  const std::string& origin_;
  std::vector<std::set<std::string>> keys_;
};

}  // namespace

Json parse_json(std::string_view text, const std::string& origin) {
  try {
    return Json::parse(text, DuplicateKeys(origin), /*allow_exceptions=*/true, /*ignore_comments=*/true);
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

std::string dotted(const std::string& json_pointer) {
  std::string text = json_pointer.empty() ? "" : json_pointer.substr(1);
  std::replace(text.begin(), text.end(), '/', '.');
  return text;
}

}  // namespace lockstep
