#include "harness/judge/holdings.h"

#include "harness/judge/endings.h"

namespace lockstep::judge {

checks::CheckInput Holdings::input(const scenario::Scenario& scenario, const scenario::CheckSpec& spec,
                                   const std::filesystem::path& golden_root) const {
  return {.scenario = scenario,
          .spec = spec,
          .traces = traces,
          .train_digests = digests,
          .golden_root = golden_root,
          .endings = endings};
}

std::optional<compare::Divergence> early_end(const plan::Plan& plan, const plan::Run& run,
                                             const trace::RunTrace& trace) {
  const scenario::Variant& variant = plan.scenario(run.scenario).variant(run.variant);
  if (!variant.knows("steps")) return std::nullopt;
  const std::int64_t last = variant.last_recorded_step();
  const std::vector<trace::Step>& steps = trace.ranks[0].steps;
  const std::int64_t recorded = steps.empty() ? trace::kInitialStep - 1 : steps.back().step;
  if (recorded >= last) return std::nullopt;
  const std::string when = steps.empty() ? "before its first step" : "after step " + std::to_string(recorded);
  return compare::Divergence{.step = recorded + 1,
                             .phase = std::string(launch::name_of(launch::Phase::kDone)),
                             .left = run.name,
                             .right = run.name,
                             .expected = "steps to " + std::to_string(last),
                             .actual = steps.empty() ? "no steps" : "steps to " + std::to_string(recorded),
                             .class_ = scenario::Class::kSemantic,
                             .cause = "every rank exited with code 0 " + when};
}

Holdings holdings_of(const plan::Plan& plan, const std::vector<Evidence>& evidence, const plan::Check& check) {
  Holdings holdings;
  for (const std::string& variant : check.spec.variants) {
    for (const std::size_t index : plan.runs_of(check.scenario, variant)) {
      holdings.digests[variant] = plan.runs[index].train_digest;
      checks::Ending& ending =
          holdings.endings[variant].emplace_back(ending_of(evidence[index].outcome, evidence[index].problem));
      if (evidence[index].trace) {
        ending.failure = early_end(plan, plan.runs[index], *evidence[index].trace);
        holdings.traces[variant].push_back(&*evidence[index].trace);
      } else {
        holdings.missing.push_back(index);
      }
    }
  }
  if (!check.spec.of.empty()) {
    for (const std::size_t index : plan.runs_of(check.scenario, check.spec.of))
      holdings.digests[check.spec.of] = plan.runs[index].train_digest;
  }
  // What a resumed training loaded is no side of the check, and explains it.
  std::vector<std::string> resumed = {check.spec.interrupted};
  if (check.spec.that == scenario::CheckKind::kLaws) resumed = check.spec.variants;
  for (const std::string& variant : resumed) {
    if (variant.empty()) continue;
    const auto& load = plan.scenario(check.scenario).variant(variant).train.checkpoint.load;
    if (!load || load->from.empty() || holdings.traces.contains(load->from)) continue;
    for (const std::size_t index : plan.runs_of(check.scenario, load->from)) {
      if (evidence[index].trace) holdings.traces[load->from].push_back(&*evidence[index].trace);
    }
  }
  return holdings;
}

std::string unplaced(const Holdings& holdings) {
  for (const auto& [variant, traces] : holdings.traces) {
    for (const trace::RunTrace* run : traces) {
      if (!run->unplaced.empty()) return run->unplaced;
    }
  }
  return "";
}

}  // namespace lockstep::judge
