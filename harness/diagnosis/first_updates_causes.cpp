#include "harness/diagnosis/first_updates_causes.h"

#include <algorithm>
#include <map>

#include "harness/base/text.h"
#include "harness/diagnosis/samples_causes.h"
#include "harness/laws/held.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/recipe/sampler_rule.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// The resumed run's first samples, and the straight run's epochs around them.
class Position {
 public:
  explicit Position(const Restart& restart)
      : restart_(restart),
        straight_(*restart.straight.run),
        first_(*restart.first),
        taken_(ids_by_rank(*restart.resumed.run, first_)),
        epochs_(epochs_of(straight_, *restart.straight.promises)) {
    for (std::size_t i = 0; i < epochs_.size(); ++i) {
      if (epochs_[i].first_step > first_ || first_ > epochs_[i].last_step) continue;
      epoch_ = &epochs_[i];
      before_ = i > 0 ? &epochs_[i - 1] : nullptr;
      next_ = i + 1 < epochs_.size() ? &epochs_[i + 1] : nullptr;
      break;
    }
  }

  std::vector<Suspect> suspects() const {
    if (epoch_ == nullptr || global_batch_of(*restart_.resumed.run, first_).empty()) return of_items();
    if (restart_.changes_world()) return of_another_world();
    if (taken_ == ids_by_rank(straight_, first_)) return {};
    std::vector<Suspect> suspects;
    // An epoch whose number is lost, too, is the first one again.
    for (const Epoch* epoch : {begun(), &epochs_.front()}) {
      if (suspects.empty() && is_of(epoch->first_step)) suspects.push_back(restarted(*epoch));
    }
    for (const std::int64_t step : {first_ - 1, first_ + 1}) {
      if (is_of(step)) suspects.push_back(shifted(step));
    }
    if (at_boundary() && next_ != nullptr && is_of(next_->first_step)) suspects.push_back(skipped());
    return suspects.empty() ? of_another_order() : suspects;
  }

 private:
  bool at_boundary() const { return epoch_->first_step > restart_.saved; }

  /// The epoch in which the checkpoint was saved.
  const Epoch* begun() const { return at_boundary() && before_ != nullptr ? before_ : epoch_; }

  bool is_of(std::int64_t step) const { return step != first_ && step >= 0 && taken_ == ids_by_rank(straight_, step); }

  std::string seen() const {
    return restart_.resumed.run->run + ", step " + std::to_string(first_) + ": the first samples after loading are " +
           some_ids(taken_[0]) + " (rank 0)";
  }

  Suspect restarted(const Epoch& epoch) const {
    return {"data.resume_restart",
            {seen(), straight_.run + " took them at step " + std::to_string(epoch.first_step) + ", where epoch " +
                         std::to_string(epoch.number) + " begins; the checkpoint is of step " +
                         std::to_string(restart_.saved)}};
  }

  Suspect shifted(std::int64_t step) const {
    return {"ckpt.off_by_one",
            {seen(), straight_.run + " took them at step " + std::to_string(step) + ": an update is " +
                         (step < first_ ? "repeated" : "left out")}};
  }

  /// A loop without a loader has no ids and no epochs, but a number for each item.
  std::vector<Suspect> of_items() const {
    if (restart_.changes_world()) return {};
    const auto are_of = [&](std::int64_t step) {
      for (std::size_t rank = 0; rank < straight_.ranks.size(); ++rank) {
        const trace::Record* own = restart_.resumed.run->ranks[rank].find(first_, Channel::kSamples, "items");
        if (!trace::same_bits(own, straight_.ranks[rank].find(step, Channel::kSamples, "items"))) return false;
      }
      return true;
    };
    for (const std::int64_t step : {first_ - 1, first_ + 1}) {
      if (step <= 0 || !are_of(step) || are_of(first_)) continue;  // step 0 may be the first of an epoch
      return {{"ckpt.off_by_one",
               {restart_.resumed.run->run + ", step " + std::to_string(first_) +
                ", the first after loading: its items are "
                "those of " +
                straight_.run + " at step " + std::to_string(step) + ": an update is " +
                (step < first_ ? "repeated" : "left out")}}};
    }
    return {};
  }

  Suspect skipped() const {
    return {"data.resume_empty_epoch",
            {seen(), straight_.run + " took them at step " + std::to_string(next_->first_step) + ", where epoch " +
                         std::to_string(next_->number) + " begins: epoch " + std::to_string(epoch_->number) +
                         " had no batch"}};
  }

  /// Samples of an order that the straight run never began, or begins an epoch later.
  std::vector<Suspect> of_another_order() const {
    if (next_ != nullptr && is_of(next_->first_step + first_ - epoch_->first_step))
      return {{"data.resume_generator_late",
               {seen(), "they are at this place of the order of epoch " + std::to_string(next_->number) +
                            ", which has not begun"}}};
    if (at_boundary()) return {};
    const std::vector<Epoch> resumed = epochs_of(*restart_.resumed.run, *restart_.resumed.promises);
    const Epoch* own = epoch_at(resumed, first_);
    if (own == nullptr || own->number != epoch_->number || own->last_step != epoch_->last_step) return {};
    std::map<std::int64_t, std::int64_t> step_of;
    for (std::size_t rank = 0; rank < epoch_->ids.size(); ++rank) {
      for (std::size_t i = 0; i < epoch_->ids[rank].size(); ++i)
        step_of.emplace(epoch_->ids[rank][i], epoch_->steps[rank][i]);
    }
    Ids all;
    std::int64_t again = 0, in_place = 0;
    for (const Ids& ids : own->ids) all.insert(all.end(), ids.begin(), ids.end());
    for (std::size_t rank = 0; rank < own->ids.size(); ++rank) {
      for (std::size_t i = 0; i < own->ids[rank].size(); ++i) {
        const auto found = step_of.find(own->ids[rank][i]);
        again += found != step_of.end() && found->second < first_ ? 1 : 0;
        in_place += found != step_of.end() && found->second == own->steps[rank][i] ? 1 : 0;
      }
    }
    const auto count = static_cast<std::int64_t>(all.size());
    if (all.size() < recipe::kFewInOrder || again == 0 || 2 * in_place > count) return {};
    return {{"data.resume_generator_late",
             {seen(),
              "of the " + std::to_string(count) + " samples that it takes in the rest of epoch " +
                  std::to_string(own->number) + ", " + std::to_string(again) +
                  " had been taken before the checkpoint, and " + std::to_string(in_place) +
                  " come in the step in which " + straight_.run + " takes them",
              "batches and epoch end at the right place: the position is right, the order is not"}}};
  }

  /// Place of every sample in the epoch's order over all ranks, which take turns.
  std::map<std::int64_t, std::int64_t> places() const {
    std::map<std::int64_t, std::int64_t> places;
    const auto ranks = static_cast<std::int64_t>(epoch_->ids.size());
    for (std::int64_t rank = 0; rank < ranks; ++rank) {
      const Ids& ids = epoch_->ids[static_cast<std::size_t>(rank)];
      for (std::size_t i = 0; i < ids.size(); ++i) places.emplace(ids[i], static_cast<std::int64_t>(i) * ranks + rank);
    }
    return places;
  }

  std::vector<Suspect> of_another_world() const {
    const Ids batch = global_batch_of(*restart_.resumed.run, first_), right = global_batch_of(straight_, first_);
    if (batch == right || right.empty()) return {};
    const auto places = this->places();
    const auto begin_of = [&](const Ids& ids) -> std::optional<std::int64_t> {
      std::int64_t least = -1, most = -1;
      for (const std::int64_t id : ids) {
        const auto found = places.find(id);
        if (found == places.end()) return std::nullopt;
        least = least < 0 ? found->second : std::min(least, found->second);
        most = std::max(most, found->second);
      }
      const bool dense = most - least + 1 == static_cast<std::int64_t>(ids.size());
      return dense ? std::optional(least) : std::nullopt;
    };
    const auto actual = begin_of(batch), expected = begin_of(right);
    if (!actual || !expected || *actual == *expected) return {};
    if (*actual == 0) return {restarted(*epoch_)};
    const std::int64_t world = restart_.resumed.run->world_size(), from = restart_.source_world;
    const std::int64_t steps = first_ - epoch_->first_step;
    const bool by_ranks = *actual * from == *expected * world || *actual * world == *expected * from;
    if (world == from || (!by_ranks && *actual != steps * static_cast<std::int64_t>(batch.size()))) return {};
    return {{"ckpt.position_unit",
             {seen(),
              "they begin at sample " + std::to_string(*actual) + " of the epoch's order, after " +
                  std::to_string(*expected) + " samples were taken",
              "a position of " + std::to_string(from) + " ranks was read by " + std::to_string(world)}}};
  }

  const Restart& restart_;
  const trace::RunTrace& straight_;
  std::int64_t first_;
  std::vector<Ids> taken_;  ///< by rank
  std::vector<Epoch> epochs_;
  const Epoch* epoch_ = nullptr;  ///< of the straight run, in the step
  const Epoch* before_ = nullptr;
  const Epoch* next_ = nullptr;
};

/// The value of a record of the ledger.
std::optional<double> value_of(const trace::RunTrace& run, std::int64_t step, const std::string& name) {
  const trace::Record* record = run.ranks[0].find(step, Channel::kLedger, name);
  if (record == nullptr) return std::nullopt;
  if (record->integers.size() == 1) return static_cast<double>(record->integers[0]);
  return record->number;
}

/// How an entry of the resumed run follows the straight run's.
class Series {
 public:
  Series(const Restart& restart, std::string name) : restart_(restart), name_(std::move(name)) {}

  bool differs_at(std::int64_t step) const {
    const auto own = value_of(*restart_.resumed.run, step, name_);
    return own && own != value_of(*restart_.straight.run, step, name_);
  }

  /// Whether every value is the straight run's of so many steps later; at least one that differs in its own step is.
  bool follows(std::int64_t shift) const {
    return holds([&](std::int64_t step) { return value_of(*restart_.straight.run, step + shift, name_); });
  }

  bool stays_at_the_first() const {
    const auto first = value_of(*restart_.straight.run, 0, name_);
    return first && holds([&](std::int64_t) { return first; });
  }

  bool is_rate() const { return name_.starts_with(trace::entry::kLearningRate); }

  std::string shown(std::int64_t step) const {
    const auto own = value_of(*restart_.resumed.run, step, name_),
               other = value_of(*restart_.straight.run, step, name_);
    return restart_.resumed.run->run + ", step " + std::to_string(step) + ": " + name_ + " is " +
           to_decimal(own.value_or(0)) + ", " + (other ? to_decimal(*other) : "nothing") + " in " +
           restart_.straight.run->run;
  }

 private:
  template <typename ValueAt>
  bool holds(ValueAt value_at) const {
    bool any = false;
    for (const trace::Step& step : restart_.resumed.run->ranks[0].steps) {
      const auto own = step.step > restart_.begin ? value_of(*restart_.resumed.run, step.step, name_) : std::nullopt;
      const std::optional<double> other = own ? value_at(step.step) : std::nullopt;
      if (own && other && *own != *other) return false;
      any = any || (own && other && *own != value_of(*restart_.straight.run, step.step, name_));
    }
    return any;
  }

  const Restart& restart_;
  std::string name_;
};

std::vector<Suspect> suspects_in_series(const Restart& restart, const Series& series, std::int64_t step) {
  std::vector<Suspect> suspects;
  if (series.follows(-*restart.first))
    suspects.push_back({"ckpt.schedule_missing", {series.shown(step), "from there on it runs as from step 0"}});
  else if (series.stays_at_the_first())
    suspects.push_back({"ckpt.schedule_missing", {series.shown(step), "it stays at the value of step 0"}});
  for (const std::int64_t shift : {-1, 1}) {
    if (series.follows(shift))  // of a rate alone, no update is repeated
      suspects.push_back({series.is_rate() ? "ckpt.schedule_position" : "ckpt.off_by_one",
                          {series.shown(step),
                           std::string("from there on it is that of one update ") + (shift < 0 ? "before" : "after")}});
  }
  return suspects;
}

/// A schedule of a program that counts otherwise from the first update on.
std::vector<Suspect> suspects_in_schedule(const Restart& restart, const Series& rates, std::int64_t step) {
  const auto at_first = [&](const Side& side, const char* name) { return value_of(*side.run, *restart.first, name); };
  const auto own = at_first(restart.resumed, "seen.schedule_steps"),
             others = at_first(restart.straight, "seen.schedule_steps");
  if (!rates.is_rate() || !own || !others || *own == *others) return {};
  std::vector<std::string> evidence{
      rates.shown(step), restart.resumed.run->run + ", step " + std::to_string(*restart.first) +
                             ", the first after loading: the schedule has taken " + to_decimal(*own) +
                             " steps, the schedule of " + restart.straight.run->run + " " + to_decimal(*others)};
  if (*own == 0) return {{"ckpt.schedule_missing", evidence}};
  if (own == at_first(restart.straight, trace::entry::kEpoch)) evidence.push_back("that is the number of the epoch");
  return {{"ckpt.schedule_position", evidence}};
}

/// Whether all ranks of the resumed run take in one step what the straight run takes in another one.
bool takes_that_of(const Restart& restart, std::int64_t step, std::int64_t others) {
  bool any = false;
  for (std::size_t rank = 0; rank < restart.resumed.run->ranks.size(); ++rank) {
    for (const char* name : {"ids", "items"}) {
      const trace::Record* own = restart.resumed.run->ranks[rank].find(step, Channel::kSamples, name);
      if (own == nullptr) continue;
      if (!trace::same_bits(own, restart.straight.run->ranks[rank].find(others, Channel::kSamples, name))) return false;
      any = true;
    }
  }
  return any;
}

}  // namespace

std::vector<Suspect> suspects_in_later_epoch(const Restart& restart, std::int64_t step) {
  if (!restart.straight || !restart.first || restart.changes_world()) return {};
  const std::vector<Epoch> epochs = epochs_of(*restart.straight.run, *restart.straight.promises);
  const Epoch *saved_in = epoch_at(epochs, *restart.first), *later = epoch_at(epochs, step);
  if (saved_in == nullptr || later == nullptr || later->first_step != step) return {};
  const std::int64_t offset = *restart.first - saved_in->first_step;
  if (offset <= 0 || !takes_that_of(restart, step, step + offset)) return {};
  return {{"data.resume_offset_repeated",
           {restart.resumed.run->run + ", step " + std::to_string(step) + ": epoch " + std::to_string(later->number) +
                " begins with the samples that " + restart.straight.run->run + " takes at step " +
                std::to_string(step + offset),
            "the checkpoint was saved after " + std::to_string(offset) + " updates of epoch " +
                std::to_string(saved_in->number) + ": as many are left out again"}}};
}

std::vector<Suspect> suspects_in_position(const Restart& restart) {
  if (!restart.straight || !restart.first || restart.straight.run->ranks.empty()) return {};
  return Position(restart).suspects();
}

std::vector<Suspect> suspects_in_counters(const Restart& restart, std::int64_t step) {
  if (!restart.straight || !restart.first || restart.straight.run->ranks.empty()) return {};
  const trace::Step* found = restart.resumed.run->ranks[0].find(step);
  if (found == nullptr) return {};
  for (const trace::Record& record : found->records) {
    const bool counts = record.name.starts_with(trace::entry::kLearningRate) ||
                        record.name == trace::entry::kSamplesTaken || record.name == trace::entry::kLossScale ||
                        record.name == trace::entry::kSkipped || record.name == trace::entry::kUpdates;
    if (record.channel != Channel::kLedger || !counts) continue;
    // What one rank takes depends on how many they are.
    if (record.name == trace::entry::kSamplesTaken && restart.changes_world()) continue;
    const Series series(restart, record.name);
    if (!series.differs_at(step)) continue;
    if (auto suspects = suspects_in_schedule(restart, series, step); !suspects.empty()) return suspects;
    if (auto suspects = suspects_in_series(restart, series, step); !suspects.empty()) return suspects;
  }
  return {};
}

std::vector<Suspect> suspects_in_first_average(const Restart& restart) {
  if (!restart.straight || !restart.first) return {};
  const std::int64_t step = *restart.first;
  const laws::Held now(*restart.resumed.run, 0, step), before(*restart.resumed.run, 0, restart.begin),
      straight(*restart.straight.run, 0, step);
  std::size_t anew = 0;
  for (const trace::Record* average : now.all(Channel::kEma)) {
    const trace::Record *weight = now.find(Channel::kWeight, average->name),
                        *loaded = before.find(Channel::kWeight, average->name),
                        *right = straight.find(Channel::kEma, average->name);
    for (const trace::Record* record : {weight, loaded, right, average}) {
      if (record == nullptr || !record->sketch) return {};
    }
    // What is made of these two weights lies between them.
    const auto lies_between = [&](const trace::Record& record) {
      if (trace::same_bits(&record, weight)) return true;
      const auto part = trace::scale_between(trace::difference(*loaded->sketch, *weight->sketch),
                                             trace::difference(*record.sketch, *weight->sketch));
      return part && part->residual < laws::kFactorFits && part->factor > 0 && part->factor < 1 + laws::kFactorFits;
    };
    if (!lies_between(*average) || lies_between(*right)) return {};
    ++anew;
  }
  if (anew == 0) return {};
  return {{"ema.rebuilt",
           {restart.resumed.run->run + ", step " + std::to_string(step) +
            ", the first after loading: " + std::to_string(anew) + (anew == 1 ? " average is" : " averages are") +
            " made of the loaded weights and of those after the update alone; in " + restart.straight.run->run +
            " they hold more"}}};
}

std::vector<Suspect> suspects_in_first_reduction(const Restart& restart) {
  if (!restart.straight || !restart.first || restart.changes_world()) return {};
  const std::int64_t step = *restart.first;
  std::size_t locals = 0, differ = 0, of = 0;
  for (std::size_t rank = 0; rank < restart.resumed.run->ranks.size(); ++rank) {
    const trace::Step* found = restart.resumed.run->ranks[rank].find(step);
    if (found == nullptr) return {};
    for (const trace::Record& record : found->records) {
      const bool local = record.channel == Channel::kGradientLocal, reduced = record.channel == Channel::kGradient;
      if (!local && !reduced) continue;
      const bool same = trace::same_bits(&record, restart.held(rank, step, record.channel, record.name));
      if (local && !same) return {};
      locals += local ? 1 : 0;
      of += reduced ? 1 : 0;
      differ += reduced && !same ? 1 : 0;
    }
  }
  if (locals == 0 || differ == 0) return {};
  for (const Side& side : {restart.straight, restart.resumed}) {
    const laws::ReductionLaw law(*side.run, *side.promises);
    for (std::int64_t rank = 0; rank < side.run->world_size(); ++rank) {
      const laws::Reduction reduction = law.judge(step, rank);
      if (reduction.judged.empty() || !reduction.broken.empty()) return {};
    }
  }
  return {{"ckpt.bucket_layout",
           {restart.resumed.run->run + ", step " + std::to_string(step) +
                ", the first after loading: the ranks' own gradients are "
                "equal bit by bit, " +
                std::to_string(differ) + " of " + std::to_string(of) + " reduced ones are not",
            "both are their mean, up to rounding: another order of additions"}}};
}

std::vector<Suspect> suspects_in_length(const Restart& restart) {
  if (!restart.straight || restart.straight.run->ranks.empty() || restart.resumed.run->ranks[0].steps.empty())
    return {};
  const auto& straight = restart.straight.run->ranks[0].steps;
  const std::int64_t end = restart.resumed.run->ranks[0].steps.back().step;
  if (straight.empty() || end >= straight.back().step) return {};
  const auto at_save = value_of(*restart.straight.run, restart.saved, trace::entry::kEpoch),
             behind = value_of(*restart.straight.run, restart.saved + 1, trace::entry::kEpoch);
  if (!at_save || !behind || *at_save == *behind) return {};
  return {{"data.resume_empty_epoch",
           {restart.resumed.run->run + " ends with step " + std::to_string(end) + ", " + restart.straight.run->run +
                " with step " + std::to_string(straight.back().step),
            "the checkpoint is of step " + std::to_string(restart.saved) + ", the last of epoch " +
                to_decimal(*at_save) + ": the epoch after it had no batch"}}};
}

}  // namespace lockstep::diagnosis
