#include "harness/scenario/override.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <optional>

#include "harness/base/error.h"
#include "harness/scenario/rule_words.h"

namespace lockstep::scenario {
namespace {

/// More than any path of the schema; deeper objects would exhaust the stack of who walks them.
constexpr std::size_t kMostKeys = 32;

/// *Units*: bytes of a message.
constexpr std::size_t kLongestPlace = 200;

/// The number that a key of an array is; nothing for any other text.
std::optional<std::size_t> index_from(const std::string& key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (key.empty() || error == std::errc::invalid_argument || end != key.data() + key.size()) return std::nullopt;
  return error == std::errc::result_out_of_range ? std::numeric_limits<std::size_t>::max() : index;
}

}  // namespace

void set_path(Json& document, const std::string& path, const Json& value, const std::string& where) {
  const auto depth = static_cast<std::size_t>(std::count(path.begin(), path.end(), '.')) + 1;
  if (depth > kMostKeys)
    throw InputError({.what = "a path has too many keys",
                      .where = where.substr(0, kLongestPlace) + "...",
                      .expected = "at most " + std::to_string(kMostKeys),
                      .actual = std::to_string(depth)});
  Json* at = &document;
  std::size_t begin = 0;
  while (true) {
    const std::size_t dot = path.find('.', begin);
    const std::string key = path.substr(begin, dot == std::string::npos ? std::string::npos : dot - begin);
    const auto index = at->is_array() ? index_from(key) : std::nullopt;
    if (index && *index >= at->size()) {
      throw InputError({.what = "an override names an item that does not exist",
                        .where = where,
                        .expected = "an index below " + std::to_string(at->size()),
                        .actual = "'" + key + "'"});
    }
    if (!index && !at->is_object() && !at->is_null()) {
      throw InputError({.what = "an override goes into a value that has no key '" + key + "'",
                        .where = where,
                        .expected = at->is_array() ? "the index of an item" : "a path that ends before '" + key + "'",
                        .actual = shortened(*at)});
    }
    at = index ? &(*at)[*index] : &(*at)[key];
    if (dot == std::string::npos) break;
    begin = dot + 1;
  }
  *at = value;
}

void apply_override(Json& document, const std::string& text) {
  const std::size_t equals = text.find('=');
  if (equals == std::string::npos || equals == 0) {
    throw InputError({.what = "an override is not of the form path=value",
                      .where = "--set " + text,
                      .expected = "for example train.optimizer.lr=0.2",
                      .actual = "'" + text + "'"});
  }
  const std::string value = text.substr(equals + 1);
  const std::string where = "--set " + text;
  set_path(document, text.substr(0, equals), Json::accept(value) ? parse_json(value, where) : Json(value), where);
}

}  // namespace lockstep::scenario
