#include "harness/scenario/seen_recipe.h"

#include <algorithm>
#include <optional>

#include "harness/base/error.h"
#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

/// A choice of the schema with those of its options that were seen; nothing where the schema has no such kind.
template <recipe::Named Kind>
std::optional<recipe::ChoiceOf<Kind>> choice_seen(const char* definition, const Json& seen) {
  if (!seen.is_object() || !seen.contains("kind")) return std::nullopt;
  for (const Json& branch : branches_of(schema()["definitions"][definition])) {
    if (branch["properties"]["kind"]["const"] != seen["kind"]) continue;
    Json options = Json::object();
    for (const auto& [key, rule] : branch["properties"].items()) {
      if (seen.contains(key) && !seen[key].is_null()) options[key] = seen[key];
    }
    try {
      const Json completed = complete(options, definition, {.file = "trace", .within = "seen"});
      return recipe::choice_from<Kind>(completed);
    } catch (const InputError&) {
      return std::nullopt;  // an option is a schedule's, a tensor, or the like
    }
  }
  return std::nullopt;
}

/// The first optimizer with its only group; of several groups the schema cannot tell which parameters each has.
Json optimizer_in(const Json& seen) {
  const Json optimizers = seen.value("optimizer", Json::array());
  if (!optimizers.is_array() || optimizers.empty() || !optimizers[0].is_object()) return {};
  const Json groups = optimizers[0].value("groups", Json::array());
  if (!groups.is_array() || groups.size() != 1 || !groups[0].is_object()) return {};
  Json optimizer = groups[0];
  optimizer["kind"] = optimizers[0].value("kind", Json());
  return optimizer;
}

void take_ddp(recipe::DdpSpec& ddp, const Json& seen) {
  if (!seen.is_object()) return;
  const auto take = [&](const char* key, bool& value) {
    if (seen.contains(key) && seen[key].is_boolean()) value = seen[key].get<bool>();
  };
  take("wrap", ddp.wrap);
  take("find_unused_parameters", ddp.find_unused_parameters);
  take("gradient_as_bucket_view", ddp.gradient_as_bucket_view);
  take("broadcast_buffers", ddp.broadcast_buffers);
  if (seen.contains("bucket_mb") && seen["bucket_mb"].is_number()) ddp.bucket_mb = seen["bucket_mb"].get<double>();
}

}  // namespace

void take_seen(Promises& promises, const Json& seen, const std::map<std::string, double>& first) {
  if (!promises.known || !seen.is_object()) return;
  recipe::TrainSpec& train = promises.train;
  const auto part = [&](const char* key) { return seen.value(key, Json()); };
  if (const auto sampler = choice_seen<recipe::SamplerKind>("sampler", part("sampler"));
      sampler && !promises.knows("sampler"))
    train.sampler = *sampler;
  if (const auto optimizer = choice_seen<recipe::OptimizerKind>("optimizer", optimizer_in(seen));
      optimizer && !promises.knows("optimizer"))
    train.optimizer = *optimizer;
  const auto passes = first.find("micro_batches"), clip_norm = first.find("seen.clip_norm");
  const std::int64_t accumulation = passes == first.end() ? 1 : static_cast<std::int64_t>(passes->second);
  if (clip_norm != first.end() && !promises.knows("gradient")) train.gradient.clip_norm = clip_norm->second;
  const Json batch = part("batch");
  const Json size = batch.is_object() ? batch.value("per_rank", Json()) : Json();
  if (!promises.knows("batch") && size.is_number_integer() && size.get<std::int64_t>() > 0 && accumulation > 0)
    train.batch = {.per_rank = size.get<std::int64_t>() * accumulation, .accumulation = accumulation};
  if (part("autocast") == "bf16") train.autocast = recipe::Autocast::kBf16;
  if (part("every").is_number_integer())
    train.record.every = std::max<std::int64_t>(part("every").get<std::int64_t>(), 1);
  take_ddp(train.ddp, part("ddp"));
}

}  // namespace lockstep::scenario
