// Where the laws that checks judge have a use.
#include <algorithm>
#include <string>
#include <vector>

#include "harness/laws/law.h"
#include "harness/laws/promise.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::laws {

std::string no_data_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (begins_within_an_epoch(promises.train)) return "a resumed training begins within an epoch";
  if (promises.train.sampler.kind == recipe::SamplerKind::kUnknown || promises.known) return "";
  const std::int64_t samples = samples_of(run, promises);
  const auto promise = samples > 0 ? promise_of(promises, samples) : std::nullopt;
  if (!promise || !promise->usable()) return "";
  const std::int64_t taken = promises.train.steps * promises.train.batch.rank_size(promises.world_size);
  return taken < promise->each[0] ? "the recipe ends before an epoch does" : "";
}

std::string no_ledger_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  const auto& load = promises.train.checkpoint.load;
  const bool goes_on = load && !load->from.empty() && load->who == recipe::LoadWho::kAll && load->of_rank.empty() &&
                       load->restores("optimizer") && load->restores("schedule") && load->restores("sampler");
  if (goes_on) return "";
  if (load && load->restores("optimizer")) return "the rates come with a checkpoint";
  return begins_within_an_epoch(promises.train) ? "a resumed training counts on from where its source was" : "";
}

std::string no_checkpoint_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  return promises.train.checkpoint.load ? "" : "it loads no checkpoint";
}

std::string no_ranks_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (run.world_size() < 2) return "the run is one process";
  if (!promises.known) return promises.train.ddp.wrap ? "" : "the recipe does not wrap its model in DDP";
  const Json ddp = seen_of(run, "ddp");
  const Json hook = ddp.is_object() ? ddp.value("comm_hook", Json()) : Json();
  if (hook.is_string() && hook.get<std::string>().find("localSGD") != std::string::npos)
    return "between two averages of post_localSGD_hook each rank trains alone";
  const bool wraps = ddp_has(run, "wrap");
  if (!wraps && !ddp_has(run, "sharded")) return "no model was seen to be wrapped in DDP, or sharded";
  return wraps || hold_the_same_names(run) ? "" : "the ranks hold other parameters, as those of a pipeline do";
}

}  // namespace lockstep::laws
