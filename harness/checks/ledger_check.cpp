#include <algorithm>
#include <cmath>
#include <optional>
#include <set>

#include "harness/base/text.h"
#include "harness/checks/check.h"
#include "harness/laws/law.h"
#include "harness/laws/promise.h"
#include "harness/recipe/schedule_rule.h"
#include "harness/trace/entry.h"

namespace lockstep::checks {
namespace {

using trace::Channel;
using trace::Record;

/// Where a rank is in its data.
struct Position {
  std::int64_t epoch = 0;
  std::int64_t position = 0;  ///< samples taken of this epoch
  std::int64_t taken = 0;     ///< samples in all
};

/// Closed forms of one variant's ledger.
class Ledger {
 public:
  /// `run`: it says how large the data are.
  Ledger(const SourceOf& source_of, const scenario::Promises& variant, const trace::RunTrace& run)
      : train_(variant.train),
        world_(variant.world_size),
        targets_per_sample_(run.ranks[0].header.value("targets_per_sample", std::int64_t{0})),
        last_step_(variant.knows("steps") ? std::optional(variant.last_recorded_step()) : std::nullopt) {
    if (variant.knows("optimizer") && variant.knows("schedule")) {
      for (const double base : recipe::base_learning_rates(train_, world_)) forms_.emplace_back(train_.schedule, base);
    }
    const std::int64_t samples =
        variant.knows("sampler") && variant.knows("batch") ? laws::samples_of(run, variant) : 0;
    if (const auto promise = samples > 0 ? laws::promise_of(variant, samples) : std::nullopt;
        promise && promise->usable()) {
      each_ = promise->each;
      micro_ = train_.batch.micro_size(world_);
      per_epoch_ = (each_[0] + micro_ - 1) / micro_;
    }
    begin(source_of, run);
  }

  std::size_t groups() const { return forms_.size(); }

  /// Learning rate of a group in this step, none before the last one asked for. `losses`: the reduced loss at each step
  /// of the schedule before.
  std::optional<recipe::ExpectedRate> learning_rate(std::size_t group, std::int64_t step,
                                                    const std::vector<double>& losses) {
    const std::int64_t steps = schedule_steps_before(step);
    auto expected = forms_[group].after(steps, losses);
    const double warmup = recipe::rule_warmup(train_, recipe::rule_factor(train_, world_), steps);
    if (expected && warmup != 1) expected = {expected->rate * warmup, expected->rounding * (warmup + 1)};
    return expected;
  }

  /// Steps that the schedule took in the first so many updates.
  std::int64_t schedule_steps(std::int64_t updates) const {
    if (train_.schedule_every == recipe::ScheduleEvery::kEpoch)
      return schedule_steps_ + epochs_ended(updates - 1) - epochs_ended(first_ - 1);
    return schedule_steps_ + (updates - first_) * (train_.schedule_every == recipe::ScheduleEvery::kRank ? world_ : 1);
  }

  /// Steps that the schedule took before the update of this step: in an epoch that ends among its micro-batches, too. A
  /// plateau waits for the update's loss.
  std::int64_t schedule_steps_before(std::int64_t step) const {
    if (train_.schedule_every != recipe::ScheduleEvery::kEpoch ||
        train_.schedule.kind == recipe::ScheduleKind::kPlateau)
      return schedule_steps(step);
    const std::int64_t before_last = micro_batches(step + 1 - first_, rest_of_epoch(0)) - 1;
    return schedule_steps_ + epochs_ended_at(position_after(before_last, 0)) - epochs_ended(first_ - 1);
  }

  std::int64_t epoch(std::int64_t step) const { return position(step, 0).epoch; }

  /// Targets of one rank in this step, or of all; the last micro-batch of an epoch may be short.
  std::optional<std::int64_t> denominator(std::int64_t step, std::int64_t rank) const {
    if (targets_per_sample_ == 0) return std::nullopt;
    if (!averages_over_world()) return (taken(step, rank) - taken(step - 1, rank)) * targets_per_sample_;
    std::int64_t sum = 0;
    for (std::int64_t one = 0; one < world_; ++one) sum += taken(step, one) - taken(step - 1, one);
    return sum * targets_per_sample_;
  }

  /// Targets that an evaluation after this step counts; nothing where there is none, it counts none, or it is not
  /// recorded.
  std::optional<std::int64_t> counted(std::int64_t step, std::int64_t rank) const {
    const auto& evaluation = train_.evaluation;
    if (!evaluation || (step + 1) % evaluation->every != 0 ||
        evaluation->average != recipe::EvaluationAverage::kSamples)
      return std::nullopt;
    if (!train_.record.holds(Channel::kMetric)) return std::nullopt;
    if (targets_per_sample_ == 0 || (evaluation->reduce == recipe::EvaluationReduce::kRoot && rank != 0))
      return std::nullopt;
    return evaluation->samples * targets_per_sample_;
  }

  bool averages_over_world() const { return train_.loss_average == recipe::LossAverage::kWorld; }

  /// Samples of one rank up to and including this step.
  std::int64_t taken(std::int64_t step, std::int64_t rank) const { return position(step, rank).taken; }

  /// Last step that the trace must hold; nothing where only the program knows.
  std::optional<std::int64_t> last_step() const { return last_step_; }

  /// Whether it is known where each rank is in its data.
  bool counts() const { return !each_.empty() && micro_ > 0; }

  /// Whether rates are promised, and no epoch has to be counted for them.
  bool rates_alone() const { return groups() > 0 && train_.schedule_every != recipe::ScheduleEvery::kEpoch; }

  /// Whether it is known where a resumed training begins.
  bool knows_begin() const { return knows_begin_; }

 private:
  /// A resumed training begins where the one that saved was, if it is to restore that.
  void begin(const SourceOf& source_of, const trace::RunTrace& run) {
    begin_.resize(each_.size());
    const auto& load = train_.checkpoint.load;
    if (!load || load->from.empty() || !load->restores("schedule") || !load->restores("sampler")) return;
    const scenario::Promises* const source = source_of(load->from);
    knows_begin_ = source != nullptr;
    if (source == nullptr) return;
    const Ledger saved(source_of, *source, run);
    knows_begin_ = saved.knows_begin_;
    if (saved.counts() != counts() || (!counts() && !rates_alone())) return;
    first_ = scenario::newest_saved(*load, *source);
    schedule_steps_ = saved.schedule_steps(first_);
    for (std::size_t rank = 0; rank < begin_.size(); ++rank) {
      const std::size_t of = saved.world_ == world_ ? rank : 0;
      begin_[rank] = moved(saved.position(first_ - 1, static_cast<std::int64_t>(of)), saved, of, each_[rank]);
      if (load->epoch == recipe::LoadEpoch::kNext) ++begin_[rank].epoch;
      if (load->epoch != recipe::LoadEpoch::kSaved) begin_[rank].position = 0;
    }
  }

  /// The position at this world size of a rank that was at `at` in the training that saved.
  Position moved(Position at, const Ledger& saved, std::size_t rank, std::int64_t each) const {
    if (saved.world_ == world_) return at;
    const bool ended = at.position == saved.each_[rank];
    at.position = ended ? each : std::min(at.position * saved.world_ / world_, each);
    at.taken = at.epoch * each + at.position;
    return at;
  }

  /// Where a rank is after this step.
  Position position(std::int64_t step, std::int64_t rank) const {
    return position_after(micro_batches(step + 1 - first_, rest_of_epoch(rank)), rank);
  }

  /// Micro-batches that are left of the epoch in which a rank begins.
  std::int64_t rest_of_epoch(std::int64_t rank) const {
    const auto index = static_cast<std::size_t>(rank);
    return (each_[index] - begin_[index].position + micro_ - 1) / micro_;
  }

  /// Where a rank is after so many micro-batches.
  Position position_after(std::int64_t batches, std::int64_t rank) const {
    const std::int64_t each = each_[static_cast<std::size_t>(rank)];
    const Position at = begin_[static_cast<std::size_t>(rank)];
    const std::int64_t rest = rest_of_epoch(rank);
    if (batches <= rest) {
      const std::int64_t position = std::min(at.position + batches * micro_, each);
      return {at.epoch, position, at.taken + position - at.position};
    }
    batches -= rest;
    const std::int64_t whole = (batches - 1) / per_epoch_;
    const std::int64_t position = std::min((batches - whole * per_epoch_) * micro_, each);
    return {at.epoch + 1 + whole, position, at.taken + each - at.position + whole * each + position};
  }

  /// Micro-batches in so many updates, where the first epoch has `rest`.
  std::int64_t micro_batches(std::int64_t updates, std::int64_t rest) const {
    const std::int64_t accumulation = train_.batch.accumulation, in_rest = (rest + accumulation - 1) / accumulation;
    if (!train_.batch.updates_at_epoch_end) return updates * accumulation;
    if (updates <= in_rest) return std::min(updates * accumulation, rest);
    return rest + train_.batch.micro_batches(updates - in_rest, per_epoch_);
  }

  /// Epochs that have no samples left after this step.
  std::int64_t epochs_ended(std::int64_t step) const { return epochs_ended_at(position(step, 0)); }
  std::int64_t epochs_ended_at(const Position& at) const { return at.epoch + (at.position == each_[0] ? 1 : 0); }

  const recipe::TrainSpec& train_;
  std::int64_t world_, targets_per_sample_, micro_ = 0, per_epoch_ = 0;
  std::optional<std::int64_t> last_step_;
  bool knows_begin_ = true;
  std::int64_t first_ = 0;                   ///< step that comes first
  std::int64_t schedule_steps_ = 0;          ///< before it
  std::vector<Position> begin_;              ///< of each rank, before it
  std::vector<std::int64_t> each_;           ///< samples of each rank in an epoch
  std::vector<recipe::ScheduleForm> forms_;  ///< by parameter group
};

/// One integer of a ledger, and its closed form; nothing where that depends on the samples.
struct Entry {
  const char* name;
  bool of_samples;
  std::optional<std::int64_t> (*expected)(const Ledger&, std::int64_t step, std::int64_t rank);
};

constexpr Entry kEntries[] = {
    {trace::entry::kLossDenominator, true,
     [](const Ledger& ledger, std::int64_t step, std::int64_t rank) { return ledger.denominator(step, rank); }},
    {trace::entry::kSamplesTaken, true,
     [](const Ledger& ledger, std::int64_t step, std::int64_t rank) {
       return std::optional(ledger.taken(step, rank));
     }},
    {trace::entry::kUpdates, false,
     [](const Ledger&, std::int64_t step, std::int64_t) { return std::optional(step + 1); }},
    {trace::entry::kEpoch, true,
     [](const Ledger& ledger, std::int64_t step, std::int64_t) { return std::optional(ledger.epoch(step)); }},
};

/// Holds one run's ledgers against their closed form; the first violation in (step, entry, rank) order counts.
class Audit {
 public:
  /// `may_lack`: whether the trace need not hold every entry, as of a program that is not ours.
  /// `only_ledger`: without the reduced loss and the metrics, which have no closed form.
  Audit(const trace::RunTrace& run, Ledger& ledger, bool may_lack, bool only_ledger)
      : run_(run), ledger_(ledger), may_lack_(may_lack), only_ledger_(only_ledger) {}

  CheckResult judge() {
    if (!recorded_any()) return {.status = CheckResult::Status::kInconclusive, .why = run_.run + " recorded no ledger"};
    const std::set<std::string> optimizers = this->optimizers();
    take_turns_ = optimizers.size() > 1;
    for (const trace::Step& step : run_.ranks[0].steps) {
      if (step.step < 0 || is_loaded_state(step)) continue;
      for (std::size_t group = 0; group < ledger_.groups(); ++group) {
        const auto expected = ledger_.learning_rate(group, step.step, losses_);
        for (const std::string& optimizer : optimizers) {
          if (!stop()) judge_rate(optimizer, group, step.step, expected);
        }
      }
      if (stop() && result_.divergence && take_turns_ && is_rate(result_.divergence->tensor))
        return {.status = CheckResult::Status::kInconclusive,
                .why = run_.run + " has " + std::to_string(optimizers.size()) +
                       " optimizers, and the promise does not hold for all; which one it describes is unknown (" +
                       result_.divergence->tensor + ")",
                .next = "promise no optimizer"};
      for (const Entry& entry : kEntries) {
        for (const trace::Trace& rank : run_.ranks) {
          if (!stop() && (ledger_.counts() || !entry.of_samples)) judge_entry(entry, rank, step.step);
        }
      }
      if (!stop() && !only_ledger_) judge_reduced_loss(step.step);
      for (const trace::Trace& rank : run_.ranks) {
        if (!stop() && !only_ledger_) judge_counted(rank, step.step);
      }
      if (stop()) return result_;
      if (const Record* loss = step.find(Channel::kLoss, trace::entry::kReduced);
          loss != nullptr && loss->number && step.step == losses_known_) {
        const std::int64_t steps = ledger_.schedule_steps(step.step + 1) - ledger_.schedule_steps(step.step);
        losses_.insert(losses_.end(), static_cast<std::size_t>(steps), *loss->number);
        ++losses_known_;
      }
    }
    const std::int64_t last = run_.ranks[0].steps.back().step, expected = ledger_.last_step().value_or(last);
    if (last != expected)
      fail(last, trace::entry::kUpdates, 0, "steps to " + std::to_string(expected), "steps to " + std::to_string(last));
    if (hidden_) hide_from(result_, *hidden_, run_.run);
    return result_;
  }

 private:
  static bool has_ledger(const trace::Step& step) {
    return std::any_of(step.records.begin(), step.records.end(),
                       [](const Record& record) { return record.channel == Channel::kLedger; });
  }

  bool recorded_any() const {
    return std::any_of(run_.ranks.begin(), run_.ranks.end(), [](const trace::Trace& rank) {
      return std::any_of(rank.steps.begin(), rank.steps.end(), has_ledger);
    });
  }

  /// A resumed run begins with its state after loading; what led there is not its own. A recorder notes hyperparameters
  /// of a program there.
  bool is_loaded_state(const trace::Step& step) const {
    return &step == &run_.ranks[0].steps.front() && (may_lack_ || !has_ledger(step));
  }

  bool stop() const { return result_.status != CheckResult::Status::kAgree; }

  static const Record* record_of(const trace::Trace& rank, std::int64_t step, const std::string& name,
                                 Channel channel = Channel::kLedger) {
    return rank.find(step, channel, name);
  }

  /// What comes before "learning_rate" in the ledgers: one text for each optimizer that made an update, an empty one
  /// where no rate is recorded.
  std::set<std::string> optimizers() const {
    std::set<std::string> found;
    for (const trace::Step& step : run_.ranks[0].steps) {
      for (const Record& record : step.records) {
        const std::size_t at = record.name.find(trace::entry::kLearningRate);
        if (record.channel == Channel::kLedger && at != std::string::npos) found.insert(record.name.substr(0, at));
      }
    }
    if (found.empty()) found.insert("");
    return found;
  }

  static bool is_rate(const std::string& name) { return name.find(trace::entry::kLearningRate) != std::string::npos; }

  void judge_rate(const std::string& optimizer, std::size_t group, std::int64_t step,
                  const std::optional<recipe::ExpectedRate>& expected) {
    const std::string name = optimizer + "learning_rate" + (group > 0 ? "." + std::to_string(group) : "");
    if (!expected) {
      result_ = {.status = CheckResult::Status::kInconclusive,
                 .why = run_.run +
                        ": this schedule has no closed form, or its reduced losses are not recorded from the first "
                        "step"};
      return;
    }
    for (const trace::Trace& rank : run_.ranks) {
      const Record* record = record_of(rank, step, name);
      if (record == nullptr && take_turns_) continue;
      ++result_.compared;
      if (record == nullptr || !record->number)
        return fail(step, name, rank.rank, to_decimal(expected->rate), "not recorded");
      if (!(std::fabs(*record->number - expected->rate) <= expected->rounding))
        return fail(step, name, rank.rank, to_decimal(expected->rate), to_decimal(*record->number));
    }
  }

  static std::optional<std::int64_t> integer_of(const trace::Trace& rank, std::int64_t step, const std::string& name,
                                                Channel channel = Channel::kLedger) {
    const Record* record = record_of(rank, step, name, channel);
    if (record == nullptr || record->integers.size() != 1) return std::nullopt;
    return record->integers[0];
  }

  /// Where samples have unequally many targets: those that the loss is divided by, as the ranks counted them.
  std::optional<std::int64_t> targets_counted(const trace::Trace& rank, std::int64_t step) const {
    if (!ledger_.averages_over_world()) return integer_of(rank, step, "targets");
    std::int64_t sum = 0;
    for (const trace::Trace& one : run_.ranks) sum += integer_of(one, step, "targets").value_or(0);
    return sum;
  }

  void judge_entry(const Entry& entry, const trace::Trace& rank, std::int64_t step) {
    if (may_lack_ && record_of(rank, step, entry.name) == nullptr) return;
    std::optional<std::int64_t> expected = entry.expected(ledger_, step, rank.rank);
    if (!expected) expected = targets_counted(rank, step);
    const std::string text = expected ? std::to_string(*expected) : "a count of targets";
    const std::optional<std::int64_t> actual = integer_of(rank, step, entry.name);
    if (!actual || !expected) return fail(step, entry.name, rank.rank, text, "not recorded");
    ++result_.compared;
    if (actual != expected) fail(step, entry.name, rank.rank, text, std::to_string(*actual));
  }

  /// On every rank the reduced loss is the mean of what the ranks lost in all micro-batches.
  void judge_reduced_loss(std::int64_t step) {
    const laws::Outcome loss = laws::judge_reduced_loss(run_, step);
    if (!hidden_) hidden_ = loss.hidden;
    result_.compared += loss.judged;
    if (!loss.broken) return;
    fail(step, trace::entry::kReduced, loss.broken->at.rank, loss.broken->expected, loss.broken->actual,
         Channel::kLoss);
  }

  void judge_counted(const trace::Trace& rank, std::int64_t step) {
    const auto expected = ledger_.counted(step, rank.rank);
    if (!expected) return;
    const auto actual = integer_of(rank, step, "counted", Channel::kMetric);
    ++result_.compared;
    if (actual != expected)
      fail(step, "counted", rank.rank, "every held-out target once: " + std::to_string(*expected),
           actual ? std::to_string(*actual) : "not recorded", Channel::kMetric);
  }

  /// Why an entry does not follow the scenario.
  static std::string cause_of(const std::string& name) {
    if (name == trace::entry::kReduced)
      return "the reduced loss is not the mean of the ranks' losses; look at what their sum is divided by";
    if (name == "counted") return "an evaluation counts more or fewer targets than are held out; look at padding";
    return name + " does not follow the scenario: " +
           (name.starts_with(trace::entry::kLearningRate) ? "rule, schedule, or its restore"
                                                          : "sampler position, batch size, or their restore");
  }

  void fail(std::int64_t step, const std::string& name, std::int64_t rank, std::string expected, std::string actual,
            Channel channel = Channel::kLedger) {
    result_.status = CheckResult::Status::kDivergence;
    result_.divergence = compare::Divergence{.step = step,
                                             .channel = channel,
                                             .tensor = name,
                                             .rank = rank,
                                             .left = "closed form",
                                             .right = run_.run,
                                             .expected = std::move(expected),
                                             .actual = std::move(actual),
                                             .class_ = scenario::Class::kSemantic,
                                             .cause = cause_of(name)};
  }

  const trace::RunTrace& run_;
  Ledger& ledger_;
  bool may_lack_, only_ledger_;
  bool take_turns_ = false;                  ///< several optimizers: each need not make every update
  std::vector<double> losses_;               ///< reduced, one for each step of the schedule so far
  std::int64_t losses_known_ = 0;            ///< updates from the first on whose loss is among them
  std::optional<laws::RecordPlace> hidden_;  ///< from where on the losses are NaN or infinite
  CheckResult result_;
};

}  // namespace

CheckResult judge_ledger(const trace::RunTrace& run, const scenario::Promises& promises, const SourceOf& source_of,
                         bool only_ledger) {
  if (!promises.train.record.holds(Channel::kLedger))
    return {.status = CheckResult::Status::kInconclusive,
            .why = "'" + promises.name + "' does not record the ledger",
            .next = "record the channel 'ledger'"};
  Ledger ledger(source_of, promises, run);
  const auto lacking = lacking_promise(promises, {"sampler", "batch"});
  const bool rates_suffice = promises.known && ledger.rates_alone();
  if (lacking && !rates_suffice) return *lacking;
  if (!ledger.counts() && !rates_suffice)
    return {.status = CheckResult::Status::kInconclusive,
            .why = run.run + " does not record the number of samples, or the epochs of its sampler are not known"};
  if (!ledger.knows_begin())
    return {.status = CheckResult::Status::kInconclusive,
            .why = "a resumed training continues the counts of the run that saved, and that run is missing",
            .next = "give the run that saved, too"};
  CheckResult result = Audit(run, ledger, promises.known.has_value(), only_ledger).judge();
  if (result.status != CheckResult::Status::kAgree) return result;
  if (!ledger.counts())
    result.why = "learning rates and updates alone: the samples of its epochs are not promised, or not known";
  else if (ledger.groups() == 0)
    result.why = "without learning rates: " + lacking_promise(promises, {"optimizer", "schedule"})->why;
  return result;
}

CheckResult check_ledger(const CheckInput& input) {
  CheckResult total;
  const SourceOf source_of = [&](const std::string& name) { return &input.scenario.variant(name); };
  for (const std::string& name : input.spec.variants) {
    for (const trace::RunTrace* const repeat : input.of(name))
      combine(total, judge_ledger(*repeat, input.scenario.variant(name), source_of, /*only_ledger=*/false));
  }
  return concluded(std::move(total));
}

}  // namespace lockstep::checks
