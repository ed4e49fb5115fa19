#include "harness/checks/laws_check.h"

#include <algorithm>
#include <functional>
#include <map>
#include <optional>
#include <set>
#include <string_view>

#include "harness/base/error.h"
#include "harness/base/side_by_side.h"
#include "harness/base/text.h"
#include "harness/diagnosis/clipping_causes.h"
#include "harness/diagnosis/diagnose.h"
#include "harness/diagnosis/reduction_causes.h"
#include "harness/laws/promise.h"
#include "harness/trace/batch_share.h"

namespace lockstep::checks {
namespace {

using trace::Channel;

std::vector<compare::Suspect> suspects_in(const laws::Breach& breach, const laws::Law& law, const trace::RunTrace& run,
                                          const scenario::Promises& promises) {
  if (!breach.cause.empty()) return {{breach.cause, {breach.evidence}}};
  switch (law.causes) {
    case laws::CausesOf::kReduction:
      return diagnosis::suspects_in_reduction(run, promises, breach.at.step);
    case laws::CausesOf::kClipping:
      return diagnosis::suspects_in_clipping(run, promises, breach.at.step);
    case laws::CausesOf::kBreach:
      break;
  }
  return {};
}

CheckResult judge_alone(const laws::Law& law, const trace::RunTrace& run, const scenario::Promises& promises) {
  const laws::Outcome outcome = laws::ask(law, run, promises);
  CheckResult result{.compared = outcome.judged};
  if (outcome.broken) {
    const laws::Breach& breach = *outcome.broken;
    result.status = CheckResult::Status::kDivergence;
    result.divergence = compare::Divergence{.step = breach.at.step,
                                            .channel = breach.at.channel,
                                            .tensor = breach.at.tensor,
                                            .rank = breach.at.rank,
                                            .left = std::string(law.against),
                                            .right = run.run,
                                            .expected = breach.expected,
                                            .actual = breach.actual,
                                            .relation = breach.relation,
                                            .class_ = scenario::Class::kSemantic,
                                            .cause = std::string(law.when_broken),
                                            .suspects = suspects_in(breach, law, run, promises)};
  } else if (!outcome.because.empty()) {
    result.status = CheckResult::Status::kInconclusive;
    result.why = outcome.because;
    result.next = outcome.next;
  } else if (outcome.hidden) {
    hide_from(result, *outcome.hidden, run.run);
  }
  return result;
}

/// The step that one rank has no more. DDP hangs where a rank has no more batches, unless that has joined
/// (DistributedDataParallel.join): then it makes no update of its own.
std::int64_t end_of_shortest(const trace::RunTrace& run) {
  std::int64_t end = compare::kNoStep;
  for (const trace::Trace& rank : run.ranks) end = std::min(end, rank.steps.empty() ? 1 : rank.steps.back().step + 1);
  return end;
}

/// For a program: only what DDP keeps alike. Buffers that are not broadcast are each rank's own.
CheckResult judge_ranks(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (promises.known) {
    const std::vector<Channel> kept = {Channel::kGradient, Channel::kOptimizer, Channel::kWeight, Channel::kBuffer};
    return result_of(compare_ranks(run, promises, kept, end_of_shortest(run)));
  }
  scenario::Promises replicated = promises;
  if (!promises.train.ddp.broadcast_buffers)
    std::erase(replicated.train.record.channels, std::string(trace::name_of(Channel::kBuffer)));
  return result_of(compare_ranks(run, replicated));
}

template <typename Kind>
bool are_same(const recipe::ChoiceOf<Kind>& one, const recipe::ChoiceOf<Kind>& other) {
  return one.kind == other.kind && one.options == other.options;
}

/// Whether a training counts, and sets its rates, as the one that it goes on from did.
bool goes_on_alike(const scenario::Promises& one, const scenario::Promises& other) {
  const recipe::TrainSpec &a = one.train, &b = other.train;
  return one.world_size == other.world_size && are_same(a.optimizer, b.optimizer) && are_same(a.schedule, b.schedule) &&
         are_same(a.learning_rate_rule, b.learning_rate_rule) && are_same(a.sampler, b.sampler) &&
         a.schedule_every == b.schedule_every && a.loss_average == b.loss_average &&
         a.batch.global_size(one.world_size) == b.batch.global_size(other.world_size) &&
         a.batch.accumulation == b.batch.accumulation && a.batch.drop_last == b.batch.drop_last &&
         a.batch.updates_at_epoch_end == b.batch.updates_at_epoch_end;
}

/// For a resumed training whose saving run is known, and had the same recipe.
CheckResult judge_ledger_of(const trace::RunTrace& run, const scenario::Promises& promises, const Saver& saver) {
  const auto& load = promises.train.checkpoint.load;
  if (load && saver.promises != nullptr && !load->from.empty() && !goes_on_alike(promises, *saver.promises))
    return {.status = CheckResult::Status::kInconclusive,
            .why = "the run that saved has another recipe: where its counts and rates go on is unknown"};
  const SourceOf source_of = [&](const std::string& name) {
    return load && load->from == name ? saver.promises : nullptr;
  };
  return judge_ledger(run, promises, source_of, /*only_ledger=*/true);
}

/// A training that takes other data than the recipe's keeps every promise of its sampler.
CheckResult judge_data(const trace::RunTrace& run, const scenario::Promises& promises) {
  const recipe::TrainSpec& train = promises.train;
  const auto size = promises.known ? std::nullopt : laws::size_said(train.data);
  const std::int64_t expected = size.value_or(0) - (train.evaluation ? train.evaluation->samples : 0);
  const std::int64_t actual = laws::samples_in(run.ranks[0]);
  if (!size || actual == 0 || actual == expected) return judge_coverage(run, promises);
  return {.status = CheckResult::Status::kDivergence,
          .compared = 1,
          .divergence = compare::Divergence{.step = run.ranks[0].steps.empty() ? 0 : run.ranks[0].steps.front().step,
                                            .channel = Channel::kSamples,
                                            .tensor = "ids",
                                            .left = "law",
                                            .right = run.run,
                                            .expected = std::to_string(expected) + " samples to train on",
                                            .actual = std::to_string(actual),
                                            .class_ = scenario::Class::kSemantic,
                                            .cause = "the training takes other data than its recipe says"}};
}

/// The laws that are checks of one run, too.
CheckResult judge_by_check(const laws::Law& law, const trace::RunTrace& run, const scenario::Promises& promises,
                           const Saver& saver) {
  using Judge = std::function<CheckResult()>;
  const std::map<std::string_view, Judge> judges = {
      {"checkpoint", [&] { return judge_checkpoint(run, promises, saver); }},
      {"data", [&] { return judge_data(run, promises); }},
      {"ledger", [&] { return judge_ledger_of(run, promises, saver); }},
      {"ranks", [&] { return judge_ranks(run, promises); }},
  };
  return judges.at(law.name)();
}

/// Why a law of a run holds nothing.
CheckResult untold(const AskedLaw& asked, const std::string& run) {
  CheckResult result = asked.result;
  result.status = CheckResult::Status::kInconclusive;
  result.why = run + ": the law '" + std::string(asked.law->name) + "' " +
               (asked.applies ? "cannot be judged, because " : "does not apply, because ") + asked.result.why;
  if (result.next.empty()) result.next = "`lockstep check` says more; name only laws that can judge this run";
  return result;
}

/// Laws that some runs of a check have a use for and that cannot be told of them: in how many, and why in the first.
class Untold {
 public:
  void add(const AskedLaw& asked) {
    auto& [runs, why] = laws_[asked.law->name];
    if (runs++ == 0) why = asked.result.why;
  }

  /// Empty if there are none.
  std::string text(std::size_t runs) const {
    std::vector<std::string> parts;
    for (const auto& [name, untold] : laws_)
      parts.push_back(
          std::string(name) +
          (runs > 1 ? " in " + std::to_string(untold.first) + " of " + std::to_string(runs) + " runs (" : " (") +
          untold.second + ")");
    return parts.empty() ? "" : "not judged: " + join(parts, ", ");
  }

 private:
  std::map<std::string_view, std::pair<std::size_t, std::string>> laws_;
};

/// The earliest breach; else what cannot be told, of laws that are named each one and otherwise where none holds.
CheckResult judge_run(const trace::RunTrace& run, const scenario::Promises& promises,
                      const std::vector<std::string>& names, const Saver& saver, Untold& untold_laws) {
  std::optional<CheckResult> broken, open, held;
  std::size_t compared = 0;
  for (const AskedLaw& asked : judge_laws(run, promises, names, saver)) {
    compared += asked.result.compared;
    if (asked.applies && asked.result.status == CheckResult::Status::kInconclusive) untold_laws.add(asked);
    const auto& divergence = asked.result.divergence;
    if (divergence && (!broken || divergence->step < broken->divergence->step)) broken = asked.result;
    if (asked.result.status == CheckResult::Status::kInconclusive && (!open || asked.result.compared > open->compared))
      open = untold(asked, run.run);
    if (asked.result.status == CheckResult::Status::kAgree) held = asked.result;
  }
  const bool hides = open && open->compared > 0;  // NaN, behind which a breach may be
  const bool enough = held && !hides && (names.empty() || !open);
  CheckResult total = broken ? *broken : enough ? *held : open.value_or(CheckResult());
  total.compared = compared;
  return total;
}

bool is_about_batches(const laws::Law& law) {
  static const std::set<std::string_view> names = {"order", "data", "content", "loss", "scale", "ledger"};
  return names.contains(law.name);
}

/// The same repeat of the variant whose checkpoint this one loads.
Saver saver_in(const CheckInput& input, const std::string& variant, std::size_t repeat) {
  const auto& load = input.scenario.variant(variant).train.checkpoint.load;
  const auto runs = load ? input.traces.find(load->from) : input.traces.end();
  if (runs == input.traces.end() || runs->second.size() <= repeat) return {};
  return {.run = runs->second[repeat], .promises = &input.scenario.variant(load->from)};
}

}  // namespace

CheckResult judge_law(const laws::Law& law, const trace::RunTrace& run, const scenario::Promises& promises,
                      const Saver& saver) {
  return law.judge == nullptr ? judge_by_check(law, run, promises, saver) : judge_alone(law, run, promises);
}

std::vector<AskedLaw> judge_laws(const trace::RunTrace& run, const scenario::Promises& promises,
                                 const std::vector<std::string>& names, const Saver& saver) {
  diagnosis::Question question{.that = scenario::CheckKind::kLaws,
                               .straight = {},
                               .traces = {{promises.name, {&run}}},
                               .promises = {{promises.name, &promises}}};
  if (saver && promises.train.checkpoint.load) {
    const std::string& from = promises.train.checkpoint.load->from;
    question.traces.try_emplace(from, std::vector{saver.run});
    question.promises.try_emplace(from, saver.promises);
  }
  // Rules about samples are about shares of the batch: several ranks may compute one together.
  std::optional<trace::RunTrace> by_share;
  scenario::Promises of_shares = promises;
  if (trace::batch_shares_of(run) < run.world_size()) {
    by_share = trace::one_rank_for_each_share(run);
    of_shares.world_size = by_share->world_size();
  }
  std::vector<AskedLaw> asked;
  for (const laws::Law& law : laws::all_laws()) {
    if (names.empty() || std::find(names.begin(), names.end(), law.name) != names.end()) asked.push_back({.law = &law});
  }
  side_by_side(asked.size(), [&](std::size_t i) {
    const laws::Law& law = *asked[i].law;
    const bool by_shares = by_share && is_about_batches(law);
    const trace::RunTrace& judged = by_shares ? *by_share : run;
    const scenario::Promises& promised = by_shares ? of_shares : promises;
    const std::string unasked = law.unasked == nullptr ? "" : law.unasked(judged, promised);
    asked[i].applies = unasked.empty();
    asked[i].result = unasked.empty() ? judge_law(law, judged, promised, saver)
                                      : CheckResult{.status = CheckResult::Status::kInconclusive, .why = unasked};
  });
  for (AskedLaw& each : asked) {
    if (by_share && is_about_batches(*each.law) && each.result.divergence)
      each.result.divergence->rank = by_share->ranks[static_cast<std::size_t>(each.result.divergence->rank)].rank;
    if (each.result.divergence) diagnosis::diagnose(question, *each.result.divergence, {});
  }
  return asked;
}

CheckResult check_laws(const CheckInput& input) {
  CheckResult total;
  Untold untold_laws;
  std::size_t judged = 0;
  for (const std::string& variant : input.spec.variants) {
    const auto& runs = input.of(variant);
    judged += runs.size();
    for (std::size_t repeat = 0; repeat < runs.size(); ++repeat)
      combine(total,
              judge_run(*runs[repeat], scenario::with_loaded_optimizer(input.scenario, input.scenario.variant(variant)),
                        input.spec.laws, saver_in(input, variant, repeat), untold_laws));
  }
  total = concluded(std::move(total));
  if (total.status == CheckResult::Status::kAgree) total.why = untold_laws.text(judged);
  return total;
}

}  // namespace lockstep::checks
