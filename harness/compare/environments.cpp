#include "harness/compare/environments.h"

#include <algorithm>
#include <array>
#include <map>
#include <set>

namespace lockstep::compare {
namespace {

const Json& manifest_of(const Located& at) {
  static const Json kNone = Json::object();
  const Json& header = at.run->ranks[at.rank].header;
  const auto found = header.find("environment");
  return found == header.end() ? kNone : *found;
}

constexpr std::array<const char*, 5> kCauses = {"env.version_mismatch", "env.build_flags", "env.variable_mismatch",
                                                "env.processor", "env.flag_mismatch"};

/// Place in kCauses of what an entry of the manifest is about.
std::size_t cause_of(const std::string& key) {
  static const std::map<std::string, std::size_t> kPlaces = {{"build", 0},     {"torch", 0},          {"compiler", 0},
                                                             {"libraries", 0}, {"compiler_flags", 1}, {"variables", 2},
                                                             {"cpu_model", 3}};
  const auto found = kPlaces.find(key);
  return found == kPlaces.end() ? 4 : found->second;
}

std::string value_text(const Json& value) {
  if (value.is_null()) return "not there";
  return value.is_string() ? value.get<std::string>() : value.dump();
}

Json value_of(const Json& object, const std::string& key) { return object.contains(key) ? object[key] : Json(); }

std::set<std::string> keys_of_either(const Json& left, const Json& right) {
  std::set<std::string> keys;
  for (const Json* side : {&left, &right}) {
    for (const auto& [key, value] : side->items()) keys.insert(key);
  }
  return keys;
}

}  // namespace

std::vector<Suspect> suspects_between(const Located& left_rank, const Located& right_rank) {
  const Json &left = manifest_of(left_rank), &right = manifest_of(right_rank);
  std::array<std::vector<std::string>, kCauses.size()> evidence;
  const auto note = [&](const std::string& key, const std::string& name, const Json& a, const Json& b) {
    if (a == b) return;
    evidence[cause_of(key)].push_back(name + " is " + value_text(a) + " for " + left_rank.name() + ", " +
                                      value_text(b) + " for " + right_rank.name());
  };
  for (const std::string& key : keys_of_either(left, right)) {
    const Json a = value_of(left, key), b = value_of(right, key);
    if (a.is_object() && b.is_object()) {
      for (const std::string& name : keys_of_either(a, b)) note(key, name, value_of(a, name), value_of(b, name));
    } else {
      note(key, key, a, b);
    }
  }
  std::vector<Suspect> suspects;
  for (std::size_t i = 0; i < kCauses.size(); ++i) {
    if (!evidence[i].empty()) suspects.push_back({kCauses[i], evidence[i]});
  }
  return suspects;
}

bool same_kernels(const Located& left_rank, const Located& right_rank) {
  const Json &left = manifest_of(left_rank), &right = manifest_of(right_rank);
  const std::set<std::string> keys = keys_of_either(left, right);
  return std::all_of(keys.begin(), keys.end(), [&](const std::string& key) {
    const bool makes_bits = cause_of(key) < 2 || key == "cpu_capability";  // a build, its libraries, its flags
    return !makes_bits || value_of(left, key) == value_of(right, key);
  });
}

std::optional<OddRank> rank_elsewhere(const trace::RunTrace& run) {
  const auto at = [&](std::size_t rank) { return Located{&run, rank}; };
  for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
    if (manifest_of(at(rank)) == manifest_of(at(0))) continue;
    // Rank 0 itself where all others agree against it.
    const bool others_agree = run.ranks.size() > 2 && rank == 1 && manifest_of(at(2)) == manifest_of(at(1));
    return others_agree ? OddRank{.odd = at(0), .other = at(1)} : OddRank{.odd = at(rank), .other = at(0)};
  }
  return std::nullopt;
}

}  // namespace lockstep::compare
