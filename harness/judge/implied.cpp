#include "harness/judge/implied.h"

#include <algorithm>
#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <string_view>
#include <utility>
#include <vector>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/recipe/sampler_rule.h"
#include "harness/trace/entry.h"

namespace lockstep::judge {
namespace {

using scenario::Variant;
using trace::Channel;
using trace::Record;
using trace::Step;
using trace::Trace;

using Names = std::set<std::string_view>;
using Strings = std::vector<std::string>;

/// Which names the steps of a training have in a channel.
enum class Constancy {
  kSame,   ///< all steps the same
  kGrows,  ///< once there, always there: a state begins with its first update
  kBegun,  ///< those that the state before the first update has, and others
  kSome,   ///< any, but all steps some, or none
  kFree,
};

/// Records of a channel that a recipe makes in every step; what the worker tells only of some is left out.
Names names_of(const Step& step, Channel channel) {
  Names names;
  for (const Record& record : step.records) {
    if (record.channel == channel && !record.name.starts_with("seen.")) names.insert(record.name);
  }
  return names;
}

/// The first name of `all` that `names` lacks.
std::optional<std::string_view> lacking(const Names& names, const Names& all) {
  for (const std::string_view name : all) {
    if (!names.contains(name)) return name;
  }
  return std::nullopt;
}

bool has_rows(const Record& record) {
  constexpr std::int64_t kMost = 4096;  // trace::rows_of
  return !record.shape.empty() && record.shape[0] > 0 && record.shape[0] <= kMost;
}

/// The part of a record that its recorder writes, and that is not there; null: all is. `is_ours`: of the worker, which
/// tells all numbers by their value, and sketches all but those of counters and metrics.
const char* lacking_part(const Record& record, bool is_ours) {
  const Channel channel = record.channel;
  const bool is_floating = trace::is_floating(record.dtype);
  const bool is_empty = std::find(record.shape.begin(), record.shape.end(), 0) != record.shape.end();
  const bool is_sampled =
      channel == Channel::kGradient || channel == Channel::kOptimizer || channel == Channel::kWeight;
  const bool is_counter = channel == Channel::kLedger || channel == Channel::kMetric;
  const bool is_number = is_counter || channel == Channel::kLoss;
  const bool is_plain = is_ours ? is_counter : record.number.has_value();
  if (is_floating && (!record.norm || !record.max_abs)) return "its norm";
  if (is_floating && !record.sketch && !is_plain) return "its sketch";
  if (is_floating && is_sampled && !is_empty && !is_plain && record.elements.empty()) return "its elements";
  if (is_ours && is_floating && is_number && !record.number) return "its value";
  if (is_ours && is_counter && !is_floating && !is_empty && record.integers.empty()) return "its value";
  if (is_ours && channel == Channel::kRng && record.name == "cpu" && record.integers.empty()) return "its integers";
  if (is_ours && channel == Channel::kInput && has_rows(record) && record.rows.empty()) return "its rows";
  if (channel == Channel::kSamples && !is_empty && record.integers.empty()) return "its integers";
  if (channel == Channel::kCollective && !is_empty && record.text.empty()) return "its text";
  return nullptr;
}

/// One recorded run, held against what its recipe makes its ranks record.
class Implied {
 public:
  Implied(const trace::RunTrace& run, const Variant& variant, const scenario::Scenario& scenario)
      : run_(run), variant_(variant), train_(variant.train), is_ours_(!variant.program), begin_(begin_of(scenario)) {}

  std::string judge() const {
    for (const Trace& rank : run_.ranks) {
      if (is_ours_ && !rank.header.contains("samples"))
        return rank.origin + " lacks the number of samples, which its recipe records";
      if (std::string why = judge_steps(rank); !why.empty()) return why;
      for (const Step& step : rank.steps) {
        if (std::string why = judge_records(rank, step); !why.empty()) return why;
        if (std::string why = judge_evaluation(rank, step); !why.empty()) return why;
      }
      for (const trace::ChannelInfo& row : trace::kChannels) {
        if (!train_.record.holds(row.channel)) continue;
        if (std::string why = judge_channel(rank, row); !why.empty()) return why;
      }
      if (std::string why = is_ours_ ? judge_parameters(rank) : ""; !why.empty()) return why;
      if (std::string why = is_ours_ ? judge_collectives(rank) : ""; !why.empty()) return why;
    }
    return "";
  }

 private:
  /// The first step of the trace, where the recipe tells it: the state before its first update.
  std::optional<std::int64_t> begin_of(const scenario::Scenario& scenario) const {
    const auto& load = train_.checkpoint.load;
    if (!is_ours_ || !load) return trace::kInitialStep;
    const bool is_newest = load->number || load->pick != recipe::LoadPick::kHighestName;
    if (!train_.faults.empty() || load->who != recipe::LoadWho::kAll || !load->of_rank.empty() || !is_newest)
      return std::nullopt;
    return scenario::updates_before(variant_, scenario) - 1;
  }

  /// Our worker and our recorder for Python number all updates. A program that records itself numbers as it likes.
  bool counts_updates(const Trace& rank) const { return is_ours_ || rank.header.value("recorder", "") == "python"; }

  bool is_due(std::int64_t step) const {
    return step < 0 || step % train_.record.every == 0 || (is_ours_ && step == train_.steps - 1);
  }

  /// Up to the last one that is there: a run that ended early is told of elsewhere.
  std::string judge_steps(const Trace& rank) const {
    if (rank.steps.empty() || !counts_updates(rank)) return "";
    // A training may go on from an older checkpoint than the newest, where that is lost; the checks judge that.
    const std::int64_t front = rank.steps.front().step;
    std::int64_t due = std::min(begin_.value_or(front), front);
    for (const Step& step : rank.steps) {
      while (!is_due(due)) ++due;
      if (step.step < due)
        return rank.origin + " holds step " + std::to_string(step.step) + ": its recipe records " + all_steps();
      if (step.step > due)
        return rank.origin + " lacks step " + std::to_string(due) + ": its recipe records " + all_steps();
      ++due;
    }
    return "";
  }

  std::string all_steps() const {
    const std::int64_t every = train_.record.every;
    return every == 1 ? "every update, and the state before the first"
                      : "one update of every " + std::to_string(every) + (is_ours_ ? ", the last one" : "") +
                            ", and the state before the first";
  }

  /// What the law `evaluation` judges is there after each evaluation.
  std::string judge_evaluation(const Trace& rank, const Step& step) const {
    const bool is_update = &step != &rank.steps.front();
    const bool is_due = is_ours_ && train_.evaluation && is_update && has_records(Channel::kMetric, step.step) &&
                        train_.record.holds(Channel::kMetric) && train_.record.holds(Channel::kLedger);
    for (const char* name : {"ids", "loss", "correct", "targets"}) {
      if (is_due && step.find(Channel::kLedger, std::string("seen.evaluated ") + name) == nullptr)
        return place(rank, step) + " lacks ledger seen.evaluated " + name + ", which its recipe makes";
    }
    return "";
  }

  std::string judge_records(const Trace& rank, const Step& step) const {
    for (const Record& record : step.records) {
      const std::string name = std::string(trace::name_of(record.channel)) + " " + record.name;
      if (!train_.record.holds(record.channel))
        return place(rank, step) + " holds " + name + ", a channel that its recipe does not record";
      if (const char* const part = lacking_part(record, is_ours_))
        return place(rank, step) + ": " + name + " lacks " + part + ", which every recorder writes";
    }
    return "";
  }

  Constancy constancy_of(Channel channel) const {
    const bool passes_vary = train_.batch.updates_at_epoch_end, may_skip = train_.ddp.find_unused_parameters;
    if (channel == Channel::kCollective) return Constancy::kSome;
    if (channel == Channel::kInput || channel == Channel::kLoss)
      return passes_vary ? Constancy::kSome : Constancy::kSame;
    if (channel == Channel::kOptimizer)
      return may_skip || train_.gradient.loss_scale ? Constancy::kGrows : Constancy::kSame;
    return may_skip && trace::info(channel).is_gradient() ? Constancy::kSome : Constancy::kSame;
  }

  /// A program may record what it likes beside its models, and those do not lose a part.
  Constancy constancy_of_program(Channel channel) const {
    switch (channel) {
      case Channel::kWeight:
      case Channel::kBuffer:
      case Channel::kRng:
        return Constancy::kBegun;
      case Channel::kLedger:
        return Constancy::kSome;
      default:
        return Constancy::kFree;
    }
  }

  /// Whether the recipe makes records of a channel in some step. Nothing is known of a program, and a planted mistake
  /// may leave a part of the training out.
  bool requires_some(Channel channel) const {
    if (!is_ours_ || !train_.faults.empty()) return false;
    switch (channel) {
      case Channel::kOptimizer:
        return train_.keeps_optimizer_state();
      case Channel::kBuffer:
        return train_.has_buffers();
      case Channel::kEma:
        return train_.ema_decay.has_value();
      case Channel::kMetric:
        return train_.evaluation.has_value();
      case Channel::kCollective:
        return variant_.world_size > 1 && train_.ddp.wrap;
      default:
        return true;
    }
  }

  /// Names that the worker gives to the records of a channel, whatever its model and optimizer are.
  Strings own_names(Channel channel) const {
    const auto of_each_pass = [this](const std::vector<std::string>& names) {
      Strings all;
      const bool is_one = train_.batch.accumulation == 1;
      for (std::int64_t k = 0; k < (train_.batch.updates_at_epoch_end ? 1 : train_.batch.accumulation); ++k) {
        for (const std::string& name : names) all.push_back(is_one ? name : name + "." + std::to_string(k));
      }
      return all;
    };
    if (channel == Channel::kSamples) return {"ids"};
    if (channel == Channel::kInput) return of_each_pass({"x", "y"});
    if (channel == Channel::kRng) return {"cpu"};
    if (channel == Channel::kMetric) return {"loss", "accuracy"};
    if (channel == Channel::kLoss) {
      std::vector<std::string> names = of_each_pass({"local"});
      names.emplace_back(trace::entry::kReduced);
      return names;
    }
    if (channel != Channel::kLedger) return {};
    std::vector<std::string> names = {trace::entry::kLearningRate, trace::entry::kLossDenominator,
                                      trace::entry::kSamplesTaken, trace::entry::kUpdates, trace::entry::kEpoch};
    if (train_.gradient.loss_scale) names.insert(names.end(), {trace::entry::kLossScale, trace::entry::kSkipped});
    return names;
  }

  bool has_records(Channel channel, std::int64_t step) const {
    return channel != Channel::kMetric || !train_.evaluation || (step + 1) % train_.evaluation->every == 0;
  }

  /// Whether the state before the first update has the names that later ones have.
  bool begins_with(const Trace& rank, const trace::ChannelInfo& row) const {
    if (!is_ours_) return row.channel == Channel::kWeight && has_model(rank);
    if (row.channel != Channel::kOptimizer && row.channel != Channel::kEma) return row.is_carried();
    const auto& load = train_.checkpoint.load;  // else those begin with the first update
    return load && load->who == recipe::LoadWho::kAll && load->restores(std::string(row.name));
  }

  static bool has_model(const Trace& rank) {
    const Json seen = rank.header.value("seen", Json());
    const Json model = seen.is_object() ? seen.value("model", Json()) : Json();
    return model.is_object() && !model.empty();
  }

  Names all_names(const Trace& rank, Channel channel) const {
    Names all;
    for (const Step& step : rank.steps) {
      if (step.step >= 0) all.merge(names_of(step, channel));
    }
    return all;
  }

  std::string judge_channel(const Trace& rank, const trace::ChannelInfo& row) const {
    const Names all = all_names(rank, row.channel);
    const bool is_due = std::any_of(rank.steps.begin(), rank.steps.end(), [&](const Step& step) {
      return &step != &rank.steps.front() && has_records(row.channel, step.step);
    });
    if (all.empty() && is_due && requires_some(row.channel))
      return rank.origin + " has no record of the channel " + std::string(row.name) + ", which its recipe makes";
    for (const std::string& name : is_due&& requires_some(row.channel) ? own_names(row.channel) : Strings()) {
      if (!all.contains(name))
        return rank.origin + " has no record " + std::string(row.name) + " " + name + ", which its recipe makes";
    }
    const Constancy constancy = is_ours_ ? constancy_of(row.channel) : constancy_of_program(row.channel);
    if (constancy == Constancy::kFree) return "";
    Names before;
    for (const Step& step : rank.steps) {
      const bool is_first = &step == &rank.steps.front();
      const Names names = names_of(step, row.channel);
      if (is_first ? !begins_with(rank, row) : !has_records(row.channel, step.step)) {
        if (is_first) before = names;
        continue;
      }
      const bool is_held = constancy == Constancy::kGrows || constancy == Constancy::kBegun;
      const Names& expected = is_held && !is_first ? before : all;
      const bool some_will_do = constancy == Constancy::kSome || (is_first && !is_ours_);
      const auto missing = some_will_do && !names.empty() ? std::nullopt : lacking(names, expected);
      if (missing)
        return place(rank, step) + " lacks " + std::string(row.name) + " " + std::string(*missing) +
               ", which other steps have";
      if (is_first || constancy == Constancy::kGrows) before = names;
    }
    return "";
  }

  /// Collectives are numbered from 0 on. Once DDP has laid out its buckets, all steps that do the same issue as many.
  std::string judge_collectives(const Trace& rank) const {
    // These two exchange something when an epoch begins.
    const bool meets_by_epoch = traits_of(train_.sampler.kind).dealing == recipe::Dealing::kBatches;
    std::map<std::pair<bool, bool>, std::size_t> as_many;
    for (const Step& step : rank.steps) {
      const Names names = names_of(step, Channel::kCollective);
      for (std::size_t i = 0; i < names.size(); ++i) {
        if (!names.contains(std::to_string(i)))
          return place(rank, step) + " lacks collective " + std::to_string(i) + ", and has later ones";
      }
      const bool may_vary =
          meets_by_epoch || train_.batch.updates_at_epoch_end || step.step < rank.steps.front().step + kSettled;
      if (may_vary || !train_.faults.empty()) continue;
      const auto kind =
          std::pair(has_records(Channel::kMetric, step.step), train_.checkpoint.saves_after(step.step + 1));
      const auto [known, is_new] = as_many.emplace(kind, names.size());
      if (known->second != names.size())
        return place(rank, step) + " has " + std::to_string(names.size()) + " collectives, and other steps " +
               std::to_string(known->second);
    }
    return "";
  }

  /// What is recorded of each parameter is there of all.
  std::string judge_parameters(const Trace& rank) const {
    if (train_.ddp.find_unused_parameters || rank.steps.empty() || !train_.faults.empty()) return "";
    const Step& last = rank.steps.back();
    const Names weights = names_of(last, Channel::kWeight), gradients = names_of(last, Channel::kGradient),
                own = names_of(last, Channel::kGradientLocal), averages = names_of(last, Channel::kEma),
                states = names_of(last, Channel::kOptimizer);
    const auto has = [](const Names& names, const std::string& name) { return names.empty() || names.contains(name); };
    std::set<std::string> kinds;  // of states
    for (const std::string_view state : states) kinds.emplace(state.substr(state.rfind('.') + 1));
    if (train_.optimizer.options.contains("groups") && !train_.optimizer.options["groups"].empty()) kinds.clear();
    for (const std::string_view weight : weights) {
      const std::string name(weight);
      std::string missing;
      if (!has(own, name)) missing = "gradient.local " + name;
      if (!has(gradients, name)) missing = "gradient " + name;
      if (train_.gradient.loss_scale && !has(gradients, "unscaled " + name)) missing = "gradient unscaled " + name;
      if ((train_.gradient.clip_norm || train_.gradient.clip_value) && !has(gradients, "clipped " + name))
        missing = "gradient clipped " + name;
      if (!has(averages, name)) missing = "ema " + name;
      for (const std::string& kind : kinds) {
        if (!has(states, name + "." + kind)) missing = "optimizer " + name + "." + kind;
      }
      if (!missing.empty()) return place(rank, last) + " lacks " + missing + ", which its recipe makes";
    }
    for (const std::string_view gradient : gradients) {
      const std::string name = laws::parameter_of(std::string(gradient));
      if (!has(weights, name)) return place(rank, last) + " lacks weight " + name + ", which has a gradient";
    }
    return "";
  }

  static std::string place(const Trace& rank, const Step& step) {
    return rank.origin + ", step " + std::to_string(step.step);
  }

  static constexpr std::int64_t kSettled = 4;  ///< steps after which buckets are laid out

  const trace::RunTrace& run_;
  const Variant& variant_;
  const recipe::TrainSpec& train_;
  bool is_ours_;
  std::optional<std::int64_t> begin_;  ///< nothing: with which update it begins is unknown
};

}  // namespace

std::string unlike_recipe(const trace::RunTrace& run, const Variant& variant, const scenario::Scenario& scenario) {
  return Implied(run, variant, scenario).judge();
}

}  // namespace lockstep::judge
