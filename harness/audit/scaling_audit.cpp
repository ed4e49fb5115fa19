#include "harness/audit/scaling_audit.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <set>
#include <utility>

#include "harness/audit/measured.h"
#include "harness/audit/program_pair.h"
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

std::vector<const Line*> lines_beginning(const Audit& audit, const std::string& id) {
  std::vector<const Line*> lines;
  for (const Line& line : audit.lines) {
    if (line.id.starts_with(id)) lines.push_back(&line);
  }
  return lines;
}

const Line* find(const Audit& audit, const std::string& id) {
  const auto found =
      std::find_if(audit.lines.begin(), audit.lines.end(), [&](const Line& one) { return one.id == id; });
  return found == audit.lines.end() ? nullptr : &*found;
}

/// The numbers of ranks that lines are about, as their ids say: "ledger@4". All, where one says none.
std::vector<std::int64_t> ranks_of(const std::vector<const Line*>& lines, const std::vector<std::int64_t>& all) {
  std::set<std::int64_t> ranks;
  for (const Line* line : lines) {
    const std::size_t at = line->id.rfind('@');
    const auto number = std::find_if(all.begin(), all.end(), [&](std::int64_t one) {
      return at != std::string::npos && line->id.substr(at + 1) == std::to_string(one);
    });
    if (number == all.end()) return all;
    ranks.insert(*number);
  }
  return {ranks.begin(), ranks.end()};
}

std::optional<Excuse> excuse_of_ranks(const trace::RunTrace& one, const trace::RunTrace& many,
                                      const compare::Divergence& found, const scenario::Variant& variant) {
  if (names_a_mistake(found)) return std::nullopt;
  if (const std::vector<Obstacle> obstacles = obstacles_seen(many, variant); !obstacles.empty())
    return Excuse{.because = reasons(obstacles), .instead = remedies(obstacles)};
  if (found.channel == trace::Channel::kSamples)
    return Excuse{.because = "the ranks take other samples than one rank, or take them in another order",
                  .instead = "deal one order out in turn, as PyTorch's DistributedSampler does"};
  if (found.channel == trace::Channel::kInput || gives_other_tensors(one, many, found.step))
    return Excuse{.because = "the same samples give the ranks other tensors than one rank",
                  .instead = "seed augmentation by epoch and sample"};
  return std::nullopt;
}

}  // namespace

std::vector<std::int64_t> ranks_of_scaling() { return {1, 2, 4, 8}; }

Scaling::Scaling(const scenario::Scenario& scenario, const Request& request)
    : Examination(scenario, request), range_(range_of(*recipe_, request_.ranks, request_.steps, request_.samples)) {
  request_.ranks = range_.ranks;
  for (const std::int64_t world_size : range_.ranks) {
    std::string refusal;
    written_.push_back(derivation_.variant(recipe_->as_written(world_size), refusal).value_or(""));
    refusals_.push_back(refusal);
  }
  add_recipe_checks(derivation_, *recipe_, range_);
  add_identities(derivation_, *recipe_, range_);
  // A program's runs are long, and only confirm what these rules are known to be.
  if (recipe_->is_ours() || !request_.only.empty()) add_matrix(derivation_, *recipe_, range_);
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

void Scaling::weigh(Line& line, const Statement& statement, const Answers& answers) const {
  if (recipe_->is_ours()) return;
  weigh_program(line, statement, answers,
                [&](const trace::RunTrace& one, const trace::RunTrace& many, const compare::Divergence& found) {
                  return excuse_of_ranks(one, many, found, recipe_->variant());
                });
}

std::string Scaling::remedy(const Audit& audit) const {
  const std::int64_t most = range_.ranks.back();
  const Line* const tested = find(audit, "one-batch@" + std::to_string(most));
  const Line* const batch = find(audit, "global-batch");
  if (tested == nullptr || batch == nullptr || batch->answer != Answer::kChanges) return "";
  if (tested->answer == Answer::kNoIdentity) return ". Dividing the batch does not keep it: " + tested->because;
  if (!is_equality(tested->answer)) return "";
  return ". Keep " + std::to_string(range_.batch / most) + " a rank" +
         (range_.instead.empty() ? "" : ", " + std::to_string(range_.batch) + " in all") + ": " +
         in_words(tested->answer) + ", tested";
}

std::string Scaling::headline(const Audit& audit) const {
  constexpr std::size_t kMost = 3;  // quantities that a person reads in one line
  std::vector<std::string> changed, slips;
  std::vector<const Line*> broken, failed;
  for (const Line& line : audit.lines) {
    const std::string range = line.values.empty() ? "" : " " + line.values.front() + " to " + line.values.back();
    if (line.section == Section::kQuantities && line.answer == Answer::kChanges) changed.push_back(line.text + range);
    if (line.section == Section::kQuantities && line.answer == Answer::kSlip) slips.push_back(line.text + range);
    if (line.answer == Answer::kBroken) broken.push_back(&line);
    if (!line.failed.empty()) failed.push_back(&line);
  }
  const auto of_ranks = [](const std::vector<std::int64_t>& ranks) {
    return listed(ranks) + (ranks == std::vector<std::int64_t>{1} ? " rank" : " ranks");
  };
  const std::string all = of_ranks(audit.ranks);
  if (!audit.is_whole && broken.empty()) return all + ", these lines alone: " + std::string(name_of(audit.status()));
  if (!broken.empty()) {
    std::vector<std::string> ids;
    for (const Line* line : broken)
      ids.push_back(line->id + (id_of_cause(*line).empty() ? "" : " (" + id_of_cause(*line) + ")"));
    return of_ranks(ranks_of(broken, audit.ranks)) + ": a mistake. Broken: " + some_of(ids, kMost);
  }
  if (!failed.empty()) return of_ranks(ranks_of(failed, audit.ranks)) + ": the training fails. " + failed[0]->failed;
  if (!slips.empty()) return all + ": a slip. " + some_of(slips, kMost);
  const std::vector<std::int64_t> others(audit.ranks.begin() + (audit.ranks.size() > 1 ? 1 : 0), audit.ranks.end());
  if (!changed.empty())
    return of_ranks(others) + ": another training. It changes " + some_of(changed, kMost) + remedy(audit);
  if (!audit.with(Answer::kCannotTell).empty()) return all + ": no line is broken, but some are undecided";
  const std::vector<const Line*> pairs = lines_beginning(audit, "one-batch@");
  for (const Line* line : pairs) {
    if (line->answer == Answer::kNoIdentity) return of_ranks(others) + ": another training: " + line->because;
  }
  const auto has = [&](Answer answer) {
    return std::any_of(pairs.begin(), pairs.end(), [&](const Line* line) { return line->answer == answer; });
  };
  if (!has(Answer::kIdentical) && !has(Answer::kRounding)) return all + ": the same training";
  return all + ": the same training, " + in_words(has(Answer::kRounding) ? Answer::kRounding : Answer::kIdentical) +
         ", tested";
}

}  // namespace lockstep::audit
