#include "harness/audit/scaling_audit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <utility>

#include "harness/audit/measured.h"
#include "harness/base/text.h"

namespace lockstep::audit {
namespace {

/// What the runs of the recipe as written show by themselves.
void add_measured(Audit& audit, const std::vector<Seen>& seen) {
  const auto of = [](const Seen& one, std::optional<double> (*measure)(const trace::RunTrace&)) {
    const std::optional<double> value = one.run == nullptr ? std::nullopt : measure(*one.run);
    return value.value_or(std::numeric_limits<double>::quiet_NaN());
  };
  for (const Seen& one : seen) {
    audit.batch.push_back(of(one, samples_in_update));
    audit.rate.push_back(of(one, largest_rate));
    audit.update.push_back(of(one, first_update));
    const double noise = of(one, noise_scale);
    if (std::isnan(noise)) continue;
    audit.lines.push_back({.id = "noise-scale@" + std::to_string(one.world_size),
                           .section = Section::kMeasured,
                           .text = "gradient noise scale of the first update: " + rounded(noise, 3) + " samples",
                           .answer = Answer::kMeasured,
                           .because = "McCandlish et al. 2018; one update is a noisy estimate"});
  }
}

}  // namespace

std::vector<std::int64_t> ranks_of_scaling() { return {1, 2, 4, 8}; }

Scaling::Scaling(const scenario::Scenario& scenario, Request request)
    : Examination(scenario, std::move(request)),
      range_(range_of(*recipe_, request_.ranks, request_.steps, request_.samples)) {
  request_.ranks = range_.ranks;
  for (const std::int64_t world_size : range_.ranks) {
    std::string refusal;
    written_.push_back(derivation_.variant(recipe_->as_written(world_size), refusal).value_or(""));
    refusals_.push_back(refusal);
  }
  add_recipe_checks(derivation_, *recipe_, range_);
  add_identities(derivation_, *recipe_, range_);
  add_matrix(derivation_, *recipe_, range_);
  std::vector<std::string> others = quantity_ids();
  for (const std::int64_t world_size : range_.ranks) others.push_back("noise-scale@" + std::to_string(world_size));
  derivation_.keep(request_.only, others, written_);
}

std::vector<Seen> Scaling::seen(const Answers& answers) const {
  std::vector<Seen> seen;
  for (std::size_t i = 0; i < range_.ranks.size(); ++i) {
    const bool is_training = !written_[i].empty();
    seen.push_back({.world_size = range_.ranks[i],
                    .variant = is_training ? &derivation_.scenario().variant(written_[i]) : nullptr,
                    .refusal = refusals_[i],
                    .run = answers.run_of(written_[i])});
  }
  return seen;
}

void Scaling::add_before(Audit& audit, const Answers& answers) const { audit.lines = quantities(seen(answers)); }

void Scaling::add_after(Audit& audit, const Answers& answers) const { add_measured(audit, seen(answers)); }

std::string Scaling::headline(const Audit& audit) const {
  constexpr std::size_t kMost = 3;  // quantities that a person reads in one line
  std::vector<std::string> changed, slips, broken;
  for (const Line& line : audit.lines) {
    const std::string range = line.values.empty() ? "" : " " + line.values.front() + " to " + line.values.back();
    if (line.section == Section::kQuantities && line.answer == Answer::kChanges) changed.push_back(line.text + range);
    if (line.section == Section::kQuantities && line.answer == Answer::kSlip) slips.push_back(line.text + range);
    if (line.answer == Answer::kBroken) broken.push_back(line.id);
  }
  const std::string on =
      "on " + listed(audit.ranks) + (audit.ranks == std::vector<std::int64_t>{1} ? " rank" : " ranks");
  if (!audit.is_whole && broken.empty()) return "these lines alone " + on + ": " + std::string(name_of(audit.status()));
  if (!broken.empty()) return "broken " + on + ": " + some_of(broken, kMost);
  if (!slips.empty()) return "a slip " + on + ": " + some_of(slips, kMost);
  if (!changed.empty()) return "another computation on another number of ranks: " + some_of(changed, kMost);
  if (std::any_of(audit.lines.begin(), audit.lines.end(),
                  [](const Line& line) { return line.answer == Answer::kCannotTell; }))
    return "no line is broken " + on + ", but some are undecided";
  const auto unequal = std::find_if(audit.lines.begin(), audit.lines.end(), [](const Line& line) {
    return line.id.starts_with("one-batch@") && line.answer == Answer::kNoIdentity;
  });
  if (unequal != audit.lines.end()) return "another computation on another number of ranks: " + unequal->because;
  return "the same computation " + on;
}

}  // namespace lockstep::audit
