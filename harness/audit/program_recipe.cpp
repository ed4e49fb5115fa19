#include <algorithm>

#include "harness/audit/recipe.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/laws/seen_facts.h"
#include "harness/recipe/sampler_rule.h"

namespace lockstep::audit {
namespace {

/// Places of a recipe that an option of a program may hold.
const std::vector<std::string>& places() {
  static const std::vector<std::string> all = {"rank_batch", "global_batch", "rate", "accumulation"};
  return all;
}

class ProgramRecipe : public Recipe {
 public:
  ProgramRecipe(const scenario::Variant& variant, const ProgramOptions& options, std::int64_t steps,
                const std::string& origin)
      : Recipe(variant), options_(options), steps_(steps) {
    for (const auto& [place, option] : options_) {
      const Json& given = variant.program_json.at("arguments");
      if (given.contains(option) && given[option].is_number()) continue;
      throw InputError({.what = "an audit changes an option that the scenario gives no number",
                        .where = origin + ": options." + place,
                        .expected = "\"arguments\": {\"" + option + "\": a number} in the scenario's program",
                        .actual = given.contains(option) ? given[option].dump() : "no such option",
                        .next = suggest(option, keys_of(given))});
    }
  }

  Json as_written(std::int64_t world_size) const override {
    return {{"world_size", world_size}, {"program", {{"stop_after", steps_}}}};
  }

  bool has_place_for_accumulation() const override { return option_of("accumulation").has_value(); }

  std::optional<Json> patch(const Setting& setting) const override {
    const bool ours_alone = setting.plain || setting.sum || setting.every_rank_all || setting.split ||
                            setting.decay != 1 || setting.threshold != 1 || !setting.also.empty();
    if (ours_alone) return std::nullopt;
    Json arguments = Json::object(), promises = Json::object();
    // Without an option, each update keeps its micro-batches.
    const std::int64_t parts = has_place_for_accumulation() ? setting.accumulation : train().batch.accumulation;
    if (setting.rank_batch % parts != 0) return std::nullopt;
    const std::int64_t global = setting.rank_batch * setting.world_size;
    if (const auto option = option_of("rank_batch")) {
      arguments[*option] = setting.rank_batch / parts;
    } else if (const auto whole = option_of("global_batch")) {
      arguments[*whole] = global / parts;
    } else if (global_batch(setting.world_size) != global) {
      return std::nullopt;
    }
    const recipe::BatchSpec& own = train().batch;
    const bool is_own = own.rank_size(setting.world_size) == setting.rank_batch && own.accumulation == parts;
    if (variant().knows("batch") && !is_own)
      promises["batch"] = {{"per_rank", setting.rank_batch}, {"accumulation", parts}};
    if (const auto option = option_of("accumulation")) arguments[*option] = parts;
    if (setting.rate != 1) {
      const auto option = option_of("rate");
      if (!option) return std::nullopt;
      const double rate = setting.rate * variant().program_json.at("arguments").at(*option).get<double>();
      arguments[*option] = rate;
      if (variant().knows("optimizer")) promises["optimizer"] = {{"lr", rate}};
    }
    Json patch = {{"world_size", setting.world_size},
                  {"program", {{"arguments", arguments}, {"stop_after", setting.steps.value_or(steps_)}}}};
    if (!promises.empty()) patch["promises"] = promises;
    return patch;
  }

 private:
  std::optional<std::string> option_of(const std::string& place) const {
    const auto found = options_.find(place);
    return found == options_.end() ? std::nullopt : std::optional(found->second);
  }

  const ProgramOptions options_;
  const std::int64_t steps_;  ///< updates after which a run is stopped, unless a setting names them
};

/// Whether no generator of a rank stands still, as where it augments its samples. A sampler or a loader draws once in
/// an epoch.
bool draws_in_each_update(const trace::RunTrace& run) {
  const std::vector<trace::Step>& steps = run.ranks.back().steps;
  std::size_t updates = 0, moved = 0;
  for (std::size_t i = 0; i + 1 < steps.size(); ++i) {
    if (steps[i].step == trace::kInitialStep) continue;
    ++updates;
    moved += std::any_of(steps[i].records.begin(), steps[i].records.end(), [&](const trace::Record& before) {
      if (before.channel != trace::Channel::kRng) return false;
      const trace::Record* const after = steps[i + 1].find(before.channel, before.name);
      return after != nullptr && after->digest != before.digest;
    });
  }
  return updates > 0 && moved == updates;
}

}  // namespace

std::vector<Obstacle> obstacles_seen(const trace::RunTrace& run, const scenario::Variant& variant) {
  std::vector<Obstacle> found;
  if (variant.knows("sampler")) {
    const recipe::Dealing dealing = traits_of(variant.train.sampler.kind).dealing;
    if (dealing == recipe::Dealing::kBatches)
      found.push_back(
          {"whole batches are dealt out to the ranks", "split each batch over the ranks (split_batches)", nullptr});
    if (dealing == recipe::Dealing::kBlocks)
      found.push_back({"each rank takes a block of the epoch's order, so an update takes other samples",
                       "deal the order out in turn, as PyTorch's DistributedSampler does", nullptr});
  }
  Json model = laws::seen_of(run, "model");
  if (!model.is_object()) model = Json::object();
  if (model.value("norm", "") == text_of(recipe::Norm::kBatch))
    found.push_back(
        {"batch normalization takes the statistics of each rank's own samples", "convert to SyncBatchNorm", nullptr});
  if (model.value("dropout", Json()) == Json(true))
    found.push_back(
        {"dropout draws each rank's masks from that rank's generator", "set dropout to 0 to compare", nullptr});
  else if (draws_in_each_update(run))
    found.push_back({"in each update the ranks draw random numbers from their own generators",
                     "seed what is drawn by epoch and sample, or leave it out to compare", nullptr});
  return found;
}

std::unique_ptr<Recipe> program_recipe(const scenario::Variant& variant, const ProgramOptions& options,
                                       std::int64_t steps, const std::string& origin) {
  for (const auto& [place, option] : options) {
    if (std::find(places().begin(), places().end(), place) != places().end()) continue;
    throw InputError({.what = "unknown place of a recipe: '" + place + "'",
                      .where = origin + ": options",
                      .expected = "any of: " + join(places(), ", "),
                      .next = suggest(place, places())});
  }
  return std::make_unique<ProgramRecipe>(variant, options, steps, origin);
}

}  // namespace lockstep::audit
