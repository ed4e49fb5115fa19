#include <algorithm>
#include <array>
#include <cmath>
#include <map>
#include <optional>
#include <set>
#include <string>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/entry.h"
#include "harness/trace/joining.h"

/// What a program's recorder counted of its calls (the ledger's entries "seen.…") proves a mistake in their order.
namespace lockstep::laws {
namespace {

using trace::Channel;

/// An entry of the ledger; nothing if there is none.
std::optional<double> counted(const Held& held, const std::string& name) {
  const trace::Record* record = held.find(Channel::kLedger, name);
  if (record == nullptr) return std::nullopt;
  if (!record->integers.empty()) return static_cast<double>(record->integers[0]);
  return record->number;
}

double seen_at(const Held& held, const std::string& name) { return counted(held, "seen." + name).value_or(0); }

/// Calls of one step that are never meant so. *Lifetime*: of the program.
struct Call {
  const char* entry;  ///< of the ledger, that counts them
  const char* noun;   ///< for one of them
  const char* cause;
  const char* expected;
  const char* actual;
};

constexpr std::array<Call, 6> kCalls = {{
    {"stale", "parameter", "model.stale_weights", "the weights as the update before left them",
     "had in a forward pass the elements of before an update: they had been gathered, and stayed so"},
    {"unreduced", "gradient", "grad.not_reduced", "gradients that are reduced before their update",
     "were not reduced over all ranks before their update"},
    {"unclipped", "gradient", "clip.no_effect", "a call that clips the gradients it is given",
     "stayed as they were in a call that clips: they are terms of a sum (Partial), and a copy was scaled"},
    {"left", "gradient", "grad.not_zeroed", "gradients of the update's own passes",
     "hold what the update before has used, too"},
    {"clipped_early", "gradient", "clip.before_reduce", "clipping after the last backward pass of an update",
     "were clipped before a backward pass that added to them"},
    {"clipped_late", "gradient", "clip.no_effect", "clipping before the update that uses the gradients",
     "were clipped after their update, which used them unclipped"},
}};

/// Where the gradients that a rank holds in a step begin.
RecordPlace gradients_at(std::int64_t step, std::int64_t rank, const Held& held) {
  const auto gradients = held.all(Channel::kGradient);
  return {step, Channel::kGradient, gradients.empty() ? "" : gradients[0]->name, rank};
}

std::optional<Breach> miscalled(std::int64_t step, std::int64_t rank, const Held& held) {
  for (const Call& call : kCalls) {
    const double count = seen_at(held, call.entry);
    if (count == 0) continue;
    return seen_breach(gradients_at(step, rank, held), call.expected,
                       to_decimal(count) + " " + call.noun + (count == 1 ? ": " : "s ") + call.actual, call.cause);
  }
  return std::nullopt;
}

/// A call that clips gets no gradient, and their norm is above its threshold.
std::optional<Breach> clips_nothing(std::int64_t step, std::int64_t rank, const Held& held) {
  const trace::Record* clipped = held.find(Channel::kLedger, "seen.clipped");
  const double threshold = counted(held, "seen.clip_norm").value_or(INFINITY);
  const double norm = total_norm(final_gradients(held));
  if (clipped == nullptr || seen_at(held, "clipped") != 0 || !(norm > threshold)) return std::nullopt;
  return seen_breach(
      gradients_at(step, rank, held), "gradients to clip",
      "clip_grad_norm_ got no gradient; their norm is " + rounded(norm, 5) + ", the threshold " + to_decimal(threshold),
      "clip.no_effect");
}

/// Gradients are multiplied by the loss scale while their norm is compared with the threshold.
std::optional<Breach> clips_scaled(std::int64_t step, std::int64_t rank, const Held& held) {
  if (!(seen_at(held, "clips") > 0)) return std::nullopt;
  std::map<std::string, bool> was_clipped;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    const std::string parameter = parameter_of(record->name);
    if (record->name.starts_with("clipped ")) was_clipped[parameter] = true;
    if (!record->name.starts_with("unscaled ") || !was_clipped[parameter]) continue;
    Breach breach = seen_breach(gradients_at(step, rank, held), "gradients unscaled first, then clipped",
                                "clipped first, with loss scale " + to_decimal(loss_scale_of(held).value_or(NAN)),
                                "clip.before_unscale");
    breach.at.tensor = record->name;
    return breach;
  }
  return std::nullopt;
}

/// An update without a backward pass gets the very gradients of the update before.
std::optional<Breach> updates_again(const trace::RunTrace& run, std::int64_t step, std::int64_t rank,
                                    const Held& held) {
  if (counted(held, "micro_batches") != 0.0 || seen_at(held, "reused") == 0) return std::nullopt;
  const auto now = final_gradients(held), before = final_gradients(Held(run, static_cast<std::size_t>(rank), step - 1));
  const auto is_same = [&](const auto& item) {
    const auto found = before.find(item.first);
    return found != before.end() && found->second->digest == item.second->digest;
  };
  if (now.empty() || !(total_norm(now) > 0) || !std::all_of(now.begin(), now.end(), is_same)) return std::nullopt;
  return seen_breach(gradients_at(step, rank, held), "a backward pass between two updates",
                     "the update takes the same " + to_decimal(static_cast<double>(now.size())) +
                         " gradients as the update before, and no backward pass lies between them",
                     "opt.taken_twice");
}

/// The only root trained, and is in evaluation mode in a later update. Of several, some may not be trained any more.
/// `at_first`: whether it trained before the first one.
std::optional<Breach> stops_training(std::int64_t step, std::int64_t rank, const Held& held,
                                     std::map<std::string, bool>& trained, bool at_first) {
  for (const trace::Record* record : held.all(Channel::kLedger)) {
    if (record->name != "seen.training") continue;
    bool& before = trained.try_emplace(std::to_string(rank) + record->name, at_first).first->second;
    const bool now = counted(held, record->name) != 0.0;
    if (before && !now)
      return Breach{.at = {step, Channel::kLedger, record->name, rank},
                    .expected = "training mode, as in the updates before",
                    .actual = "evaluation mode",
                    .cause = "model.evaluation_mode",
                    .evidence = "the model was in training mode before, and is updated in evaluation mode since"};
    before = before || now;
  }
  return std::nullopt;
}

/// Whether backward passes make gradients, and of no parameter that the optimizer holds.
bool trains_others(const trace::RunTrace& run, const Held& held) {
  std::set<std::string> names;
  for (const Json& optimizer : seen_of(run, "optimizer")) {
    for (const Json& group : optimizer.value("groups", Json::array())) {
      for (const Json& name : group.value("parameters", Json::array())) names.insert(name.get<std::string>());
    }
  }
  const auto local = held.all(Channel::kGradientLocal);
  return !local.empty() && std::none_of(local.begin(), local.end(),
                                        [&](const trace::Record* gradient) { return names.contains(gradient->name); });
}

/// Whether a step has losses of its own, and all are zero: their gradients are zero by right.
bool loses_nothing(const trace::Step& step) {
  std::size_t losses = 0, nothing = 0;
  for (const trace::Record& record : step.records) {
    if (!is_own_loss(record) || !record.number) continue;
    ++losses;
    nothing += *record.number == 0 ? 1 : 0;
  }
  return losses > 0 && nothing == losses;
}

/// Every update of the run comes without any gradient, or with zeros alone.
std::optional<Breach> never_has_gradients(const trace::RunTrace& run) {
  std::int64_t steps = 0, zeros = 0;
  std::optional<std::int64_t> before;  // an optimizer that computes gradients itself moves weights all the same
  for (const trace::Step& step : run.ranks[0].steps) {
    if (step.step < 0) continue;
    const Held held(run, 0, step.step);
    const auto gradients = final_gradients(held);
    const bool is_idle = seen_at(held, "idle_updates") != 0 && gradients.empty();
    const bool are_zeros = !gradients.empty() && total_norm(gradients) == 0.0;  // cleared after the backward pass
    if (are_zeros && loses_nothing(step)) continue;
    if (!is_idle && !are_zeros) return std::nullopt;
    ++steps;
    zeros += are_zeros;
    const bool has_weights = !held.all(Channel::kWeight).empty();
    if (is_idle && before && has_weights && !same(Held(run, 0, *before), held, Channel::kWeight)) return std::nullopt;
    before = step.step;
  }
  if (steps < 2) return std::nullopt;
  if (zeros > 0)
    return Breach{.at = {run.ranks[0].steps.back().step, Channel::kGradient, "", 0},
                  .expected = "a gradient that is not zero in some update",
                  .actual = "all gradients of all updates are zeros"};
  const bool holds_others = trains_others(run, Held(run, 0, run.ranks[0].steps.back().step));
  return Breach{.at = {run.ranks[0].steps.back().step, Channel::kGradient, "", 0},
                .expected = "a gradient for some parameter of each optimizer",
                .actual = "an optimizer has no gradient in any update",
                .cause = holds_others ? "opt.no_effect" : "",
                .evidence = "backward passes make gradients, and none of them belongs to a parameter of the optimizer"};
}

/// One schedule takes the same number of steps, more than one, after each update. accelerate's does so on purpose, and
/// so does one that is counted in micro-batches.
std::optional<Breach> steps_often(const trace::RunTrace& run) {
  const Json frameworks = run.ranks[0].header.value("framework", Json::array());
  if (!frameworks.is_array() || !frameworks.empty() || seen_of(run, "every") != Json(1)) return std::nullopt;
  std::optional<double> before, each;
  std::size_t updates = 0;
  for (const trace::Step& step : run.ranks[0].steps) {
    const Held held(run, 0, step.step);
    const auto now = counted(held, "seen.schedule_steps");
    if (!now || held.find(Channel::kLedger, "seen.schedules") != nullptr) {
      if (step.step >= 0) return std::nullopt;
      continue;
    }
    if (before && seen_at(held, "idle_updates") == 0) {
      const double taken = *now - *before;
      const bool by_batch = taken == counted(held, "micro_batches") && taken != static_cast<double>(run.world_size());
      if (taken < 2 || by_batch || (each && *each != taken)) return std::nullopt;
      each = taken;
      ++updates;
    }
    before = now;
  }
  constexpr std::size_t kUpdates = 3;
  if (!each || updates < kUpdates) return std::nullopt;
  return Breach{.at = {1, Channel::kLedger, "seen.schedule_steps", 0},
                .expected = "one step of the schedule for each update or epoch",
                .actual = to_decimal(*each) + " after each update",
                .cause = "lr.schedule_rate",
                .evidence = "the schedule takes " + to_decimal(*each) + " steps for each update, with " +
                            std::to_string(run.world_size()) + " ranks"};
}

/// The number of a pass over the data, in one process.
double pass_of(const Held& held) {
  return counted(held, trace::entry::kPasses).value_or(counted(held, trace::entry::kEpoch).value_or(0));
}

std::int64_t first_update(const trace::RunTrace& run) {
  const auto& steps = run.ranks[0].steps;
  const auto found = std::find_if(steps.begin(), steps.end(), [](const trace::Step& step) { return step.step >= 0; });
  return found == steps.end() ? 0 : found->step;
}

/// A schedule takes no step in a run of several epochs.
std::optional<Breach> never_steps(const trace::RunTrace& run) {
  if (run.ranks[0].steps.empty()) return std::nullopt;
  const std::int64_t last = run.ranks[0].steps.back().step;
  const Held held(run, 0, last);
  const trace::Record* steps = held.find(Channel::kLedger, "seen.schedule_steps");
  const double passes = pass_of(held) - pass_of(Held(run, 0, first_update(run)));
  constexpr double kEpochs = 2;  // the third pass has begun: one for each epoch would have been taken twice
  if (steps == nullptr || seen_at(held, "schedule_steps") != 0 || !(passes >= kEpochs)) return std::nullopt;
  return Breach{.at = {last, Channel::kLedger, "seen.schedule_steps", 0},
                .expected = "a step for each update or epoch",
                .actual = "none in " + to_decimal(passes + 1) + " epochs"};
}

/// Before the first update, each rank's part of every weight in parts holds the same numbers. Weights of one number are
/// no sign; nor are some that repeat themselves.
std::optional<Breach> drew_alike(const trace::RunTrace& run) {
  if (run.ranks[0].steps.empty()) return std::nullopt;
  const std::int64_t first = run.ranks[0].steps.front().step;  // after loading it may be another one than the initial
  std::vector<std::string> repeated;
  for (const trace::Record* weight : Held(run, 0, first).all(Channel::kWeight)) {
    if (!weight->is_joined || !weight->norm) continue;
    if (weight->is_repeated)
      repeated.push_back(weight->name);
    else if (!trace::is_of_one_magnitude(*weight))
      return std::nullopt;
  }
  if (repeated.size() < 2) return std::nullopt;
  return seen_breach({first, Channel::kWeight, repeated[0], 0}, "shards with numbers of their own",
                     "the ranks' shards of " + to_decimal(static_cast<double>(repeated.size())) + " weights (" +
                         some_of(repeated, 3) + ") hold the same numbers",
                     has_loaded(run) ? "ckpt.shards_of_one_rank" : "init.shards_alike");
}

/// The ranks share the model otherwise than it is promised. A framework may leave out sharding, and say nothing.
std::optional<Breach> lies_otherwise(const trace::RunTrace& run, const scenario::Promises& promises) {
  const auto seen = layout_of(run);
  if (!promises.layout || !seen) return std::nullopt;
  std::set<std::string> kinds;
  for (const auto& [kind, ranks] : *seen) kinds.insert(kind);
  if (kinds == *promises.layout) return std::nullopt;
  const std::int64_t first = run.ranks[0].steps.front().step;
  return seen_breach(
      {first, Channel::kWeight, "", 0},
      promises.layout->empty() ? "one whole model" : join({promises.layout->begin(), promises.layout->end()}, " and "),
      text_of(*seen), "model.other_layout");
}

/// Whether a ledger's entry is a setting of the update, and no measurement.
bool is_setting(const trace::Record& record) {
  static const std::set<std::string> kMeasured = {trace::entry::kLossDenominator, trace::entry::kLossScale};
  static const std::set<std::string> kTold = {"seen.clip_norm"};
  const bool is_seen = record.name.starts_with("seen.");
  return record.channel == Channel::kLedger && record.number && !kMeasured.contains(record.name) &&
         (!is_seen || kTold.contains(record.name));
}

/// Whether two ranks mean one number. A threshold that follows the norm of gradients is added up in float32, in another
/// order on each replica.
bool is_one_setting(double one, double other) {
  constexpr double kSameSetting = 1e-5;
  return one == other || std::fabs(one - other) <= kSameSetting * std::max(std::fabs(one), std::fabs(other));
}

/// Ranks that hold parts of one model update them with other settings. Entries are recorded where they change.
std::optional<Breach> set_otherwise(const trace::RunTrace& run) {
  const auto layout = layout_of(run);
  if (!layout || !(layout->contains("shard") || layout->contains("tensor")) || !hold_the_same_names(run))
    return std::nullopt;
  std::vector<std::map<std::string, double>> settings(run.ranks.size());
  for (const trace::Step& step : run.ranks[0].steps) {
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      const trace::Step* const held = run.ranks[rank].find(step.step);
      if (held == nullptr) return std::nullopt;
      for (const trace::Record& record : held->records) {
        if (is_setting(record)) settings[rank][record.name] = *record.number;
      }
      for (const auto& [name, value] : settings[rank]) {
        const auto first = settings[0].find(name);
        if (first == settings[0].end() || is_one_setting(first->second, value) || step.step < 0) continue;
        return seen_breach({step.step, Channel::kLedger, name, static_cast<std::int64_t>(rank)},
                           to_decimal(first->second) + ", as on rank 0",
                           "rank " + std::to_string(rank) + " updates its parts of the model with " + name + " " +
                               to_decimal(value) + ", rank 0 with " + to_decimal(first->second),
                           "opt.settings_of_rank");
      }
    }
  }
  return std::nullopt;
}

/// Our worker tells gradients that are left, and evaluation mode, only where they are.
bool is_told(const trace::Record& record) {
  return record.channel == Channel::kLedger && (record.name == "seen.left" || record.name == "seen.training");
}

Outcome judge_worker(const trace::RunTrace& run) {
  Outcome outcome;
  std::map<std::string, bool> trained;
  for_each_state(run, [&](std::int64_t step, std::int64_t rank, const Held& held) {
    ++outcome.judged;
    outcome.broken = miscalled(step, rank, held);
    if (!outcome.broken) outcome.broken = stops_training(step, rank, held, trained, /*at_first=*/true);
    return !outcome.broken;
  });
  return outcome;
}

}  // namespace

std::string no_usage_asked(const trace::RunTrace& run, const scenario::Promises& promises) {
  const bool told = std::any_of(run.ranks.begin(), run.ranks.end(), [](const trace::Trace& rank) {
    return std::any_of(rank.steps.begin(), rank.steps.end(), [](const trace::Step& step) {
      return std::any_of(step.records.begin(), step.records.end(), is_told);
    });
  });
  return promises.known || told ? "" : "lockstep's worker makes these calls itself and saw no mistake";
}

Outcome judge_usage(const trace::RunTrace& run, const scenario::Promises& promises) {
  if (!promises.known) return judge_worker(run);
  if (run.ranks[0].header.value("recorder", Json()) != Json("python"))
    return cannot_tell("this program's recorder does not count its calls");
  if (promises.layout && !layout_of(run)) return cannot_tell("its trace does not say how the ranks share the model");
  Outcome outcome;
  std::map<std::string, bool> trained;
  for_each_state(run, [&](std::int64_t step, std::int64_t rank, const Held& held) {
    if (step < 0 || held.find(Channel::kLedger, "micro_batches") == nullptr) return true;
    ++outcome.judged;
    for (const auto& rule : {miscalled, clips_nothing, clips_scaled}) {
      if (!outcome.broken) outcome.broken = rule(step, rank, held);
    }
    if (!outcome.broken) outcome.broken = updates_again(run, step, rank, held);
    if (!outcome.broken) outcome.broken = stops_training(step, rank, held, trained, /*at_first=*/false);
    return !outcome.broken;
  });
  for (const auto& rule : {never_has_gradients, steps_often, never_steps, drew_alike, set_otherwise}) {
    if (!outcome.broken && outcome.judged > 0) outcome.broken = rule(run);
  }
  if (!outcome.broken && outcome.judged > 0) outcome.broken = lies_otherwise(run, promises);
  return outcome;
}

}  // namespace lockstep::laws
