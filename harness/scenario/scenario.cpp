#include "harness/scenario/scenario.h"

#include <algorithm>
#include <charconv>
#include <limits>
#include <set>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/checks.h"
#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

/// Names become folders; most file systems take 255 bytes.
constexpr std::size_t kLongestName = 200;

/// The number that a key of an array is; nothing for any other text.
std::optional<std::size_t> index_from(const std::string& key) {
  std::size_t index = 0;
  const auto [end, error] = std::from_chars(key.data(), key.data() + key.size(), index);
  if (key.empty() || error == std::errc::invalid_argument || end != key.data() + key.size()) return std::nullopt;
  return error == std::errc::result_out_of_range ? std::numeric_limits<std::size_t>::max() : index;
}

/// Sets one dotted path, making the objects on the way. `where` says who asks for it.
void set_path(Json& document, const std::string& path, const Json& value, const std::string& where) {
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
                        .actual = at->dump()});
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
  const Json parsed = Json::parse(value, nullptr, /*allow_exceptions=*/false);
  set_path(document, text.substr(0, equals), parsed.is_discarded() ? Json(value) : parsed, "--set " + text);
}

/// A patch by name: what a variant changes.
struct Patch {
  std::string name;
  Json changes;
};

/// A value as part of a name: "0.1", "sgd_lr0.1_nesterov", "1024_700", "default" for an empty object.
std::string label_of(const Json& value) {
  if (value.is_object()) {
    std::vector<std::string> parts;
    if (value.contains("kind")) parts.push_back(label_of(value["kind"]));
    for (const auto& [key, part] : value.items()) {
      if (key == "kind") continue;
      parts.push_back(part == Json(true) ? key : part == Json(false) ? "no-" + key : key + label_of(part));
    }
    return parts.empty() ? "default" : join(parts, "_");
  }
  if (value.is_array()) {
    std::vector<std::string> parts;
    for (const Json& part : value) parts.push_back(label_of(part));
    return join(parts, "_");
  }
  std::string text = value.is_string() ? value.get<std::string>() : value.dump();
  std::replace_if(
      text.begin(), text.end(), [](unsigned char c) { return std::isalnum(c) == 0 && c != '.' && c != '-'; }, '_');
  return text;
}

/// Every patch with every combination of the matrix.
std::vector<Patch> expand_matrix(std::vector<Patch> patches, const Json& matrix, const std::string& file) {
  for (const auto& [path, values] : matrix.items()) {
    std::vector<Patch> expanded;
    const std::string last = path.substr(path.rfind('.') == std::string::npos ? 0 : path.rfind('.') + 1);
    for (const Patch& patch : patches) {
      for (const Json& value : values) {
        Patch next = patch;
        const std::string label = last + "=" + label_of(value);
        next.name = patch.name.empty() ? label : patch.name + "-" + label;
        set_path(next.changes, path, value, file + ": matrix." + path);
        expanded.push_back(std::move(next));
      }
    }
    patches = std::move(expanded);
  }
  return patches;
}

LaunchSpec launch_from(const Json& object) {
  std::map<std::int64_t, std::map<std::string, std::string>> of_ranks;
  for (const Json& one : object.at("rank_environment"))
    of_ranks[one.at("rank").get<std::int64_t>()].merge(one.at("variables").get<std::map<std::string, std::string>>());
  return {
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
  throw InputError({.what = "a variant's name cannot be used as the name of a folder",
                    .where = file + ": variants",
                    .expected = "letters, digits, '_', '-', '.', '='; not '.' or '-' at the start",
                    .actual = "'" + name + "'"});
}

/// A name that no shell could set is a slip; an empty one, or one with '=', is none to the kernel either.
void require_environment_names(const std::map<std::string, std::string>& environment, const std::string& where) {
  for (const auto& [name, value] : environment) {
    const bool usable =
        !name.empty() && std::isdigit(static_cast<unsigned char>(name[0])) == 0 &&
        std::all_of(name.begin(), name.end(), [](unsigned char c) { return std::isalnum(c) != 0 || c == '_'; });
    if (usable) continue;
    throw InputError({.what = "an environment variable cannot have this name",
                      .where = where,
                      .expected = "letters, digits and '_', no digit first",
                      .actual = "'" + name + "'"});
  }
}

void require_environments(const Variant& variant, const std::string& file) {
  require_environment_names(variant.launch.environment, file + ": launch.environment");
  for (const auto& [rank, environment] : variant.launch.rank_environment) {
    require_environment_names(environment, file + ": launch.rank_environment");
    if (rank < variant.world_size) continue;
    throw InputError({.what = "variables are set for a rank that does not exist",
                      .where = file + " (variant '" + variant.name + "'): launch.rank_environment",
                      .expected = "a rank below " + std::to_string(variant.world_size),
                      .actual = std::to_string(rank)});
  }
}

/// The ways to give a batch exclude each other; a variant that gives one means that one.
void take_one_batch(Json& batch, const Json& change) {
  const auto given = [&](const char* key) { return change.contains(key); };
  if (given("global") + given("per_rank") + given("per_node") != 1) return;
  for (const char* key : {"global", "per_rank", "per_node"}) {
    if (!given(key)) batch.erase(key);
  }
  if (!given("per_node")) batch.erase("ranks_per_node");
}

Variant variant_of(const std::string& name, const Json& run, const std::string& file) {
  const Json completed = complete(run, "run", {.file = file, .within = "variant '" + name + "'"});
  Variant variant{{.name = name,
                   .world_size = completed.at("world_size").get<std::int64_t>(),
                   .train = train_spec_from(completed.at("train"))},
                  completed.at("train"),
                  completed.at("launch"),
                  launch_from(completed.at("launch"))};
  require_environments(variant, file);
  validate(variant.train, variant.world_size, file + " (variant '" + name + "')");
  return variant;
}

Variant variant_from(const Patch& patch, const Json& base, const std::string& file) {
  require_safe_name(patch.name, file);
  Json merged = base;
  merge_json(merged, patch.changes);
  // Another kind brings keys of its own: those of the kind that it replaces must not linger.
  if (patch.changes.contains("train")) {
    for (const auto& [key, change] : patch.changes["train"].items()) {
      const bool other_kind = change.is_object() && change.contains("kind") &&
                              base.value("/train"_json_pointer, Json::object()).contains(key) &&
                              base["train"][key].is_object() &&
                              base["train"][key].value("kind", Json()) != change["kind"];
      if (other_kind) merged["train"][key] = change;
      if (key == "batch" && change.is_object()) take_one_batch(merged["train"]["batch"], change);
    }
  }
  return variant_of(patch.name, merged, file);
}

void require_known_channels(const std::vector<std::string>& channels, const std::string& where) {
  const std::vector<std::string> known = channel_names_of_schema();
  for (const std::string& name : channels) {
    if (std::find(known.begin(), known.end(), name) != known.end()) continue;
    throw InputError({.what = "unknown channel '" + name + "'",
                      .where = where,
                      .expected = "one of: " + join(known, ", "),
                      .actual = "'" + name + "'",
                      .next = suggest(name, known)});
  }
}

/// Every checkpoint that is asked for by number is one that `source` saves, and it saves one at all.
void require_saved(const LoadSpec& load, const Variant& source, const Scenario& scenario, const std::string& where) {
  const std::int64_t begin = updates_before(source, scenario);
  std::vector<std::optional<std::int64_t>> wanted = load.of_rank;
  wanted.push_back(load.number);
  if (!load.number && load.of_rank.empty()) wanted.back() = newest_saved(load, source);
  for (const auto& number : wanted) {
    const bool saved = number && *number > begin && *number <= source.train.steps;
    if (!number || (saved && source.train.checkpoint.saves_after(*number))) continue;
    throw InputError({.what = "the checkpoint to load is never saved",
                      .where = where,
                      .expected = "updates after which '" + source.name + "' saves",
                      .actual = std::to_string(*number)});
  }
}

/// The variants after `path`'s last one that lead back into it; empty where none do.
std::vector<std::string> circle_after(std::vector<std::string> path, const Scenario& scenario) {
  const auto last = std::find_if(scenario.variants.begin(), scenario.variants.end(),
                                 [&](const Variant& variant) { return variant.name == path.back(); });
  if (last == scenario.variants.end()) return {};  // said where that variant is looked at
  for (const std::string& source : sources_of(*last)) {
    std::vector<std::string> longer = path;
    longer.push_back(source);
    if (std::find(path.begin(), path.end(), source) != path.end()) return longer;
    if (std::vector<std::string> circle = circle_after(std::move(longer), scenario); !circle.empty()) return circle;
  }
  return {};
}

/// A variant that waits for its own checkpoint would wait for ever.
void require_no_circle(const Variant& variant, const Scenario& scenario, const std::string& where) {
  const std::vector<std::string> circle = circle_after({variant.name}, scenario);
  if (circle.empty()) return;
  throw InputError({.what = "variants load each other's checkpoints in a circle",
                    .where = where,
                    .expected = "a first variant that loads none",
                    .actual = join(circle, " from ")});
}

/// The variant of a scenario that another takes checkpoints from.
const Variant& require_source(const std::string& name, const Scenario& scenario, const std::string& where) {
  std::vector<std::string> names;
  for (const Variant& variant : scenario.variants) {
    if (variant.name == name) return variant;
    names.push_back(variant.name);
  }
  throw InputError({.what = "a checkpoint is loaded from a variant that does not exist",
                    .where = where,
                    .expected = "one of: " + some_of(names, 20),
                    .actual = "'" + name + "'",
                    .next = suggest(name, names)});
}

/// Who is followed saves every update that the follower makes, under the model's own names.
void require_followed(const Variant& variant, const Scenario& scenario) {
  const std::string& follow = variant.train.checkpoint.follow;
  if (follow.empty()) return;
  const std::string where = scenario.file.string() + ": train.checkpoint.follow (variant '" + variant.name + "')";
  const Variant& source = require_source(follow, scenario, where);
  const CheckpointSpec& saved = source.train.checkpoint;
  const auto require_of = [&](bool holds, const std::string& what, const std::string& expected,
                              const std::string& actual) {
    if (!holds) throw InputError({.what = what, .where = where, .expected = expected, .actual = actual});
  };
  require_of(saved.save_every == 1, "the followed variant does not save every update",
             "train.checkpoint.save_every 1 in '" + follow + "'",
             saved.save_every ? std::to_string(*saved.save_every) : "none");
  require_of(saved.prefix.empty(), "the followed variant saves other names than the model's",
             "no train.checkpoint.prefix in '" + follow + "'", "'" + saved.prefix + "'");
  require_of(variant.train.steps <= source.train.steps, "the followed variant ends earlier",
             "at most train.steps = " + std::to_string(source.train.steps), std::to_string(variant.train.steps));
  require_no_circle(variant, scenario, where);
  const std::int64_t begin = updates_before(source, scenario);
  require_of(begin <= updates_before(variant, scenario), "the followed variant starts later",
             "a variant that saves the state before each update",
             "'" + follow + "' starts after update " + std::to_string(begin));
}

void validate_loads(const Scenario& scenario) {
  for (const Variant& variant : scenario.variants) {
    const std::string where = scenario.file.string() + ": train.checkpoint.load.from (variant '" + variant.name + "')";
    require_known_channels(variant.train.record.channels, scenario.file.string() + ": train.record.channels");
    for (const CaptureSpec& capture : variant.train.record.captures) {
      if (!capture.channel.empty())
        require_known_channels({capture.channel}, scenario.file.string() + ": train.record.capture");
    }
    if (!variant.train.checkpoint.load || variant.train.checkpoint.load->from.empty()) continue;
    const std::string& from = variant.train.checkpoint.load->from;
    const Variant& source = require_source(from, scenario, where);
    if (!source.train.checkpoint.saves()) {
      throw InputError({.what = "a checkpoint is loaded from a variant that saves none",
                        .where = where,
                        .expected = "a variant with train.checkpoint.save_after or save_every",
                        .actual = "'" + from + "'"});
    }
    require_no_circle(variant, scenario, where);
  }
  for (const Variant& variant : scenario.variants) {
    const auto& load = variant.train.checkpoint.load;
    const std::string where = scenario.file.string() + ": train.checkpoint.load.from (variant '" + variant.name + "')";
    if (load && !load->from.empty()) require_saved(*load, scenario.variant(load->from), scenario, where);
    require_followed(variant, scenario);
  }
}

}  // namespace

std::vector<std::string> sources_of(const Variant& variant) {
  const CheckpointSpec& checkpoint = variant.train.checkpoint;
  std::vector<std::string> sources;
  if (checkpoint.load && !checkpoint.load->from.empty()) sources.push_back(checkpoint.load->from);
  if (!checkpoint.follow.empty()) sources.push_back(checkpoint.follow);
  return sources;
}

std::int64_t updates_before(const Variant& variant, const Scenario& scenario) {
  const auto& load = variant.train.checkpoint.load;
  if (!load || load->from.empty() || !load->restores("schedule")) return 0;
  return newest_saved(*load, scenario.variant(load->from));
}

std::int64_t newest_saved(const LoadSpec& load, const Promises& source) {
  if (load.number) return *load.number;
  std::int64_t newest = 0;
  for (const auto& number : load.of_rank) newest = std::max(newest, number.value_or(0));
  for (std::int64_t updates = source.train.steps; newest == 0; --updates) {
    if (source.train.checkpoint.saves_after(updates)) newest = updates;
  }
  return newest;
}

const Variant& Scenario::variant(const std::string& name) const {
  const auto found = std::find_if(variants.begin(), variants.end(), [&](const Variant& v) { return v.name == name; });
  LOCKSTEP_CHECK(found != variants.end());
  return *found;
}

Variant patched(const Variant& variant, const Json& patch, const std::string& file) {
  Json merged = {{"world_size", variant.world_size}, {"train", variant.train_json}, {"launch", variant.launch_json}};
  merged.merge_patch(patch);
  return variant_of(variant.name, merged, file);
}

std::string arguments_of(const Scenario& scenario, const std::filesystem::path& golden_root) {
  std::string arguments = shell_quoted(scenario.file.string());
  for (const std::string& text : scenario.overrides) arguments += " --set " + shell_quoted(text);
  if (!golden_root.empty()) arguments += " --golden " + shell_quoted(golden_root.string());
  return arguments;
}

Scenario load_scenario(const std::filesystem::path& file, const std::vector<std::string>& overrides) {
  Json document = read_json(file);
  for (const std::string& text : overrides) apply_override(document, text);
  const std::string name = file.string();
  Json base = Json::object();
  for (const char* part : {"world_size", "train", "launch"}) {
    if (document.contains(part)) base[part] = document[part];
  }
  const Json completed = complete(document, "", {.file = name, .within = ""});

  Scenario scenario{.name = completed.at("name").get<std::string>(),
                    .description = completed.at("description").get<std::string>(),
                    .practices = completed.at("practices").get<std::vector<std::string>>(),
                    .file = file,
                    .overrides = overrides,
                    .repeats = completed.at("repeats").get<std::int64_t>(),
                    .may_be_unsupported = completed.at("may_be_unsupported").get<bool>()};
  std::vector<Patch> patches;
  for (const auto& [variant, changes] : completed.at("variants").items()) patches.push_back({variant, changes});
  if (patches.empty()) patches.push_back({completed.at("matrix").empty() ? "main" : "", Json::object()});
  std::set<std::string> names;
  for (const Patch& patch : expand_matrix(patches, completed.at("matrix"), name)) {
    scenario.variants.push_back(variant_from(patch, base, name));
    if (!names.insert(patch.name).second) {
      throw InputError({.what = "two variants have the same name",
                        .where = name,
                        .actual = "'" + patch.name + "'",
                        .next = "give the matrix values that differ in letters and digits"});
    }
  }
  validate_loads(scenario);
  scenario.checks = checks_from(completed.at("checks"), scenario);
  return scenario;
}

}  // namespace lockstep::scenario
