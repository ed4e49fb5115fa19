#include "harness/scenario/checkpoint_reading.h"

#include <algorithm>
#include <utility>

#include "harness/base/text.h"
#include "harness/scenario/reading.h"

namespace lockstep::scenario {
namespace {

/// Each rank must get through as many updates as the others, or they wait for each other for ever.
void require_ranks_together(const recipe::LoadSpec& load, const std::string& origin) {
  if (load.who == recipe::LoadWho::kNewest || load.who == recipe::LoadWho::kRank0Sends ||
      (load.who == recipe::LoadWho::kAll && load.of_rank.empty()))
    return;
  for (const char* part : {"schedule", "sampler", "rng", "buckets"})
    require(!load.restores(part), origin, "train.checkpoint.load.restore",
            "ranks that restore different parts would differ, and wait for each other forever",
            "with who = rank0, or of_rank without who = newest: weights, optimizer, ema, buffers", part);
}

void validate_load(const recipe::LoadSpec& load, std::int64_t world_size, const std::string& origin) {
  const auto require_of = [&](bool holds, const std::string& key, const std::string& what, const std::string& expected,
                              const std::string& actual) {
    require(holds, origin, "train.checkpoint.load" + key, what, expected, actual);
  };
  require_of(load.from.empty() != load.file.empty(), "", "the source to load is given twice, or not at all",
             "either 'from' or 'file'", load.from.empty() ? "neither" : "both");
  require_of(load.file.empty() || load.restore == std::vector<std::string>{"weights"}, ".restore",
             "a file of weights restores weights only", "[\"weights\"]", join(load.restore, ", "));
  require_of(load.file.empty() || (!load.number && load.of_rank.empty()), ".file", "a file of weights has no number",
             "neither 'number' nor 'of_rank'", load.number ? "'number'" : "'of_rank'");
  require_of(!load.number || load.of_rank.empty(), "", "the checkpoint is given twice", "either 'number' or 'of_rank'",
             "both");
  const auto with_checkpoint = std::count_if(load.of_rank.begin(), load.of_rank.end(), [](const auto& n) { return n; });
  require_of(load.of_rank.empty() || static_cast<std::int64_t>(load.of_rank.size()) == world_size, ".of_rank",
             "every rank needs an entry", std::to_string(world_size) + " entries", std::to_string(load.of_rank.size()));
  require_of(load.of_rank.empty() || with_checkpoint > 0, ".of_rank", "no rank has a checkpoint", "at least one number",
             "only null");
  require_of(load.who != recipe::LoadWho::kNewest || !load.of_rank.empty(), ".who",
             "the newest checkpoint of several ranks is asked for", "'of_rank', which says what each rank has",
             "no 'of_rank'");
  require_of(load.epoch == recipe::LoadEpoch::kSaved || load.restores("sampler"), ".epoch", "'epoch' has no effect",
             "'sampler' in restore", join(load.restore, ", "));
  require_of(!load.own_rates || load.restores("schedule"), ".schedule", "'schedule' has no effect",
             "'schedule' in restore", join(load.restore, ", "));
  require_ranks_together(load, origin);
}

}  // namespace

recipe::CheckpointSpec checkpoint_spec_from(const Json& completed) {
  recipe::CheckpointSpec checkpoint{.save_after = integer_at(completed, "save_after"),
                                    .save_every = integer_at(completed, "save_every"),
                                    .prefix = completed.at("prefix").get<std::string>(),
                                    .follow = completed.value("follow", "")};
  if (completed.contains("load")) {
    const Json& load = completed["load"];
    const Json& keys = load.at("keys");
    checkpoint.load = recipe::LoadSpec{.from = load.value("from", ""),
                                       .file = load.value("file", ""),
                                       .keys = {.under = keys.at("under").get<std::string>(),
                                                .skip = keys.at("skip").get<std::vector<std::string>>(),
                                                .strip = keys.at("strip").get<std::string>(),
                                                .prepend = keys.at("prepend").get<std::string>(),
                                                .match = recipe::kind_at<recipe::KeyMatch>(keys, "match"),
                                                .strict = keys.at("strict").get<bool>()},
                                       .pick = recipe::kind_at<recipe::LoadPick>(load, "pick"),
                                       .number = integer_at(load, "number"),
                                       .of_rank = {},
                                       .who = recipe::kind_at<recipe::LoadWho>(load, "who"),
                                       .when = recipe::kind_at<recipe::LoadWhen>(load, "when"),
                                       .epoch = recipe::kind_at<recipe::LoadEpoch>(load, "epoch"),
                                       .own_rates = load.at("schedule") == "own",
                                       .restore = load.at("restore").get<std::vector<std::string>>()};
    for (const Json& number : load.value("of_rank", Json::array()))
      checkpoint.load->of_rank.push_back(number.is_null() ? std::nullopt : std::optional(number.get<std::int64_t>()));
  }
  return checkpoint;
}

void validate(const recipe::CheckpointSpec& spec, std::int64_t steps, std::int64_t world_size,
              const std::string& origin) {
  for (const auto& [key, after] : {std::pair("save_after", spec.save_after), {"save_every", spec.save_every}})
    require(after.value_or(0) <= steps, origin, std::string("train.checkpoint.") + key,
            "the checkpoint would never be saved", "at most train.steps = " + std::to_string(steps),
            std::to_string(after.value_or(0)));
  if (spec.load) validate_load(*spec.load, world_size, origin);
}

}  // namespace lockstep::scenario
