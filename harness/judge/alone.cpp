#include "harness/judge/alone.h"

#include <algorithm>

namespace lockstep::judge {

const std::optional<checks::AskedLaw>& Alone::broken_by(std::size_t run) {
  const auto [known, is_new] = broken_.try_emplace(run);
  std::optional<checks::AskedLaw>& first = known->second;
  if (!is_new || !evidence_[run].trace) return first;
  const scenario::Scenario& scenario = plan_.scenario(plan_.runs[run].scenario);
  for (checks::AskedLaw& asked : checks::judge_laws(
           *evidence_[run].trace, scenario::with_loaded_optimizer(scenario, variant_of(run)), {}, saver_of(run))) {
    const auto& divergence = asked.result.divergence;
    if (divergence && (!first || divergence->step < first->result.divergence->step)) first = std::move(asked);
  }
  return first;
}

std::vector<std::size_t> Alone::faulty(const CheckReport& check, const scenario::CheckSpec& spec) const {
  std::vector<std::size_t> planted, others;
  for (std::size_t i = 0; i < check.variants.size(); ++i) {
    for (const std::size_t run : plan_.runs_of(check.scenario, check.variants[i])) {
      if (holds_fault(run)) planted.push_back(run);
      if (i > 0 || !spec.traits().between_runs()) others.push_back(run);
    }
  }
  return planted.empty() ? others : planted;
}

bool Alone::holds_fault(std::size_t run) const {
  if (!variant_of(run).train.faults.empty()) return true;
  const std::vector<std::size_t>& after = plan_.runs[run].after;
  return std::any_of(after.begin(), after.end(), [&](std::size_t source) { return holds_fault(source); });
}

checks::Saver Alone::saver_of(std::size_t run) const {
  const auto& load = variant_of(run).train.checkpoint.load;
  for (const std::size_t source : plan_.runs[run].after) {
    if (load && plan_.runs[source].variant == load->from && evidence_[source].trace)
      return {.run = &*evidence_[source].trace, .promises = &variant_of(source)};
  }
  return {};
}

const scenario::Variant& Alone::variant_of(std::size_t run) const {
  return plan_.scenario(plan_.runs[run].scenario).variant(plan_.runs[run].variant);
}

}  // namespace lockstep::judge
