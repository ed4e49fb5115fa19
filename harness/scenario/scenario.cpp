#include "harness/scenario/scenario.h"

#include <algorithm>
#include <set>
#include <string_view>
#include <utility>

#include "harness/base/files.h"
#include "harness/base/hash.h"
#include "harness/base/problems.h"
#include "harness/base/text.h"
#include "harness/scenario/checks.h"
#include "harness/scenario/loading.h"
#include "harness/scenario/merging.h"
#include "harness/scenario/override.h"
#include "harness/scenario/practices.h"
#include "harness/scenario/reading.h"
#include "harness/scenario/rule_words.h"
#include "harness/scenario/schema.h"
#include "harness/scenario/sources.h"
#include "harness/scenario/train_reading.h"

namespace lockstep::scenario {
namespace {

/// Names become folders; most file systems take 255 bytes.
constexpr std::size_t kLongestName = 200;

/// Largest file of a scenario: in memory it takes many times as much. *Units*: bytes.
constexpr std::uintmax_t kMostScenarioBytes = std::uintmax_t{64} << 20;

LaunchSpec launch_from(const Json& object) {
  std::map<std::int64_t, std::map<std::string, std::string>> of_ranks;
  for (const Json& one : object.at("rank_environment"))
    of_ranks[one.at("rank").get<std::int64_t>()].merge(one.at("variables").get<std::map<std::string, std::string>>());
  const auto kind = object.at("kind").get<std::string>();
  return {
      .executed = kind == "exec",
      .other_launcher = kind == "fork" || kind == "exec" ? "" : kind,
      .nodes = object.at("nodes").get<std::int64_t>(),
      .rendezvous = object.at("rendezvous").get<std::string>(),
      .restarts = object.value("restarts", std::int64_t{0}),
      .options = object.at("options").get<std::vector<std::string>>(),
      .arrival_delay_ms = object.at("arrival_delay_ms").get<std::vector<std::int64_t>>(),
      .step_delay_ms = object.at("step_delay_ms").get<std::vector<std::int64_t>>(),
      .environment = object.at("environment").get<std::map<std::string, std::string>>(),
      .rank_environment = std::move(of_ranks),
      .reverse_environment = object.at("environment_order") == "reversed",
      .directory = object.at("directory").get<std::string>(),
      .deadline_s = object.contains("deadline_s") ? std::optional(object["deadline_s"].get<double>()) : std::nullopt,
      .stall_s = object.at("stall_s").get<double>()};
}

void require_safe_name(const std::string& name, const std::string& file) {
  const bool safe = !name.empty() && name.size() <= kLongestName && name[0] != '.' && name[0] != '-' &&
                    std::all_of(name.begin(), name.end(), [](unsigned char c) {
                      return std::isalnum(c) != 0 || c == '_' || c == '-' || c == '.' || c == '=';
                    });
  if (safe) return;
  throw InputError(
      {.what = "a variant's name cannot be used as the name of a folder",
       .where = file + ": variants",
       .expected = "at most " + std::to_string(kLongestName) +
                   " letters, digits, '_', '-', '.', '='; not '.' or '-' at the start",
       .actual = "'" + name.substr(0, kLongestName) +
                 (name.size() > kLongestName ? "...', " + std::to_string(name.size()) + " characters" : "'")});
}

/// A name that no shell could set is a slip; an empty one, or one with '=', is none to the kernel either. Of a value, a
/// program sees what stands before its first NUL.
void require_environment(const std::map<std::string, std::string>& environment, const std::string& where) {
  for (const auto& [name, value] : environment) {
    const bool usable =
        !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (!usable)
      throw InputError({.what = "an environment variable cannot have this name",
                        .where = where,
                        .expected = "letters, digits and '_', no digit first",
                        .actual = "'" + name + "'"});
    if (const std::size_t at = value.find('\0'); at != std::string::npos)
      throw InputError({.what = "an environment variable cannot hold a NUL character",
                        .where = where + "." + name,
                        .expected = "a text without \"\\u0000\": a program would see only what stands before it",
                        .actual = "NUL after " + std::to_string(at) + " bytes of " + std::to_string(value.size()),
                        .next = "take it out, or write the text in another way, as base64 say"});
  }
}

void require_environments(const Variant& variant, const std::string& file) {
  require_environment(variant.launch.environment, file + ": launch.environment");
  for (const auto& [rank, environment] : variant.launch.rank_environment) {
    require_environment(environment, file + ": launch.rank_environment");
    if (rank < variant.world_size) continue;
    throw InputError({.what = "variables are set for a rank that does not exist",
                      .where = file + " (variant '" + variant.name + "'): launch.rank_environment",
                      .expected = "a rank below " + std::to_string(variant.world_size),
                      .actual = std::to_string(rank)});
  }
}

/// Another launcher has its own way to place ranks.
void require_launcher(const LaunchSpec& launch, const std::string& origin) {
  const auto refuse = [&](const std::string& key, const std::string& expected) {
    throw InputError({.what = "launch." + key + " does not go with launch.kind = '" +
                              (launch.other_launcher.empty() ? "fork" : launch.other_launcher) + "'",
                      .where = origin + ": launch." + key,
                      .expected = expected});
  };
  const std::string own = own_launch_key(launch);
  if (!launch.other_launcher.empty() && !own.empty()) refuse(own, "launch.kind = 'fork' or 'exec'");
  if (!launch.other_launcher.empty()) return;
  if (launch.nodes > 1) refuse("nodes", "launch.kind = 'torchrun' or 'srun'");
  if (launch.restarts > 0) refuse("restarts", "launch.kind = 'torchrun'");
  if (!launch.options.empty()) refuse("options", "a launch.kind that is another program");
}

/// A variant has one training: of our worker, or a program's.
void require_one_program(const Json& run, const std::string& origin) {
  const bool trains = run.contains("train"), runs = run.contains("program");
  if (trains && !runs && run.contains("promises"))
    throw InputError({.what = "'promises' describe a program, and there is none",
                      .where = origin + ": promises",
                      .expected = "'program' beside it, or no 'promises'"});
  if (trains != runs) return;
  if (trains && !run["program"].contains("command"))
    throw InputError({.what = "only a program of your own has these options",
                      .where = origin + ": program",
                      .expected = "program.command; this variant trains with lockstep's own worker",
                      .actual = run["program"].dump(),
                      .next = "for the number of updates of that one: train.steps"});
  throw InputError({.what = trains ? "a variant has two trainings" : "a required key is missing: 'train' or 'program'",
                    .where = origin,
                    .expected = "'train', for lockstep's own worker, or 'program', for a program of your own",
                    .actual = trains ? "both" : "neither"});
}

/// What a program is started with, and what its author promises of it.
void take_program(Variant& variant, const Json& completed, const Json& run, const std::string& origin) {
  variant.program_json = completed.at("program");
  variant.promises_json = run.value("promises", Json::object());
  variant.program = program_spec_from(variant.program_json, origin);
  require_environment(variant.program->environment, origin + ": program.environment");
  variant.known.emplace();
  for (const auto& [part, unused] : variant.promises_json.items()) variant.known->insert(part);
  require(!variant.known->contains("each_once") || !variant.known->contains("sampler"), origin, "promises",
          "the samples are promised twice", "'sampler' or 'each_once'", "both");
  variant.train = train_spec_from_promises(completed.at("promises"), *variant.known);
  if (variant.knows("layout")) variant.layout = completed.at("promises").at("layout").get<std::set<std::string>>();
  validate_schedule(variant.train, origin, "promises");
  variant.train.record = variant.program->record;
  variant.train.determinism.cpu = variant.program->cpu;
  if (!variant.program->source.empty())
    variant.train.checkpoint.load = recipe::whole_checkpoint_of(variant.program->source);
  const LaunchSpec& launch = variant.launch;
  require(launch.other_launcher.empty(), origin, "launch.kind", "a program starts its ranks itself",
          "the launcher in program.command", launch.other_launcher);
  const bool places_ranks = !launch.arrival_delay_ms.empty() || !launch.rank_environment.empty();
  require(!places_ranks, origin, "launch", "a program starts its ranks itself: lockstep cannot place one of them",
          "neither arrival_delay_ms nor rank_environment", "one of them");
}

/// A variant as the schema completes it; what else is wrong with it is added to `problems`. *Throws*: InputError.
Variant variant_of(const std::string& name, const Json& run, const std::string& file, Problems& problems) {
  const std::string within = "variant '" + name + "'", origin = file + " (" + within + ")";
  require_one_program(run, origin);
  const Json completed = complete(run, "run", {.file = file, .within = within});
  Variant variant;
  variant.name = name;
  variant.world_size = completed.at("world_size").get<std::int64_t>();
  variant.launch_json = completed.at("launch");
  variant.launch = launch_from(variant.launch_json);
  problems.collect([&] { require_environments(variant, file); });
  problems.collect([&] { require_launcher(variant.launch, origin); });
  if (completed.contains("program")) {
    take_program(variant, completed, run, origin);
  } else {
    variant.train_json = completed.at("train");
    variant.train = train_spec_from(variant.train_json);
    problems.collect([&] { validate(variant.train, variant.world_size, origin); });
  }
  return variant;
}

Variant variant_from(const Patch& patch, const Json& base, const std::string& file, Problems& problems) {
  require_safe_name(patch.name, file);
  return variant_of(patch.name, with_changes(base, patch.changes), file, problems);
}

Variant variant_again(const std::string& name, const Json& document, const std::string& file) {
  Problems problems;
  Variant result = variant_of(name, document, file, problems);
  problems.throw_if_any();
  return result;
}

/// Laws that hold gradients, losses and buffers to what the loss alone tells need steps in which the worker records
/// its slopes. Nothing that the training computes changes.
void record_slopes_for_laws(Scenario& scenario) {
  const std::string channel(trace::name_of(trace::Channel::kGradientLocal));
  for (const CheckSpec& check : scenario.checks) {
    const auto names = [&](const char* law) {
      return std::find(check.laws.begin(), check.laws.end(), law) != check.laws.end();
    };
    if (check.that != CheckKind::kLaws) continue;
    if (!check.laws.empty() && !names("backward") && !names("loss") && !names("buffers")) continue;
    for (Variant& variant : scenario.variants) {
      const bool is_named =
          std::find(check.variants.begin(), check.variants.end(), variant.name) != check.variants.end();
      const std::vector<recipe::CaptureSpec>& captures = variant.train.record.captures;
      const bool captures_it = std::any_of(captures.begin(), captures.end(), [&](const recipe::CaptureSpec& capture) {
        return capture.channel == channel;
      });
      if (!is_named || variant.program || captures_it || !variant.train.record.holds(trace::Channel::kGradientLocal))
        continue;
      variant.train_json["record"]["slopes"] = true;
      variant.train.record.slopes = true;
    }
  }
}

/// Errors of variants. They share most of what they are: an error of several is told once.
class SharedProblems {
 public:
  void add(const std::string& variant, const Problems& problems) {
    for (const Problem& problem : problems.all()) {
      Problem common = problem;
      const std::string name = "variant '" + variant + "'";
      if (const std::size_t at = common.where.find(name); at != std::string::npos)
        common.where.replace(at, name.size(), kAnyVariant);
      const auto same = std::find_if(all_.begin(), all_.end(), [&](const Shared& one) {
        return one.problem.what == common.what && one.problem.where == common.where &&
               one.problem.expected == common.expected && one.problem.actual == common.actual;
      });
      if (same != all_.end()) {
        ++same->others;
      } else if (all_.size() < Problems::kMost) {
        all_.push_back({common, name, 0});
      } else {
        is_over_ = true;
      }
    }
    is_over_ = is_over_ || problems.is_over();
  }

  void tell(Problems& problems) const {
    for (Shared one : all_) {
      const std::string more = one.others > 0 ? " and " + std::to_string(one.others) + " more" : "";
      if (const std::size_t at = one.problem.where.find(kAnyVariant); at != std::string::npos)
        one.problem.where.replace(at, std::string_view(kAnyVariant).size(), one.first + more);
      problems.add(one.problem);
    }
    if (is_over_) problems.note_more();
  }

 private:
  struct Shared {
    Problem problem;
    std::string first;
    std::size_t others = 0;
  };
  static constexpr const char* kAnyVariant = "variant '*'";  // which none can be called
  std::vector<Shared> all_;
  bool is_over_ = false;
};

/// Takes any object.
Json object_rule() { return {{"type", "object"}}; }

/// Reads a document part by part. What is wrong in one does not hide what is wrong in another.
class Loading {
 public:
  Loading(std::filesystem::path file, Json document, Problems& problems)
      : file_(std::move(file)), name_(file_.string()), document_(std::move(document)), problems_(problems) {}

  Scenario load(const std::vector<std::string>& overrides) {
    if (!document_.is_object())
      throw InputError({.what = "wrong type", .where = name_, .expected = "an object", .actual = shortened(document_)});
    problems_.collect([&] { complete_by(outline(), document_, {.file = name_, .within = ""}); });
    Scenario scenario{.name = part("name", "").get<std::string>(),
                      .description = part("description", "").get<std::string>(),
                      .file = file_,
                      .overrides = overrides,
                      .repeats = part("repeats", 2).get<std::int64_t>(),
                      .may_be_unsupported = part("may_be_unsupported", false).get<bool>()};
    read_variants(scenario);
    validate_sources(scenario, names_, sound_, problems_);
    const Json checks = part("checks", Json::array(), rule_of("checks", {{"items", Json::object()}}));
    scenario.checks = checks_from(checks, scenario, names_, problems_);
    record_slopes_for_laws(scenario);
    const Json practices = part("practices", Json::array());
    if (!scenario.checks.empty()) scenario.practices = practices_from(practices, scenario, names_, problems_);
    return scenario;
  }

 private:
  /// The schema of the document's own keys, whatever stands in them.
  static Json outline() {
    Json rule = {{"type", "object"}, {"required", schema()["required"]}, {"additionalProperties", false}};
    for (const auto& [key, property] : schema()["properties"].items()) rule["properties"][key] = Json::object();
    return rule;
  }

  /// The schema's rule for a key of the document, with some of it replaced.
  static Json rule_of(const std::string& key, const Json& changes = Json::object()) {
    Json rule = schema()["properties"].at(key);
    rule.update(changes);
    return rule;
  }

  /// A key of the document, completed; `otherwise` where it is not as it must be, so that the rest can be judged.
  Json part(const std::string& key, const Json& otherwise) { return part(key, otherwise, rule_of(key)); }
  Json part(const std::string& key, const Json& otherwise, const Json& rule) {
    Json value = rule.value("default", otherwise);
    if (!document_.contains(key)) return value;
    const bool sound = problems_.collect(
        [&] { value = complete_by(rule, document_[key], {.file = name_, .within = "", .path = key}); });
    return sound ? value : otherwise;
  }

  /// The patches of all variants; none where that cannot be told.
  std::vector<Patch> patches() {
    const Json variants = part("variants", Json(), rule_of("variants", {{"additionalProperties", object_rule()}}));
    const Json matrix = part("matrix", Json());
    if (variants.is_null() || matrix.is_null()) return {};
    std::vector<Patch> patches;
    problems_.collect([&] { patches = patches_of(variants, matrix, name_); });
    return patches;
  }

  /// Reads what variants can be read; `sound_` are those without an error.
  void read_variants(Scenario& scenario) {
    const Json base = shared_by_variants(document_);
    const std::vector<Patch> all = patches();
    for (const Patch& patch : all) names_.push_back(patch.name);
    for (const char* key : {"train", "program", "promises"}) {
      if (document_.contains(key) && !part(key, Json(), object_rule()).is_object()) return;
    }
    SharedProblems shared;
    std::set<std::string> distinct;
    for (const Patch& patch : all) {
      Problems of_variant;
      of_variant.collect([&] { scenario.variants.push_back(variant_from(patch, base, name_, of_variant)); });
      if (!distinct.insert(patch.name).second) {
        of_variant.add({.what = "two variants have the same name",
                        .where = name_,
                        .actual = "'" + patch.name + "'",
                        .next = "give the matrix values that differ in letters and digits"});
      }
      if (of_variant.all().empty()) sound_.insert(patch.name);
      shared.add(patch.name, of_variant);
    }
    shared.tell(problems_);
  }

  std::filesystem::path file_;
  std::string name_;
  Json document_;
  std::vector<std::string> names_;  ///< of all variants, sound or not
  std::set<std::string> sound_;
  Problems& problems_;
};

/// A change of our worker's training, as one of a program. *Throws*: InputError where a program has no such change.
Json for_program(Json changes, const Variant& variant) {
  const ProgramSpec& program = *variant.program;
  const auto takes_ranks = [](const std::string& text) { return text.find("{world_size}") != std::string::npos; };
  const bool other_ranks = changes.value("world_size", variant.world_size) != variant.world_size;
  if (other_ranks && std::none_of(program.command.begin(), program.command.end(), takes_ranks))
    throw InputError({.what = "the command does not say its number of ranks as {world_size}"});
  if (changes.contains("launch")) changes["launch"].erase("arrival_delay_ms");  // it starts its ranks itself
  if (!changes.contains("train")) return changes;
  Json train = changes["train"];
  changes.erase("train");
  if (train.value("precision", "") == "float64") {
    if (!variant.program_json.contains("float64"))
      throw InputError({.what = "the program has no way to compute in float64: program.float64 is missing"});
    changes["program"].merge_patch(variant.program_json["float64"]);
    train.erase("precision");
  }
  for (const char* key : {"channels", "every"}) {
    const Json::json_pointer at = Json::json_pointer("/record") / key;
    if (train.contains(at)) changes["program"]["record"][key] = train[at];
  }
  changes["launch"]["environment"].update(Json(variables_for(train)));
  return changes;
}

}  // namespace

std::string own_launch_key(const LaunchSpec& launch) {
  if (!launch.arrival_delay_ms.empty()) return "arrival_delay_ms";
  if (!launch.step_delay_ms.empty()) return "step_delay_ms";
  if (!launch.rank_environment.empty()) return "rank_environment";
  return launch.reverse_environment ? "environment_order" : "";
}

const Variant& Scenario::variant(const std::string& name) const {
  const auto found = std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; });
  LOCKSTEP_CHECK(found != variants.end());
  return *found;
}

Json document_of(const Variant& variant) {
  Json document = {{"world_size", variant.world_size}, {"launch", variant.launch_json}};
  if (variant.program) {
    document["program"] = variant.program_json;
    document["promises"] = variant.promises_json;
  } else {
    document["train"] = variant.train_json;
  }
  return document;
}

Variant patched(const Variant& variant, const Json& patch, const std::string& file) {
  Json merged = document_of(variant);
  merged.merge_patch(variant.program ? for_program(patch, variant) : patch);
  return variant_again(variant.name, merged, file);
}

Variant mutated(const Variant& variant, const Json& change, const std::string& file) {
  const Json before = document_of(variant);
  Json merged = before;
  merged.merge_patch(change);
  take_other_kinds(merged, before, change);
  Variant result = variant_again(variant.name, merged, file);
  result.mutation_of = variant.name;
  return result;
}

std::string arguments_of(const Scenario& scenario, const std::filesystem::path& golden_root) {
  std::string arguments = shell_quoted(scenario.file.string());
  for (const std::string& text : scenario.overrides) arguments += " --set " + shell_quoted(text);
  if (!golden_root.empty()) arguments += " --golden " + shell_quoted(golden_root.string());
  return arguments;
}

std::vector<std::string> overrides_of_recipe(const Scenario& scenario) {
  std::vector<std::string> overrides = scenario.overrides;
  std::erase_if(overrides, [](const std::string& text) {
    // A variable may decide bits.
    return text.starts_with("repeats=") || (text.starts_with("launch.") && !text.starts_with("launch.environment"));
  });
  return overrides;
}

Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  Problems problems;
  Scenario scenario = read_scenario(file, overrides, problems);
  problems.throw_if_any();
  return scenario;
}

Scenario read_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides,
                       Problems& problems) {
  Scenario scenario{.file = file};
  problems.collect([&] {
    const std::string text = read_file(file, kMostScenarioBytes);
    Json document = parse_json(text, file.string());
    for (const std::string& one : overrides) problems.collect([&] { apply_override(document, one); });
    scenario = Loading(file, std::move(document), problems).load(overrides);
    scenario.sha256 = sha256(text);
  });
  return scenario;
}

}  // namespace lockstep::scenario
