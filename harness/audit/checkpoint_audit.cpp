#include "harness/audit/checkpoint_audit.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/audit/identities.h"
#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/recipe/sampler_rule.h"

namespace lockstep::audit {
namespace {

using recipe::LoadWhen;
using recipe::LoadWho;
using recipe::TrainSpec;
using scenario::CheckKind;
using Parts = std::vector<std::string>;

/// Channels that hold what a training computes, and not how it came to it.
const std::vector<trace::Channel> kNumbers = {trace::Channel::kLoss, trace::Channel::kGradient,
                                              trace::Channel::kWeight};

bool has_state(const TrainSpec& train) { return train.keeps_optimizer_state(); }
bool averages(const TrainSpec& train) { return train.ema_decay.has_value(); }

/// From the generators that a checkpoint holds: masks, crops, or the order of the next epochs.
bool draws(const TrainSpec& train) {
  return train.drops() || train.augmentation() == recipe::Augmentation::kRank ||
         recipe::draws_from_shared_generator(train.sampler);
}

bool always(const TrainSpec&) { return true; }
bool never(const TrainSpec&) { return false; }

/// A part of a checkpoint.
struct Part {
  const char* name;
  bool (*surely_changes)(const TrainSpec&);  ///< whether a training without it must be another
  bool by_numbers;                           ///< whether it matters only where it changes `kNumbers`
  const char* without;                       ///< what happens without it
  const char* remedy;
};

constexpr std::array<Part, 8> kParts = {{
    {"weights", always, false, "the training begins with new weights", "save model.state_dict()"},
    {"optimizer", has_state, false, "the optimizer starts cold", "save optimizer.state_dict()"},
    {"ema", averages, false, "the average restarts", "save the averaged weights"},
    {"schedule", always, false, "the counter of updates and the schedule begin again",
     "save the schedule's state and the number of updates"},
    {"sampler", always, false, "the epoch restarts and repeats data", "save the epoch, and the position in it"},
    {"rng", draws, true, "dropout, augmentation, or the order of the next epochs draw other numbers",
     "save the generators of each rank"},
    {"buckets", never, true, "DDP adds up the first gradients in another order", "nothing, if rounding is acceptable"},
    {"buffers", never, false, "every rank has rank 0's running means",
     "save the buffers of each rank, or convert to SyncBatchNorm"},
}};

Parts all_parts(const TrainSpec& train) {
  Parts parts;
  for (const Part& part : kParts) {
    if (std::string("ema") != part.name || averages(train)) parts.emplace_back(part.name);
  }
  return parts;
}

Parts without(Parts parts, const std::string& name) {
  std::erase(parts, name);
  return parts;
}

bool holds(const Parts& parts, const std::string& name) {
  return std::find(parts.begin(), parts.end(), name) != parts.end();
}

/// A change of "checkpoint" that leaves nothing of the recipe's own.
Json only_checkpoint(const Json& wanted) {
  Json change = {
      {"save_after", nullptr}, {"save_every", nullptr}, {"prefix", nullptr}, {"follow", nullptr}, {"load", nullptr}};
  change.update(wanted);
  return {{"train", {{"checkpoint", change}}}};
}

/// A patch that leaves this alone of "load".
Json only_load(const Json& wanted) {
  Json load = {{"from", nullptr},   {"file", nullptr},     {"keys", nullptr},   {"pick", nullptr},
               {"number", nullptr}, {"of_rank", nullptr},  {"who", nullptr},    {"when", nullptr},
               {"epoch", nullptr},  {"schedule", nullptr}, {"restore", nullptr}};
  load.update(wanted);
  return only_checkpoint({{"load", load}});
}

/// Makes the statements of one recipe.
class Questions {
 public:
  Questions(Derivation& derivation, const Recipe& recipe, const Request& request, const scenario::Scenario& scenario)
      : derivation_(derivation),
        recipe_(recipe),
        scenario_(scenario),
        world_size_(request.ranks.front()),
        steps_(request.steps),
        saved_after_(request.steps / 2),
        straight_(recipe.as_written(world_size_)) {
    straight_["train"]["faults"] = nullptr;
    saver_ = derivation_.variant(saving(straight_, saved_after_), refusal_).value_or("");
  }

  void ask(const Range& range) {
    if (saver_.empty()) return refused();
    recipe_checks();
    three_ways();
    parts();
    who_and_when();
    for (const std::int64_t world_size : range.ranks) {
      if (world_size != world_size_) elsewhere(world_size, range);
    }
  }

 private:
  void refused() {
    derivation_.state({.id = "saving",
                       .section = Section::kResumption,
                       .text = "saving a checkpoint changes nothing",
                       .claim = Claim::kImpossible,
                       .because = refusal_});
  }

  void recipe_checks() {
    const auto hold = [&](const char* id, const char* text, const Json& patch, CheckKind that) {
      derivation_.hold({.id = id, .section = Section::kRecipe, .text = text}, patch, that);
    };
    const Json resumed = loading(all_parts(recipe_.train()));
    hold("laws-saving", "the laws of one run hold in the training that saves", saving(straight_, saved_after_),
         CheckKind::kLaws);
    hold("ledger-resumed", "rates and counters continue as the recipe says", resumed, CheckKind::kLedger);
    hold("laws-resumed", "the laws of one run hold in the resumed training", resumed, CheckKind::kLaws);
  }

  void three_ways() {
    const TrainSpec& train = recipe_.train();
    derivation_.compare(
        {.id = "saving", .section = Section::kResumption, .text = "saving a checkpoint changes nothing"}, straight_,
        saving(straight_, saved_after_));
    if (train.checkpoint.load && !train.checkpoint.load->from.empty()) as_written(*train.checkpoint.load);
    Statement whole{.id = "everything",
                    .section = Section::kResumption,
                    .text = "with everything restored, the resumed training equals the uninterrupted one"};
    if (train.ddp.wrap || world_size_ == 1) {
      same_bits(std::move(whole), straight_, loading(all_parts(train)));
    } else {
      whole.because = "without DistributedDataParallel each rank has its own weights, and only rank 0's are saved";
      whole.instead = "wrap the model";
      whole.if_differs = Answer::kNoIdentity;
      told(std::move(whole), loading(all_parts(train)), Answer::kIdentical);
    }
    told({.id = "weights-only",
          .section = Section::kResumption,
          .text = "with the weights alone",
          .if_differs = Answer::kNeeded,
          .because = "it loses " + join(without(all_parts(train), "weights"), ", "),
          .instead = "restore what the next lines call needed"},
         loading({"weights"}), Answer::kNotSeen);
  }

  void parts() {
    const TrainSpec& train = recipe_.train();
    for (const Part& part : kParts) {
      if (!holds(all_parts(train), part.name)) continue;
      told({.id = std::string("without-") + part.name,
            .section = Section::kParts,
            .text = std::string("all but ") + part.name,
            .if_differs = Answer::kNeeded,
            .because = part.without,
            .instead = part.remedy},
           loading(without(all_parts(train), part.name)),
           part.surely_changes(train) ? Answer::kNotSeen : Answer::kIdentical, part.by_numbers);
    }
    for (const auto& [epoch, why] :
         {std::pair("next", "the rest of the saved epoch is skipped: correct only at its end"),
          std::pair("again", "the saved epoch is repeated from its beginning")})
      told({.id = std::string("epoch-") + epoch,
            .section = Section::kParts,
            .text = "everything, at " +
                    std::string(epoch == std::string("next") ? "the next epoch" : "the saved epoch's beginning"),
            .if_differs = Answer::kSlip,
            .because = why,
            .instead = "restore the position in the epoch, or save at its end"},
           loading(all_parts(train), {{"epoch", epoch}}), Answer::kNotSeen);
  }

  /// Who loads, and when, against all ranks that load before the model is wrapped.
  void who_and_when() {
    if (world_size_ == 1) return;
    std::vector<Parts> restored = {{"weights"}};
    if (has_state(recipe_.train())) restored.push_back({"weights", "optimizer"});
    for (const Parts& parts : restored) {
      for (const LoadWho who : {LoadWho::kAll, LoadWho::kRank0Sends, LoadWho::kRank0}) {
        for (const LoadWhen when : {LoadWhen::kBeforeWrap, LoadWhen::kAfterWrap}) cell(parts, who, when);
      }
    }
  }

  void elsewhere(std::int64_t world_size, const Range& range) {
    Statement statement{.id = "everything@" + std::to_string(world_size),
                        .section = Section::kElsewhere,
                        .text = "saved on " + std::to_string(world_size_) + " ranks, resumed on " +
                                std::to_string(world_size) + ", which divide the same batch"};
    if (range.steps < 2) {
      statement.claim = Claim::kImpossible;
      statement.because = "an epoch of this batch has one update: there is no place to stop in it";
      return derivation_.state(std::move(statement));
    }
    const auto at = [&](std::int64_t ranks) {
      Json patch =
          *recipe_.patch({.world_size = ranks, .rank_batch = range.batch / ranks, .plain = {}, .steps = range.steps});
      patch["train"]["faults"] = nullptr;
      return patch;
    };
    const std::int64_t after = range.steps / 2;
    std::string refusal;
    const auto saver = derivation_.variant(saving(at(world_size_), after), refusal);
    Parts parts = all_parts(recipe_.train());
    for (const char* of_each_rank : {"rng", "buckets", "buffers"}) parts = without(parts, of_each_rank);
    const Json resumed =
        with_mistakes(merged(at(world_size), only_load({{"from", saver.value_or(saver_)}, {"restore", parts}})));
    const std::vector<Obstacle> obstacles = recipe_.obstacles_of_ranks();
    statement.because = reasons(obstacles);
    statement.instead = remedies(obstacles);
    statement.if_differs = obstacles.empty() ? Answer::kBroken : Answer::kNoIdentity;
    statement.claim = obstacles.empty() ? Claim::kLaw : Claim::kTold;
    statement.if_holds = Answer::kRounding;
    derivation_.resume(std::move(statement), at(world_size_), resumed);
  }

  static Json merged(Json patch, const Json& change) {
    merge_json(patch, change);
    return patch;
  }

  static Json saving(const Json& straight, std::int64_t after, const std::string& prefix = "") {
    return merged(straight, only_checkpoint({{"save_after", after}, {"prefix", prefix}}));
  }

  /// Goes on from the saved checkpoint to the same last update.
  Json loading(const Parts& restore, const Json& how = Json::object()) const {
    Json load = {{"from", saver_}, {"restore", restore}};
    load.update(how);
    return merged(with_mistakes(merged(straight_, only_load(load))), steps_from(restore, saved_after_));
  }

  /// With the mistakes that are planted in the recipe: the restart's, which the other trainings leave out.
  static Json with_mistakes(Json resumed) {
    resumed["train"].erase("faults");
    return resumed;
  }

  /// Where the counter begins again, fewer updates are left.
  Json steps_from(const Parts& restore, std::int64_t after) const {
    const std::int64_t left = steps_ - saved_after_;
    return updates(holds(restore, "schedule") ? after + left : left);
  }

  Json updates(std::int64_t steps) const {
    Json change = {{"steps", steps}};
    if (const auto& evaluation = recipe_.train().evaluation)
      change["evaluation"] = {{"every", std::min(evaluation->every, steps)}};
    return {{"train", change}};
  }

  /// The recipe's own way to go on, from a checkpoint of this audit under the names that its source gives.
  void as_written(const recipe::LoadSpec& load) {
    std::string refusal;
    const scenario::Variant& source = scenario_.variant(load.from);
    const std::int64_t own_after = scenario::newest_saved(load, source);
    const bool is_near = own_after > 0 && own_after <= kMostUpdates;
    const std::int64_t after = is_near ? own_after : saved_after_;
    const Json straight = merged(straight_, steps_from({"schedule"}, after));
    const Json saves = saving(straight, after, source.train.checkpoint.prefix);
    const std::string saver = derivation_.variant(saves, refusal).value_or(saver_);
    const Json own = {{"from", saver}, {"pick", nullptr}, {"number", nullptr}, {"of_rank", nullptr}};
    Json resumed = straight;
    resumed["train"]["checkpoint"] = {
        {"save_after", nullptr}, {"save_every", nullptr}, {"prefix", nullptr}, {"follow", nullptr}, {"load", own}};
    same_bits({.id = "as-written",
               .section = Section::kResumption,
               .text = "as the recipe restores it, after update " + std::to_string(after) +
                       ", the resumed training equals the uninterrupted one"},
              straight, merged(with_mistakes(resumed), steps_from(load.restore, after)));
  }

  void same_bits(Statement statement, const Json& straight, const Json& resumed) {
    statement.claim = Claim::kLaw;
    statement.if_holds = Answer::kIdentical;
    derivation_.resume(std::move(statement), straight, resumed);
  }

  void told(Statement statement, const Json& resumed, Answer if_holds, bool by_numbers = false) {
    statement.claim = Claim::kTold;
    statement.if_holds = if_holds;
    std::vector<trace::Channel> channels = by_numbers ? kNumbers : std::vector<trace::Channel>();
    std::erase_if(channels, [&](trace::Channel one) { return !recipe_.train().record.holds(one); });
    derivation_.resume(std::move(statement), straight_, resumed, std::move(channels));
  }

  void cell(const Parts& parts, LoadWho who, LoadWhen when) {
    if (who == LoadWho::kAll && when == LoadWhen::kBeforeWrap) return;  // the baseline
    const bool sends = recipe_.train().ddp.wrap && when == LoadWhen::kBeforeWrap;
    Statement statement{.id = text_of(who) + "." + text_of(when) + "." + join(parts, "+"),
                        .section = Section::kLoading,
                        .text = (who == LoadWho::kAll     ? "all ranks load "
                                 : who == LoadWho::kRank0 ? "rank 0 alone loads "
                                                          : "rank 0 loads and sends ") +
                                join(parts, " and ") + (when == LoadWhen::kBeforeWrap ? " before" : " after") +
                                " the model is wrapped, against all ranks before"};
    if (who == LoadWho::kRank0 && !(sends && parts.size() == 1)) {
      statement.claim = Claim::kDiffers;
      statement.if_differs = Answer::kSlip;
      statement.because =
          !sends ? "the other ranks never get rank 0's weights: DDP broadcasts weights only when it wraps a model"
                 : "DDP broadcasts weights and buffers, but no optimizer state: the others start cold";
      statement.instead = "load on all ranks";
    }
    const auto side = [&](LoadWho one, LoadWhen at) {
      return loading(parts, {{"who", name_of(one)}, {"when", name_of(at)}});
    };
    std::vector<trace::Channel> channels;
    if (statement.claim == Claim::kDiffers) channels = {trace::Channel::kWeight};  // a state that a rank lacks is told
    derivation_.compare(std::move(statement), side(LoadWho::kAll, LoadWhen::kBeforeWrap), side(who, when), channels);
  }

  /// Until the update that the recipe saves after: more would take too long for a first look.
  static constexpr std::int64_t kMostUpdates = 64;

  Derivation& derivation_;
  const Recipe& recipe_;
  const scenario::Scenario& scenario_;
  std::int64_t world_size_, steps_, saved_after_;
  Json straight_;
  std::string saver_, refusal_;
};

void require_two_updates(const Request& request) {
  if (request.steps >= 2) return;
  throw InputError({.what = "there is no update between the checkpoint and the end",
                    .where = "--steps",
                    .expected = "2 or more",
                    .actual = std::to_string(request.steps)});
}

void require_worker(const Recipe& recipe) {
  if (recipe.is_ours()) return;
  throw InputError({.what = "a program's checkpoints cannot be audited: lockstep cannot leave parts of them out",
                    .where = "variant '" + recipe.variant().name + "'",
                    .expected = "a recipe of lockstep's worker",
                    .actual = "a program",
                    .next = "compare a resumed training with an uninterrupted one: the check 'resumes'"});
}

}  // namespace

std::vector<std::int64_t> ranks_of_checkpoint(const scenario::Variant& recipe) {
  const std::int64_t own = recipe.world_size;
  return {own, own == 1 ? 2 : own / 2};
}

Checkpoint::Checkpoint(const scenario::Scenario& scenario, const Request& request) : Examination(scenario, request) {
  require_worker(*recipe_);
  require_two_updates(request_);
  Questions(derivation_, *recipe_, request_, original_)
      .ask(range_of(*recipe_, request_.ranks, request_.steps, request_.samples));
  derivation_.keep(request_.only, {}, {});
}

/// Names the parts that the recipe's own way leaves out, and needs.
void Checkpoint::add_after(Audit& audit, const Answers& /*answers*/) const {
  const auto own =
      std::find_if(audit.lines.begin(), audit.lines.end(), [](const Line& line) { return line.id == "as-written"; });
  if (own == audit.lines.end() || own->answer != Answer::kBroken) return;
  const recipe::LoadSpec& load = *recipe_->train().checkpoint.load;
  const std::vector<std::string> needed = audit.with(Answer::kNeeded);
  std::vector<std::string> missing;
  for (const Part& part : kParts) {
    if (holds(needed, std::string("without-") + part.name) && !load.restores(part.name))
      missing.emplace_back(part.name);
  }
  if (!missing.empty()) {
    own->instead = "restore these, too: " + join(missing, ", ");
  } else if (load.epoch != recipe::LoadEpoch::kSaved) {
    own->instead = "save at an epoch's end, or restore the position in the epoch";
  }
}

std::string Checkpoint::headline(const Audit& audit) const {
  constexpr std::size_t kMost = 3;  // ids that a person reads in one line
  const std::vector<std::string> broken = audit.with(Answer::kBroken), open = audit.with(Answer::kCannotTell);
  if (!broken.empty()) return "broken: " + some_of(broken, kMost);
  if (!open.empty()) return "no line is broken, but some are undecided: " + some_of(open, kMost);
  const auto parts_with = [&](Answer answer) {
    std::vector<std::string> parts;
    for (const Part& part : kParts) {
      if (holds(audit.with(answer), std::string("without-") + part.name)) parts.emplace_back(part.name);
    }
    return parts;
  };
  if (!audit.is_whole) return "these lines alone: " + std::string(name_of(audit.status()));
  const std::vector<std::string> later = parts_with(Answer::kNotSeen);
  return "a resumed training equals an uninterrupted one if it restores " + join(parts_with(Answer::kNeeded), ", ") +
         (later.empty() ? "" : ", and, beyond these updates, " + join(later, ", "));
}

}  // namespace lockstep::audit
