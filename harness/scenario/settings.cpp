// Where each value comes from. A document with a pointer in the place of each value goes the way of the scenario's own:
// it is changed by the same variants and the same matrix.
#include "harness/scenario/settings.h"

#include <algorithm>
#include <map>
#include <sstream>

#include "harness/base/files.h"
#include "harness/scenario/merging.h"
#include "harness/scenario/override.h"
#include "harness/scenario/scenario.h"

namespace lockstep::scenario {
namespace {

using Pointer = Json::json_pointer;

/// The document with the JSON pointer of each value in its place.
Json pointers_in(const Json& document, const Pointer& at = Pointer()) {
  if (!document.is_structured() || document == Json::array()) return at.to_string();
  Json pointers = document;
  for (const auto& [key, value] : document.items()) pointers[Pointer() / key] = pointers_in(value, at / key);
  return pointers;
}

/// Pointers into the scenario's document, by the pointer to the same value in what was made of it.
using Sources = std::map<std::string, std::string>;

/// `pointers` went the way of `written`, but for values that another kind has replaced.
Sources sources_in(const Json& written, const Json& pointers) {
  Sources sources;
  const Json values = written.flatten();
  for (const auto& [key, unused] : values.items()) {
    const Pointer at(key);
    if (pointers.contains(at) && pointers[at].is_string()) sources[key] = pointers[at].get<std::string>();
  }
  return sources;
}

/// Collects settings, each with its origin.
class Collector {
 public:
  Collector(std::string file, const std::string& text, const std::vector<std::string>& overrides)
      : file_(std::move(file)), places_(places_in(text)), overrides_(overrides) {}

  /// Adds the settings in `value`, which is at `at` of a completed document.
  void add(const std::string& path, const Json& value, const Pointer& at, const Sources& sources) {
    const bool is_list = value.is_array() && std::none_of(value.begin(), value.end(),
                                                          [](const Json& item) { return item.is_structured(); });
    if (!value.is_structured() || is_list) {
      settings_.push_back({.path = path, .value = value, .origin = origin_of(value, at, sources)});
      return;
    }
    for (const auto& [key, inside] : value.items()) add(path + "." + key, inside, at / key, sources);
  }

  std::vector<Setting> settings() && { return std::move(settings_); }

 private:
  /// A list comes from where its first item does, but for an item that --set replaces.
  std::string origin_of(const Json& value, const Pointer& at, const Sources& sources) const {
    std::vector<std::string> origins;
    const auto take = [&](const Pointer& one) {
      const auto source = sources.find(one.to_string());
      if (source != sources.end()) origins.push_back(origin_of(source->second));
    };
    take(at);
    for (std::size_t i = 0; value.is_array() && i < value.size(); ++i) take(at / i);
    // Only a law that needs slopes switches them on besides the file.
    if (origins.empty())
      return at.to_string() == "/train/record/slopes" && value == true ? "a check of laws" : "default";
    const auto set = std::find_if(origins.begin(), origins.end(),
                                  [](const std::string& origin) { return origin.starts_with("--set "); });
    return set == origins.end() ? origins.front() : *set;
  }

  /// Of a value in the scenario's document. Of two overrides the last one counts.
  std::string origin_of(const std::string& pointer) const {
    const auto sets = [&](const std::string& text) {
      Pointer path;
      std::istringstream keys(text.substr(0, text.find('=')));
      for (std::string key; std::getline(keys, key, '.');) path /= key;
      return (pointer + "/").starts_with(path.to_string() + "/");
    };
    const auto found = std::find_if(overrides_.rbegin(), overrides_.rend(), sets);
    return found == overrides_.rend() ? file_ + ":" + places_.at(pointer) : "--set " + *found;
  }

  std::string file_;
  std::map<std::string, std::string> places_;
  const std::vector<std::string>& overrides_;
  std::vector<Setting> settings_;
};

}  // namespace

std::vector<Setting> settings_of(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  const Scenario scenario = load_scenario(file, overrides);
  const std::string text = read_file(file), name = file.string();
  Json document = parse_json(text, name);
  for (const std::string& one : overrides) apply_override(document, one);
  const Json pointers = pointers_in(document);
  Collector collector(name, text, overrides);
  const auto add = [&](const std::string& key, const Json& value) {
    collector.add(key, value, Pointer() / key, sources_in(document, pointers));
  };
  add("name", scenario.name);
  add("description", scenario.description);
  add("repeats", scenario.repeats);
  add("may_be_unsupported", scenario.may_be_unsupported);
  const auto patches_in = [&](const Json& from) {
    return patches_of(from.value("variants", Json::object()), from.value("matrix", Json::object()), name);
  };
  const std::vector<Patch> patches = patches_in(document), patches_of_pointers = patches_in(pointers);
  for (std::size_t i = 0; i < patches.size(); ++i) {
    Json from = shared_by_variants(pointers);
    merge_json(from, patches_of_pointers[i].changes);
    collector.add("variants." + patches[i].name, document_of(scenario.variant(patches[i].name)), Pointer(),
                  sources_in(with_changes(shared_by_variants(document), patches[i].changes), from));
  }
  return std::move(collector).settings();
}

}  // namespace lockstep::scenario
