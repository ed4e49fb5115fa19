#include "harness/scenario/sources.h"

#include <algorithm>
#include <map>

#include "harness/base/text.h"
#include "harness/scenario/checks.h"
#include "harness/trace/channel.h"

namespace lockstep::scenario {
namespace {

void require_known_channels(const std::vector<std::string>& channels, const std::string& where) {
  const std::vector<std::string> known = trace::channel_names();
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
void require_saved(const recipe::LoadSpec& load, const Variant& source, const Scenario& scenario,
                   const std::string& where) {
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

/// Every variant that one takes checkpoints from, directly or through others, with the one that it was reached from.
std::map<std::string, std::string> reached_from(const Variant& variant, const Scenario& scenario) {
  std::map<std::string, const Variant*> by_name;
  for (const Variant& one : scenario.variants) by_name[one.name] = &one;
  std::map<std::string, std::string> reached;  // each variant once: paths may be far more than variants
  std::vector<std::string> open = {variant.name};
  while (!open.empty()) {
    const std::string at = open.back();
    open.pop_back();
    if (!by_name.contains(at)) continue;  // said where that variant is looked at
    for (const std::string& source : sources_of(*by_name.at(at))) {
      if (reached.emplace(source, at).second) open.push_back(source);
    }
  }
  return reached;
}

/// Variants that lead from one back to itself; empty where none do.
std::vector<std::string> circle_through(const Variant& variant, const Scenario& scenario) {
  if (sources_of(variant).empty()) return {};
  const std::map<std::string, std::string> reached = reached_from(variant, scenario);
  if (!reached.contains(variant.name)) return {};
  std::vector<std::string> circle = {variant.name};
  do circle.push_back(reached.at(circle.back()));
  while (circle.back() != variant.name);
  return {circle.rbegin(), circle.rend()};
}

/// A variant that waits for its own checkpoint would wait for ever.
void require_no_circle(const Variant& variant, const Scenario& scenario, const std::string& where) {
  const std::vector<std::string> circle = circle_through(variant, scenario);
  if (circle.empty()) return;
  throw InputError({.what = "variants load each other's checkpoints in a circle",
                    .where = where,
                    .expected = "a first variant that loads none",
                    .actual = join(circle, " from ")});
}

void require_source(const std::string& name, const std::vector<std::string>& names, const std::string& where) {
  if (std::find(names.begin(), names.end(), name) != names.end()) return;
  throw InputError({.what = "a checkpoint is loaded from a variant that does not exist",
                    .where = where,
                    .expected = "one of: " + some_of(names, 20),
                    .actual = "'" + name + "'",
                    .next = suggest(name, names)});
}

std::string place_of(const Variant& variant, const Scenario& scenario, const char* key) {
  if (variant.program) return scenario.file.string() + ": program (variant '" + variant.name + "')";
  return scenario.file.string() + ": train.checkpoint." + key + " (variant '" + variant.name + "')";
}

/// Who is followed saves every update that the follower makes, under the model's own names.
void require_followed(const Variant& variant, const Scenario& scenario) {
  const std::string& follow = variant.train.checkpoint.follow;
  if (follow.empty()) return;
  const std::string where = place_of(variant, scenario, "follow");
  const Variant& source = scenario.variant(follow);
  const recipe::CheckpointSpec& saved = source.train.checkpoint;
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
  const std::int64_t begin = updates_before(source, scenario);
  require_of(begin <= updates_before(variant, scenario), "the followed variant starts later",
             "a variant that saves the state before each update",
             "'" + follow + "' starts after update " + std::to_string(begin));
}

/// `origin`: file and object that holds "record".
void require_recordable(const recipe::RecordSpec& record, const std::string& origin) {
  require_known_channels(record.channels, origin + ".record.channels");
  for (const recipe::CaptureSpec& capture : record.captures) {
    if (!capture.channel.empty()) require_known_channels({capture.channel}, origin + ".record.capture");
  }
}

/// Every source is a variant, and none leads back. Sources that could not be read are told where they are.
void require_sources(const Variant& variant, const Scenario& scenario, const std::vector<std::string>& names) {
  const auto& load = variant.train.checkpoint.load;
  const std::string& follow = variant.train.checkpoint.follow;
  if (!follow.empty()) require_source(follow, names, place_of(variant, scenario, "follow"));
  if (load && !load->from.empty()) {
    const std::string where = place_of(variant, scenario, "load.from");
    require_source(load->from, names, where);
    const auto source = std::find_if(scenario.variants.begin(), scenario.variants.end(),
                                     [&](const Variant& one) { return one.name == load->from; });
    if (source != scenario.variants.end() && source->program.has_value() != variant.program.has_value())
      throw InputError({.what = "programs and lockstep's worker cannot load each other's checkpoints",
                        .where = where,
                        .expected = std::string("a variant with '") + variant.recipe_definition() + "'",
                        .actual = "'" + load->from + "'"});
    if (source != scenario.variants.end() && !source->program && !source->train.checkpoint.saves())
      throw InputError({.what = "a checkpoint is loaded from a variant that saves none",
                        .where = where,
                        .expected = "a variant with train.checkpoint.save_after or save_every",
                        .actual = "'" + load->from + "'"});
  }
  require_no_circle(variant, scenario,
                    place_of(variant, scenario, load && !load->from.empty() ? "load.from" : "follow"));
}

/// Whether a variant and all that it takes checkpoints from, one from the other, are sound.
bool stands_on(const Variant& variant, const Scenario& scenario, const std::set<std::string>& sound) {
  const std::map<std::string, std::string> reached = reached_from(variant, scenario);
  return sound.contains(variant.name) &&
         std::all_of(reached.begin(), reached.end(), [&](const auto& source) { return sound.contains(source.first); });
}

}  // namespace

Promises with_loaded_optimizer(const Scenario& scenario, const Variant& variant) {
  Promises promises = variant;
  const auto& load = variant.train.checkpoint.load;
  if (!load || load->from.empty() || !load->restores("optimizer")) return promises;
  const Promises source = with_loaded_optimizer(scenario, scenario.variant(load->from));
  promises.loaded_optimizer = source.loaded_optimizer.value_or(source.train.optimizer);
  return promises;
}

std::vector<std::string> sources_of(const Variant& variant) {
  const recipe::CheckpointSpec& checkpoint = variant.train.checkpoint;
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

std::int64_t newest_saved(const recipe::LoadSpec& load, const Promises& source) {
  if (load.number) return *load.number;
  std::int64_t newest = 0;
  for (const auto& number : load.of_rank) newest = std::max(newest, number.value_or(0));
  for (std::int64_t updates = source.train.steps; newest == 0 && updates > 0; --updates) {
    if (source.train.checkpoint.saves_after(updates)) newest = updates;
  }
  return newest;
}

void validate_sources(const Scenario& scenario, const std::vector<std::string>& names, std::set<std::string> sound,
                      Problems& problems) {
  for (const Variant& variant : scenario.variants) {
    const bool records = problems.collect([&] {
      require_recordable(variant.train.record, scenario.file.string() + (variant.program ? ": program" : ": train"));
    });
    const bool loads = problems.collect([&] { require_sources(variant, scenario, names); });
    if (!records || !loads) sound.erase(variant.name);
  }
  // Which checkpoints there are follows from where each variant begins: only if all of that is sound.
  for (const Variant& variant : scenario.variants) {
    if (!stands_on(variant, scenario, sound)) continue;
    const auto& load = variant.train.checkpoint.load;
    problems.collect([&] {
      if (load && !load->from.empty() && !variant.program)  // only a program knows when it saves
        require_saved(*load, scenario.variant(load->from), scenario, place_of(variant, scenario, "load.from"));
      require_followed(variant, scenario);
    });
  }
}

}  // namespace lockstep::scenario
