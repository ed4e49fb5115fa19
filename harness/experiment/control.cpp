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
void widen_hook(Json& patch, const recipe::TrainSpec& train) {
  const bool widens = patch.value(Json::json_pointer("/train/precision"), "") == "float64";
  if (widens && train.ddp.compression != recipe::Compression::kNone) patch["train"]["ddp"]["compression"] = "fp64";
}

/// A patch without captures of steps that a training does not reach, as one that only saves for another, and without
/// elements of what it does not record.
Json possible(Json patch, const recipe::TrainSpec& train) {
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

Control unchanged(std::string_view id, std::int64_t repeats) {
  return {.id = std::string(id), .patch = Json::object(), .repeats = repeats};
}

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
