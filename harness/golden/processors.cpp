#include "harness/golden/processors.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/scenario/cpu_profile.h"

namespace lockstep::golden {
namespace {

constexpr std::string_view kNative = "native";
constexpr std::string_view kUnknown = "unknown";
constexpr char kOfModel = '@';
constexpr const char* kModel = "cpu_model";

Json environment_of(const trace::RunTrace& run) { return run.ranks.at(0).header.value("environment", Json::object()); }

std::string text_in(const Json& environment, const char* key) {
  const Json value = environment.value(key, Json());
  return value.is_string() ? value.get<std::string>() : std::string(kUnknown);
}

std::string lower(std::string text) {
  std::transform(text.begin(), text.end(), text.begin(),
                 [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
  return text;
}

/// Letters and digits, with one hyphen in the place of all that stands between: "AMD EPYC 9B14" is "amd-epyc-9b14".
std::string in_one_word(const std::string& text) {
  std::string word;
  for (const char c : lower(text)) {
    const bool is_kept = std::isalnum(static_cast<unsigned char>(c)) != 0;
    if (is_kept) word += c;
    if (!is_kept && !word.empty() && word.back() != '-') word += '-';
  }
  while (word.ends_with('-')) word.pop_back();
  return word;
}

std::optional<std::string> model_in(const Json& environment) {
  const std::string said = text_in(environment, kModel), word = in_one_word(said);
  return said == kUnknown || word.empty() ? std::nullopt : std::optional(word);
}

/// *Throws*: Unsupported where the run did not use the profile's kernels: it has other bits.
void require_capability(const scenario::CpuProfile& profile, const trace::RunTrace& run) {
  const std::string actual = text_in(environment_of(run), "cpu_capability");
  if (actual == kUnknown || actual == profile.capability) return;
  throw Unsupported(
      {.what = "the run has other kernels than its CPU profile: " + actual + ", and not " + profile.capability,
       .where = run.ranks[0].origin + ": cpu = " + profile.name,
       .next =
           std::string("run it on a processor with ") + profile.needs + ", and set ATEN_CPU_CAPABILITY nowhere else"});
}

}  // namespace

std::string class_of(const trace::RunTrace& run) {
  const std::string cpu = run.ranks.at(0).header.value("cpu", std::string(kNative));
  for (const scenario::CpuProfile& profile : scenario::kCpuProfiles) {
    if (cpu == profile.name) require_capability(profile, run);
  }
  return cpu == kNative ? cpu + "-" + lower(text_in(environment_of(run), "cpu_capability")) : cpu;
}

std::string class_of(const std::string& key) { return key.substr(0, key.find(kOfModel)); }

std::vector<std::string> keys_of(const trace::RunTrace& run) {
  const std::string all = class_of(run);
  const std::optional<std::string> model = model_in(environment_of(run));
  return model ? std::vector{all + kOfModel + *model, all} : std::vector{all};
}

std::string key_of_model(const std::string& of_class, const Json& environment, const std::string& origin) {
  const std::optional<std::string> model = model_in(environment);
  if (model) return of_class + kOfModel + *model;
  throw InputError({.what = "the machine did not say the model of its processor",
                    .where = origin + ": environment.cpu_model",
                    .actual = text_in(environment, kModel),
                    .next = "accept for the class: leave --exact out"});
}

bool is_class_of(const std::string& cpu, const std::string& name) {
  return cpu.empty() || cpu == kNative ? name.starts_with(std::string(kNative) + "-") : name == cpu;
}

bool is_class(const std::string& name) {
  const auto& profiles = scenario::kCpuProfiles;
  return is_class_of("", name) ||
         std::any_of(profiles.begin(), profiles.end(), [&](const auto& profile) { return name == profile.name; });
}

std::string native_class() {
  const bool avx2 = __builtin_cpu_supports("avx2") != 0 && __builtin_cpu_supports("fma") != 0;
  const bool avx512 = avx2 && __builtin_cpu_supports("avx512f") != 0 && __builtin_cpu_supports("avx512vl") != 0 &&
                      __builtin_cpu_supports("avx512bw") != 0 && __builtin_cpu_supports("avx512dq") != 0;
  return std::string(kNative) + (avx512 ? "-avx512" : avx2 ? "-avx2" : "-default");
}

const Entry* entry_for(const Golden& golden, const trace::RunTrace& run) {
  for (const std::string& key : keys_of(run)) {
    if (const Entry* const entry = golden.find(key)) return entry;
  }
  return nullptr;
}

std::string key_to_accept(const std::filesystem::path& file, const trace::RunTrace& run) {
  const std::vector<std::string> keys = keys_of(run);
  const std::set<std::string> there = is_there(file) ? keys_in(read_file(file)) : std::set<std::string>();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const std::string& key) { return there.contains(key); });
  return found == keys.end() ? keys.back() : *found;
}

}  // namespace lockstep::golden
