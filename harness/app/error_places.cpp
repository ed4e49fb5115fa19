#include "harness/app/error_places.h"

#include <algorithm>
#include <filesystem>
#include <map>
#include <optional>
#include <regex>
#include <string>
#include <vector>

#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"

namespace lockstep::app {
namespace {

/// A key as errors name it: "FILE: train.optimizer (variant 'main')", or "FILE (variant 'main'): launch.kind". "FILE"
/// alone is the whole document: its path is empty.
struct Key {
  std::string file, variant, path;
};

std::optional<Key> key_in(const std::string& where) {
  static const std::regex kForm(R"re((.+?)(?: \(variant '([^']*)'\))?(?:: ([\w.-]+)(?: \(variant '([^']*)'\))?)?)re");
  std::smatch parts;
  if (!std::regex_match(where, parts, kForm)) return std::nullopt;
  return Key{.file = parts[1], .variant = parts[2].matched ? parts[2] : parts[4], .path = parts[3]};
}

std::string without_quotes(std::string text) {
  std::erase(text, '\'');
  return text;
}

/// Paths that may hold the key, the nearest first: an unknown key is named as what is there in the place of another.
std::vector<std::string> candidates(const Key& key, const std::string& actual) {
  std::vector<std::string> paths;
  for (const std::string& above : {key.variant.empty() ? "" : "variants." + key.variant + ".", std::string()}) {
    const std::string of_key = above + key.path + (key.path.empty() ? "" : ".");
    if (!actual.empty()) paths.push_back(of_key + without_quotes(actual));
    if (!key.path.empty()) paths.push_back(above + key.path);
  }
  return paths;
}

/// "own.json:12:7"; empty: the file has no such key.
std::string place_of(const Problem& problem) {
  const std::optional<Key> key = key_in(problem.where);
  if (!key || !std::filesystem::is_regular_file(key->file)) return "";
  std::map<std::string, std::string> by_path;
  const std::string text = read_file(key->file);
  parse_modest_json(text, key->file);  // or throws: nothing has a place
  for (const auto& [pointer, place] : places_in(text)) by_path[dotted(pointer)] = place;
  for (const std::string& path : candidates(*key, problem.actual)) {
    const auto found = by_path.find(path);
    if (found != by_path.end()) return key->file + ":" + found->second;
  }
  return "";
}

/// Whether it is the name of a rank's file, which is missing and not mistyped.
bool is_of_rank(const std::string& name) {
  static const std::regex kForm(R"(rank\d+\..+)");
  return std::regex_match(name, kForm);
}

/// Suggestion for a file that is not there; empty: it is, or none has such a name.
std::string file_meant(const std::filesystem::path& path) {
  const std::filesystem::path folder = path.has_parent_path() ? path.parent_path() : ".";
  if (path.empty() || std::filesystem::exists(path) || !std::filesystem::is_directory(folder)) return "";
  std::vector<std::string> names;
  for (const std::filesystem::path& entry : entries_of(folder)) names.push_back(entry.filename().string());
  constexpr std::size_t kTooShort = 3;  // characters: such a name is like any other
  const std::string name = path.filename().string();
  const auto is_place_in = [&](const std::string& file) { return name.starts_with(file + ":"); };
  if (is_of_rank(name) || std::any_of(names.begin(), names.end(), is_place_in)) return "";
  const auto meant = name.size() < kTooShort ? std::nullopt : nearest(name, names);
  return meant ? "did you mean '" + (path.parent_path() / *meant).string() + "'?" : "";
}

}  // namespace

ProblemList as_told(const Error& error) {
  ProblemList list{error.problems()};
  for (Problem& problem : list.problems) {
    try {
      if (const std::string place = place_of(problem); !place.empty()) problem.where += ", at " + place;
      if (problem.next.empty()) problem.next = file_meant(problem.where);
    } catch (const std::exception&) {
      continue;  // the error is told without it
    }
  }
  return list;
}

}  // namespace lockstep::app
