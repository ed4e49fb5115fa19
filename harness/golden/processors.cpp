#include "harness/golden/processors.h"

#include <algorithm>
#include <cctype>
#include <optional>
#include <set>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/processor.h"
#include "harness/base/text.h"
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

/// A model's name in a key; nothing where the machine does not say it.
std::optional<std::string> model_named(const std::string& said) {
  const std::string word = in_one_word(said);
  return said == kUnknown || word.empty() ? std::nullopt : std::optional(word);
}

std::string native_class(const std::string& capability) { return std::string(kNative) + "-" + lower(capability); }

std::vector<std::string> with_model(const std::string& of_class, const std::optional<std::string>& model) {
  return model ? std::vector{of_class + kOfModel + *model, of_class} : std::vector{of_class};
}

/// *Throws*: Unsupported where the run did not use the profile's kernels, or may not have: it has other bits.
void require_profile(const scenario::CpuProfile& profile, const trace::RunTrace& run) {
  const Json environment = environment_of(run);
  const std::string actual = text_in(environment, "cpu_capability");
  const std::string where = run.ranks[0].origin + ": cpu = " + profile.name;
  if (actual != kUnknown && actual != profile.capability)
    throw Unsupported(
        {.what = "the run has other kernels than its CPU profile: " + actual + ", and not " + profile.capability,
         .where = where,
         .next = std::string("run it on a processor with ") + profile.needs +
                 ", and set ATEN_CPU_CAPABILITY nowhere else"});
  if (!environment.contains("variables")) return;
  for (const auto& [name, expected] : {std::pair{"ONEDNN_MAX_CPU_ISA", profile.onednn}, {"MKL_CBWR", profile.mkl}}) {
    const std::string value = environment["variables"].value(name, std::string("not set"));
    if (value == expected) continue;
    throw Unsupported({.what = std::string("the run left its CPU profile: ") + name + " is not " + expected,
                       .where = where,
                       .expected = expected,
                       .actual = printable(value),
                       .next = std::string("set ") + name + " nowhere else: not in the program, nor what starts it"});
  }
}

}  // namespace

std::string class_of(const trace::RunTrace& run) {
  const std::string cpu = run.ranks.at(0).header.value("cpu", std::string(kNative));
  for (const scenario::CpuProfile& profile : scenario::kCpuProfiles) {
    if (cpu == profile.name) require_profile(profile, run);
  }
  return cpu == kNative ? native_class(text_in(environment_of(run), "cpu_capability")) : cpu;
}

std::string class_of(const std::string& key) { return key.substr(0, key.find(kOfModel)); }

std::vector<std::string> keys_of(const trace::RunTrace& run) {
  return with_model(class_of(run), model_named(text_in(environment_of(run), kModel)));
}

std::string key_of_model(const std::string& of_class, const Json& environment, const std::string& origin) {
  const std::optional<std::string> model = model_named(text_in(environment, kModel));
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

std::vector<std::string> keys_here(const std::string& cpu) {
  const std::string all = cpu.empty() || cpu == kNative ? native_class(cpu_capability()) : cpu;
  return with_model(all, model_named(cpu_model()));
}

const Entry* entry_for(const Golden& golden, const trace::RunTrace& run) {
  for (const std::string& key : keys_of(run)) {
    if (const Entry* const entry = golden.find(key)) return entry;
  }
  return nullptr;
}

std::string key_to_accept(const std::filesystem::path& file, const std::vector<std::string>& keys) {
  const std::set<std::string> there = is_there(file) ? keys_in(read_file(file)) : std::set<std::string>();
  const auto found =
      std::find_if(keys.begin(), keys.end(), [&](const std::string& key) { return there.contains(key); });
  return found == keys.end() ? keys.back() : *found;
}

}  // namespace lockstep::golden
