#include "tests/support/tiny/memory_worker.h"

#include <algorithm>
#include <utility>

#include "harness/trace/line.h"

namespace lockstep::test {
namespace {

using Ended = launch::RunOutcome;

/// The run's source among those that it comes after.
const Snapshots* saved_by(const std::map<std::string, Snapshots>& saved, const plan::Run& run,
                          const std::string& variant) {
  const auto found = saved.find(run.scenario + "/" + variant + "/" + std::to_string(run.repeat));
  return found == saved.end() ? nullptr : &found->second;
}

}  // namespace

bool MemoryWorker::made(const std::string& folder) const {
  return std::find(folders_.begin(), folders_.end(), folder) != folders_.end();
}

std::vector<judge::Evidence> MemoryWorker::run(plan::Plan& plan, const std::string& folder) {
  if (!folder.empty()) folders_.push_back(folder);
  runs_[folder] += plan.runs.size();
  saved_.clear();
  std::vector<judge::Evidence> evidence(plan.runs.size());
  std::vector<bool> done(plan.runs.size());
  for (std::size_t left = plan.runs.size(); left > 0;) {
    for (std::size_t i = 0; i < plan.runs.size(); ++i) {
      const std::vector<std::size_t>& after = plan.runs[i].after;
      if (done[i] || !std::all_of(after.begin(), after.end(), [&](std::size_t other) { return done[other]; })) continue;
      evidence[i].outcome.status = Ended::Status::kSkipped;
      if (std::all_of(after.begin(), after.end(), [&](std::size_t other) { return evidence[other].trace.has_value(); }))
        evidence[i] = evidence_of(plan, plan.runs[i], folder);
      evidence[i].outcome.run = plan.runs[i].name;
      if (!evidence[i].trace) evidence[i].problem = "the run " + plan.runs[i].name + " did not finish";
      done[i] = true;
      --left;
    }
  }
  return evidence;
}

judge::Evidence MemoryWorker::evidence_of(const plan::Plan& plan, const plan::Run& run, const std::string& folder) {
  const std::string where = folder.empty() ? run.name : folder + "/" + run.name;
  if (dies && dies(where))
    return {.outcome = {.status = Ended::Status::kFailed, .why = "rank 0 was killed"}, .trace = {}, .problem = {}};
  const scenario::Scenario& scenario = plan.scenario(run.scenario);
  scenario::Variant variant = scenario.variant(run.variant);
  if (otherwise) otherwise(where, variant);
  Surroundings around{.name = run.variant + "/" + std::to_string(run.repeat),
                      .header = judge::header_of(run),
                      .folder = folder_ / where,
                      .chance = ++chance_};
  around.header.update({{"format", trace::kTraceFormat},
                        {"world_size", run.world_size},
                        {"cpu", variant.train.determinism.cpu},
                        {"environment", {{"cpu_capability", variant.train.determinism.cpu}}},
                        {"samples", variant.train.data.options.at("size")},
                        {"targets_per_sample", 1}});
  if (const auto arithmetic = variant.train.coarsest_arithmetic()) around.header["arithmetic"] = *arithmetic;
  const recipe::CheckpointSpec& checkpoint = variant.train.checkpoint;
  if (checkpoint.load) around.loaded = saved_by(saved_, run, checkpoint.load->from);
  if (!checkpoint.follow.empty()) {
    around.followed = saved_by(saved_, run, checkpoint.follow);
    around.followed_after = scenario::updates_before(scenario.variant(checkpoint.follow), scenario);
  }
  Trained trained = train_in_memory(variant, around);
  saved_[run.name] = std::move(trained.saved);
  return {.outcome = {}, .trace = std::move(trained.trace), .problem = {}};
}

}  // namespace lockstep::test
