#include "harness/scenario/program_spec.h"

#include <algorithm>
#include <cctype>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/cpu_profile.h"
#include "harness/scenario/train_reading.h"

namespace lockstep::scenario {
namespace {

/// Begins the placeholder of another variant's folder.
constexpr std::string_view kFolderOf = "folder:";

constexpr const char* kPlaceholders[] = {"world_size", "folder", "variant", "repeat", "port"};

std::string text_of(const Json& value) { return value.is_string() ? value.get<std::string>() : value.dump(); }

/// The words of one option: none where it is false.
std::vector<std::string> words_of(const std::string& name, const Json& value) {
  if (value == Json(false)) return {};
  std::vector<std::string> words = {name};
  if (value == Json(true)) return words;
  if (value.is_array()) {
    for (const Json& item : value) words.push_back(text_of(item));
  } else {
    words.push_back(text_of(value));
  }
  return words;
}

/// The name in braces that begins at `at`; empty where these are other braces.
std::string name_in_braces(const std::string& text, std::size_t at) {
  const std::size_t end = text.find('}', at);
  if (end == std::string::npos) return "";
  const std::string name = text.substr(at + 1, end - at - 1);
  const bool is_name =
      std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::islower(c) != 0 || c == '_'; });
  return is_name || name.starts_with(kFolderOf) ? name : "";
}

/// Variants whose folders a text names.
void add_sources(const std::string& text, std::set<std::string>& sources) {
  for (std::size_t at = text.find('{'); at != std::string::npos; at = text.find('{', at + 1)) {
    if (text.compare(at, 2, "{{") == 0) {
      ++at;
    } else if (const std::string name = name_in_braces(text, at); name.starts_with(kFolderOf)) {
      sources.insert(name.substr(kFolderOf.size()));
    }
  }
}

/// The variant whose folder a program is given; empty: none.
std::string source_of(const ProgramSpec& program, const std::string& origin) {
  std::set<std::string> sources;
  for (const std::string& word : program.command) add_sources(word, sources);
  for (const auto& [name, value] : program.environment) add_sources(value, sources);
  if (sources.size() > 1)
    throw InputError({.what = "a program is given the folders of several variants",
                      .where = origin + ": program",
                      .expected = "one '{folder:VARIANT}'",
                      .actual = join({sources.begin(), sources.end()}, ", ")});
  return sources.empty() ? "" : *sources.begin();
}

/// Null where the libraries choose by themselves.
const CpuProfile* profile_named(const Json& name) {
  const auto found = std::find_if(kCpuProfiles.begin(), kCpuProfiles.end(),
                                  [&](const CpuProfile& profile) { return name == profile.name; });
  return found == kCpuProfiles.end() ? nullptr : &*found;
}

template <recipe::Named Kind>
recipe::ChoiceOf<Kind> choice_of(const Json& completed, const std::string& key, const std::set<std::string>& known) {
  if (!known.contains(key)) return {.options = Json::object()};
  return recipe::choice_from<Kind>(completed.at(key));
}

/// Variables that bound a program's libraries to a profile.
std::map<std::string, std::string> variables_of(const CpuProfile& profile) {
  return {{"ATEN_CPU_CAPABILITY", profile.aten}, {"ONEDNN_MAX_CPU_ISA", profile.onednn}, {"MKL_CBWR", profile.mkl}};
}

/// Bounds a program to the profile that it names. *Throws*: InputError where its environment says otherwise.
void take_profile(ProgramSpec& program, const std::string& origin) {
  const CpuProfile* const profile = profile_named(program.cpu);
  for (const auto& [name, value] : profile == nullptr ? Placeholders() : variables_of(*profile)) {
    const std::string& set = program.environment.try_emplace(name, value).first->second;
    if (set == value) continue;
    throw InputError({.what = "two instruction sets are asked for",
                      .where = origin + ": program.environment." + name,
                      .expected = "'" + value + "', as program.cpu = " + program.cpu + " needs it",
                      .actual = "'" + set + "'",
                      .next = "remove one of them"});
  }
}

}  // namespace

std::map<std::string, std::string> variables_for(const Json& train) {
  std::map<std::string, std::string> variables;
  Json told = Json::object();  // to the recorder, which sets what the libraries read no variable for
  const Json flat = train.flatten();
  for (const auto& [path, value] : flat.items()) {
    if (path.empty() || path.starts_with("/record/")) continue;
    if (path == "/determinism/threads") {
      for (const char* name : {"OMP_NUM_THREADS", "MKL_NUM_THREADS"}) variables[name] = value.dump();
      told["threads"] = value;
    } else if (const CpuProfile* const profile = path == "/determinism/cpu" ? profile_named(value) : nullptr) {
      variables.merge(variables_of(*profile));
    } else if (path == "/determinism/algorithms") {
      if (value == "deterministic") told["deterministic"] = true;
    } else if (path == "/ddp/bucket_mb") {
      told["bucket_mb"] = value;
    } else {
      std::string name = path.substr(1);
      std::replace(name.begin(), name.end(), '/', '.');
      throw InputError({.what = "a program has no switch for train." + name});
    }
  }
  if (!told.empty()) variables["LOCKSTEP_CONTROL"] = told.dump();
  return variables;
}

std::string filled_in(const std::string& text, const Placeholders& values) {
  std::string filled;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text.compare(i, 2, "{{") == 0) {
      filled += '{';
      ++i;
      continue;
    }
    const std::string name = text[i] == '{' ? name_in_braces(text, i) : "";
    if (name.empty()) {
      filled += text[i];
      continue;
    }
    const auto value = values.find(name);
    if (value == values.end()) {
      std::vector<std::string> names;
      for (const auto& [known, unused] : values) names.push_back(known);
      throw InputError({.what = "unknown placeholder '{" + name + "}'",
                        .expected = "one of: " + join(names, ", ") + "; '{{' for a brace",
                        .actual = "'" + text + "'",
                        .next = suggest(name, names)});
    }
    filled += value->second;
    i += name.size() + 1;
  }
  return filled;
}

std::string folder_of(const std::string& variant) { return std::string(kFolderOf) + variant; }

ProgramSpec program_spec_from(const Json& completed, const std::string& origin) {
  ProgramSpec program{.command = completed.at("command").get<std::vector<std::string>>(),
                      .environment = completed.at("environment").get<std::map<std::string, std::string>>(),
                      .cpu = completed.value("cpu", ""),
                      .directory = completed.at("directory").get<std::string>(),
                      .inputs = completed.at("inputs").get<std::vector<std::string>>(),
                      .stop_after = completed.value("stop_after", std::int64_t{0}),
                      .alone = completed.at("alone").get<bool>(),
                      .record = {.channels = completed.at("record").at("channels").get<std::vector<std::string>>(),
                                 .every = completed.at("record").at("every").get<std::int64_t>(),
                                 .captures = {}}};
  for (const auto& [name, value] : completed.at("arguments").items()) {
    for (const Json& item : value.is_array() ? value : Json::array()) {
      if (item.is_structured())
        throw InputError({.what = "an option's value is no text or number",
                          .where = origin + ": program.arguments." + name,
                          .expected = "texts and numbers",
                          .actual = item.dump()});
    }
    for (std::string& word : words_of(name, value)) program.command.push_back(std::move(word));
  }
  take_profile(program, origin);
  program.source = source_of(program, origin);
  Placeholders any;
  if (!program.source.empty()) any[folder_of(program.source)] = "";
  for (const char* name : kPlaceholders) any[name] = "";
  try {
    for (const std::string& word : program.command) filled_in(word, any);
    for (const auto& [name, value] : program.environment) filled_in(value, any);
  } catch (const InputError& error) {
    Problem problem = error.problem();
    problem.where = origin + ": program";
    throw InputError(problem);
  }
  return program;
}

recipe::TrainSpec train_spec_from_promises(const Json& completed, const std::set<std::string>& known) {
  recipe::TrainSpec train;
  train.model.options = train.data.options = Json::object();
  train.loss_average = recipe::LossAverage::kRank;
  train.precision = recipe::Precision::kFloat32;
  train.autocast = recipe::Autocast::kNone;
  train.schedule_every = recipe::ScheduleEvery::kUpdate;
  train.seed.policy = recipe::SeedPolicy::kUnseeded;
  train.ddp.compression = recipe::Compression::kNone;
  train.sampler = choice_of<recipe::SamplerKind>(completed, "sampler", known);
  train.optimizer = choice_of<recipe::OptimizerKind>(completed, "optimizer", known);
  train.learning_rate_rule = choice_of<recipe::RateRuleKind>(completed, "learning_rate_rule", known);
  if (train.learning_rate_rule.kind == recipe::RateRuleKind::kUnknown)
    train.learning_rate_rule.kind = recipe::RateRuleKind::kNone;  // rates are as they are promised
  train.schedule = choice_of<recipe::ScheduleKind>(completed, "schedule", known);
  train.batch = known.contains("batch") ? batch_spec_from(completed.at("batch")) : recipe::BatchSpec{.per_rank = 1};
  if (known.contains("schedule_every"))
    train.schedule_every = recipe::kind_at<recipe::ScheduleEvery>(completed, "schedule_every");
  if (known.contains("steps")) train.steps = completed.at("steps").get<std::int64_t>();
  if (known.contains("data")) train.data.options["samples"] = completed.at("data").at("samples");
  return train;
}

}  // namespace lockstep::scenario
