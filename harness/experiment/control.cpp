#include "harness/experiment/control.h"

#include <algorithm>
#include <set>
#include <sstream>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"

namespace lockstep::experiment {
namespace {

/// *Source*: mallopt(3), M_PERTURB: freed memory holds this byte, fresh memory its complement.
Json filled_with(const char* byte) {
  return {{"launch", {{"environment", {{"MALLOC_PERTURB_", byte}}}}},
          {"train", {{"determinism", {{"algorithms", "default"}}}}}};
}

/// The variants, and all that they load from.
std::set<std::string> with_sources(const scenario::Scenario& scenario, const std::vector<std::string>& variants) {
  std::set<std::string> needed;
  std::vector<std::string> open = variants;
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!needed.insert(name).second) continue;
    for (const std::string& source : scenario::sources_of(scenario.variant(name))) open.push_back(source);
  }
  return needed;
}

/// Where everything is computed in float64, a compression hook sends it, too.
void widen_hook(Json& patch, const scenario::TrainSpec& train) {
  const bool widens = patch.value(Json::json_pointer("/train/precision"), "") == "float64";
  if (widens && train.ddp.compression != "none") patch["train"]["ddp"]["compression"] = "fp64";
}

/// A patch without captures of steps that a training does not reach, as one that only saves for another, and without
/// elements of what it does not record.
Json possible(Json patch, const scenario::TrainSpec& train) {
  widen_hook(patch, train);
  const Json::json_pointer captures("/train/record/capture");
  if (!patch.contains(captures)) return patch;
  Json reached = Json::array();
  for (Json& capture : patch[captures]) {
    const auto step = capture.at("step").get<std::int64_t>();
    if (step >= train.steps) continue;
    const auto channel = trace::channel_named(capture.at("channel").get<std::string>());
    const bool recorded = channel && train.record.holds(*channel) && (step < 0 || step % train.record.every == 0);
    if (!recorded) capture["channel"] = "";
    reached.push_back(capture);
  }
  patch[captures] = std::move(reached);
  return patch;
}

Control capturing(Control control, const compare::Divergence& at, const std::string& tensors) {
  const auto capture = [&](trace::Channel channel) {
    control.patch["train"]["record"]["capture"].push_back(
        {{"step", at.step}, {"channel", trace::name_of(channel)}, {"tensor", tensors}});
  };
  capture(at.channel);
  if (at.channel == trace::Channel::kGradient) capture(trace::Channel::kGradientLocal);  // what it is made of
  return control;
}

}  // namespace

Control replay() { return {.id = "replay", .patch = Json::object()}; }

Control replay_there() { return {.id = "replay_there", .patch = Json::object()}; }

Control replay_often(std::int64_t times) { return {.id = "replay_often", .patch = Json::object(), .repeats = times}; }

Control replay_twice() { return {.id = "replay_twice", .patch = Json::object(), .repeats = 2}; }

Control filled() { return {.id = "fill", .patch = filled_with("165")}; }

Control filled_otherwise() { return {.id = "fill_otherwise", .patch = filled_with("90")}; }

Control looking_at(Control control, const compare::Divergence& at) {
  // A record's name is a pattern there: what a pattern treats as special stands for any one character.
  std::string pattern = at.tensor;
  for (char& c : pattern) {
    if (c == '*' || c == '[' || c == '\\') c = '?';
  }
  return capturing(std::move(control), at, pattern);
}

Control looking_around(Control control, const compare::Divergence& at) {
  return capturing(std::move(control), at, "*");
}

Control in_float64() { return {.id = "float64", .patch = {{"train", {{"precision", "float64"}}}}, .one_start = true}; }

const std::vector<NamedControl>& controls() {
  const auto train = [](const char* name, Json patch) { return Control{name, {{"train", std::move(patch)}}}; };
  const auto launch = [](const char* name, Json patch) { return Control{name, {{"launch", std::move(patch)}}}; };
  const auto ranks = [](const char* name, int count) { return Control{name, {{"world_size", count}}}; };
  constexpr auto kAnother = NamedControl::Kind::kAnotherTraining;
  static const std::vector<NamedControl> kControls = {
      {train("threads", {{"determinism", {{"threads", 1}}}}), "one thread per rank"},
      {train("isa", {{"determinism", {{"cpu", "portable"}}}}), "kernels for AVX2 at most"},
      {train("deterministic", {{"determinism", {{"algorithms", "deterministic"}}}}),
       "deterministic algorithms; fresh memory is filled"},
      {train("buckets", {{"ddp", {{"bucket_mb", 4096}}}}), "all gradients in one bucket"},
      {train("order", {{"ddp", {{"reduction", "rank_order"}}}}), "gradients added in the order of the ranks"},
      {ranks("two_ranks", 2), "two ranks: sums have only one order", kAnother},
      {ranks("one_rank", 1), "one rank: nothing is reduced", kAnother},
      {launch("delays", {{"arrival_delay_ms", {300}}, {"step_delay_ms", {20}}}),
       "rank 0 comes late, at the start and to every reduction"},
      {filled(), "another pattern in fresh memory"},
      {launch("place", {{"directory", "elsewhere"}, {"environment_order", "reversed"}}),
       "another folder, another order of the environment"},
      {{"same_state", Json::object()},
       "only the step of the difference, from the left side's state",
       NamedControl::Kind::kSameState},
      {in_float64(), "everything in float64", kAnother},
      {train("exact", {{"exact", true}}), "inputs, weights and gradients on grids where no sum rounds", kAnother}};
  return kControls;
}

std::vector<NamedControl> chosen_controls(const std::string& list) {
  std::vector<std::string> names;
  for (const NamedControl& one : controls()) names.push_back(one.name());
  std::set<std::string> wanted, unwanted;
  std::istringstream words(list);
  for (std::string word; std::getline(words, word, ',');) {
    const bool without = word.starts_with('-');
    if (without || word.starts_with('+')) word.erase(0, 1);
    if (std::find(names.begin(), names.end(), word) == names.end())
      throw InputError({.what = "unknown control '" + word + "'",
                        .where = "--vary " + list,
                        .expected = "some of: " + join(names, ", "),
                        .next = suggest(word, names)});
    (without ? unwanted : wanted).insert(word);
  }
  std::vector<NamedControl> chosen;
  for (const NamedControl& one : controls()) {
    if ((wanted.empty() || wanted.contains(one.name())) && !unwanted.contains(one.name())) chosen.push_back(one);
  }
  if (chosen.empty())
    throw InputError({.what = "no control is left", .where = "--vary " + list, .expected = "one or more"});
  return chosen;
}

scenario::Scenario under(const Control& control, const scenario::Scenario& scenario,
                         const std::vector<std::string>& variants) {
  scenario::Scenario changed = scenario;
  changed.repeats = control.repeats;
  changed.checks.clear();
  changed.variants.clear();
  const std::set<std::string> needed = with_sources(scenario, variants);
  for (const scenario::Variant& variant : scenario.variants) {
    if (needed.contains(variant.name))
      changed.variants.push_back(
          scenario::patched(variant, possible(control.patch, variant.train), scenario.file.string()));
  }
  return changed;
}

}  // namespace lockstep::experiment
