#include <algorithm>
#include <cmath>
#include <set>

#include "harness/base/text.h"
#include "harness/diagnosis/loaded_file_causes.h"
#include "harness/diagnosis/random_causes.h"
#include "harness/diagnosis/restart_causes.h"
#include "harness/diagnosis/same_numbers.h"
#include "harness/laws/scales.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;
using trace::Record;

/// One tensor of one rank's state.
struct Tensor {
  std::size_t rank = 0;
  std::string name;
  const Record* saved = nullptr;    ///< by the straight run
  const Record* loaded = nullptr;   ///< null: not there
  const Record* initial = nullptr;  ///< before the straight run's first update
  bool right() const { return trace::same_bits(saved, loaded); }
  bool fresh() const { return !right() && trace::same_bits(initial, loaded); }
  bool empty() const { return loaded == nullptr || (loaded->norm && *loaded->norm == 0); }
  bool was_empty() const { return saved->norm && *saved->norm == 0; }
};

/// The tensors of a channel that were saved, on all ranks.
std::vector<Tensor> tensors_of(const Restart& restart, Channel channel) {
  std::vector<Tensor> tensors;
  for (std::size_t rank = 0; rank < restart.resumed.run->ranks.size(); ++rank) {
    const trace::Step* saved = restart.held(rank, restart.saved);
    if (saved == nullptr || restart.resumed.run->ranks[rank].find(restart.begin) == nullptr) continue;
    for (const Record& record : saved->records) {
      if (record.channel != channel) continue;
      tensors.push_back({rank, record.name, &record, restart.loaded(rank, channel, record.name),
                         restart.held(rank, trace::kInitialStep, channel, record.name)});
    }
  }
  return tensors;
}

std::vector<Tensor> only(const std::vector<Tensor>& tensors, bool (*wanted)(const Tensor&)) {
  std::vector<Tensor> some;
  std::copy_if(tensors.begin(), tensors.end(), std::back_inserter(some), wanted);
  return some;
}

bool is_wrong(const Tensor& tensor) { return !tensor.right(); }
bool is_fresh(const Tensor& tensor) { return tensor.fresh(); }
bool is_lost(const Tensor& tensor) { return !tensor.was_empty() && tensor.empty(); }

/// Tensors that a verdict lists.
constexpr std::size_t kShownTensors = 3;

std::string names_of(const std::vector<Tensor>& tensors) {
  std::string names;
  for (std::size_t i = 0; i < std::min(tensors.size(), kShownTensors); ++i)
    names += (i > 0 ? ", " : "") + tensors[i].name + " of rank " + std::to_string(tensors[i].rank);
  return tensors.size() > kShownTensors ? names + " and " + std::to_string(tensors.size() - kShownTensors) + " more"
                                        : names;
}

std::string after_loading(const Restart& restart) {
  return restart.resumed.run->run + ", state after loading (step " + std::to_string(restart.begin) + "): ";
}

std::string counted(const std::vector<Tensor>& some, const std::vector<Tensor>& all, const char* what) {
  return std::to_string(some.size()) + " of " + std::to_string(all.size()) + " " + what + " (" + names_of(some) + ")";
}

/// A number format that state may have gone through.
struct Narrow {
  const char* name;
  int bits;  ///< of precision, the leading one among them

  double unit_roundoff() const { return std::ldexp(1.0, -bits); }
};

constexpr Narrow kNarrow[] = {{"bf16", 8}, {"fp16", 11}, {"float32", 24}};

/// Relative distance that rounding to a format leaves, in unit roundoffs.
constexpr double kLeastCast = 0.125, kMostCast = 2;

bool fits(double value, int bits) {
  int exponent = 0;
  const double scaled = std::ldexp(std::frexp(value, &exponent), bits);
  return std::isfinite(value) && scaled == std::floor(scaled);
}

/// Relative distance of all tensors together; nothing where sketches are missing.
std::optional<double> relative_distance(const std::vector<Tensor>& tensors) {
  double apart = 0, all = 0;
  for (const Tensor& tensor : tensors) {
    if (tensor.loaded == nullptr || !tensor.saved->sketch || !tensor.loaded->sketch) return std::nullopt;
    if (tensor.saved->shape != tensor.loaded->shape) return std::nullopt;
    const double distance = laws::estimated_distance(*tensor.saved->sketch, *tensor.loaded->sketch);
    apart += distance * distance;
    all += tensor.saved->sketch->norm * tensor.saved->sketch->norm;
  }
  return all > 0 && std::isfinite(apart) ? std::optional(std::sqrt(apart / all)) : std::nullopt;
}

/// State that went through a narrower format: another dtype, or all elements are rounded to it.
std::vector<Suspect> suspects_of_cast(const Restart& restart, const std::vector<Tensor>& wrong) {
  for (const Tensor& tensor : wrong) {
    if (tensor.loaded == nullptr || tensor.loaded->dtype == tensor.saved->dtype) continue;
    return {{"ckpt.dtype_cast",
             {after_loading(restart) + names_of({tensor}) + " is " + std::string(name_of(tensor.loaded->dtype)) + ", " +
              std::string(name_of(tensor.saved->dtype)) + " was saved"}}};
  }
  const auto distance = relative_distance(wrong);
  if (!distance) return {};
  for (const Narrow& format : kNarrow) {
    if (*distance < kLeastCast * format.unit_roundoff() || *distance > kMostCast * format.unit_roundoff()) continue;
    std::size_t were = 0;
    const bool all = std::all_of(wrong.begin(), wrong.end(), [&](const Tensor& tensor) {
      if (!tensor.saved->max_abs || !tensor.loaded->max_abs) return false;
      were += fits(*tensor.saved->max_abs, format.bits) ? 1 : 0;
      return fits(*tensor.loaded->max_abs, format.bits);
    });
    if (!all || were == wrong.size()) continue;
    return {
        {"ckpt.dtype_cast",
         {after_loading(restart) + names_of(wrong) + " are " + rounded(*distance, 3) +
              " of their norm apart from what was saved, as rounding to " + format.name + " leaves",
          "the largest element of each fits " + std::string(format.name) + " exactly; before saving, that was so in " +
              std::to_string(were) + " of " + std::to_string(wrong.size())}}};
  }
  return {};
}

/// Whether weights that change are as they were saved: the checkpoint is of the right step then.
bool has_weights_of(const Restart& restart, std::int64_t other_step) {
  const std::vector<Tensor> weights = tensors_of(restart, Channel::kWeight);
  return std::any_of(weights.begin(), weights.end(), [&](const Tensor& weight) {
    return weight.right() &&
           !trace::same_bits(restart.held(weight.rank, other_step, Channel::kWeight, weight.name), weight.loaded);
  });
}

/// State of the update before, or after, all of it.
std::vector<Suspect> suspects_of_other_step(const Restart& restart, Channel channel, const std::vector<Tensor>& wrong) {
  for (const std::int64_t step : {restart.saved - 1, restart.saved + 1}) {
    const bool all = std::all_of(wrong.begin(), wrong.end(), [&](const Tensor& tensor) {
      return trace::same_bits(restart.held(tensor.rank, step, channel, tensor.name), tensor.loaded);
    });
    if (!all || step < 0 || has_weights_of(restart, step)) continue;
    // Where the weights are right, no update is repeated.
    return {{channel == Channel::kWeight ? "ckpt.off_by_one" : "ckpt.mixed_updates",
             {after_loading(restart) + names_of(wrong) + " are those after step " + std::to_string(step) +
              ", the checkpoint is of step " + std::to_string(restart.saved)}}};
  }
  return {};
}

std::vector<Suspect> suspects_of_weights(const Restart& restart, const std::vector<Tensor>& all) {
  const std::vector<Tensor> fresh = only(all, is_fresh);
  if (fresh.empty()) return {};
  return {{"ckpt.keys_dropped",
           {after_loading(restart) + counted(fresh, all, "weights") + " are those before the first update; " +
            std::to_string(only(all, [](const Tensor& tensor) { return tensor.right(); }).size()) +
            " are as they were saved"}}};
}

/// Whether all state of the parameters is lost of which some is: what is restored in part is another mistake.
bool lack_parameters(const std::vector<Tensor>& lost, const std::vector<Tensor>& all) {
  std::set<std::pair<std::size_t, std::string>> parameters;
  for (const Tensor& tensor : lost) parameters.emplace(tensor.rank, laws::layer_of(tensor.name));
  return std::all_of(all.begin(), all.end(), [&](const Tensor& tensor) {
    return !tensor.right() || tensor.was_empty() || !parameters.contains({tensor.rank, laws::layer_of(tensor.name)});
  });
}

/// Whether a tensor's state was saved of another tensor: "exp_avg" of one for that of another.
const Tensor* saved_of_another(const Tensor& tensor, const std::vector<Tensor>& all) {
  const auto kind_of = [](const Tensor& one) { return one.name.substr(one.name.rfind('.') + 1); };
  const auto found = std::find_if(all.begin(), all.end(), [&](const Tensor& other) {
    return other.rank == tensor.rank && other.name != tensor.name && kind_of(other) == kind_of(tensor) &&
           trace::same_bits(other.saved, tensor.loaded);
  });
  return found == all.end() ? nullptr : &*found;
}

/// All that is wrong was saved, of another tensor.
std::vector<Suspect> suspects_of_order(const Restart& restart, const std::vector<Tensor>& all) {
  std::vector<Tensor> wrong = only(all, is_wrong);
  std::erase_if(wrong, [](const Tensor& tensor) { return tensor.empty() && tensor.was_empty(); });
  std::vector<std::string> evidence;
  std::size_t of_others = 0;
  for (const Tensor& tensor : wrong) {
    const Tensor* other = tensor.empty() ? nullptr : saved_of_another(tensor, all);
    const bool is_itself = tensor.loaded != nullptr && same_numbers(*tensor.saved, *tensor.loaded);
    if (other == nullptr && !is_itself) return {};
    of_others += other != nullptr ? 1 : 0;
    if (evidence.size() < kShownTensors)
      evidence.push_back(after_loading(restart) + names_of({tensor}) +
                         (other != nullptr ? " is " + other->name + " as it was saved"
                                           : " holds the numbers that were saved, in other places"));
  }
  if (wrong.size() < 2) return {};
  evidence.push_back(std::to_string(wrong.size()) + " tensors are wrong: " + std::to_string(of_others) +
                     " hold another one, and " + std::to_string(wrong.size() - of_others) +
                     " their own numbers in other places");
  return {{"ckpt.other_tensor", evidence}};
}

std::vector<Suspect> suspects_of_optimizer(const Restart& restart, const std::vector<Tensor>& all) {
  const std::vector<Tensor> lost = only(all, is_lost);
  if (lost.empty() || !lack_parameters(lost, all)) return {};
  std::vector<std::string> evidence{after_loading(restart) + counted(lost, all, "tensors of the optimizer") +
                                    " are absent or zero"};
  const trace::Step* source = restart.source == nullptr ? nullptr : restart.source->ranks[0].find(restart.saved);
  const auto holds = [](const trace::Step& step) {
    return std::any_of(step.records.begin(), step.records.end(), [](const Record& record) {
      return record.channel == Channel::kOptimizer && (!record.norm || *record.norm != 0);
    });
  };
  if (source != nullptr && !holds(*source)) {
    evidence.push_back(restart.source->run + " held none when it saved after step " + std::to_string(restart.saved));
    return {{"ckpt.opt_missing", evidence}};
  }
  evidence.push_back((source != nullptr ? restart.source->run : "the straight run") + " held it at step " +
                     std::to_string(restart.saved) + ", when the checkpoint was saved");
  return {{"ckpt.opt_not_applied", evidence}, {"ckpt.opt_missing", evidence}};
}

std::vector<Suspect> suspects_of_buffers(const Restart& restart, const std::vector<Tensor>& all) {
  const std::vector<Tensor> fresh = only(all, is_fresh);
  if (!fresh.empty())
    return {{"ckpt.buffers_missing",
             {after_loading(restart) + counted(fresh, all, "buffers") + " are those before the first update"}}};
  std::vector<Tensor> of_rank_0;
  for (const Tensor& tensor : all) {
    const Record* first = restart.held(0, restart.saved, Channel::kBuffer, tensor.name);
    if (!tensor.right() && tensor.rank > 0 && trace::same_bits(first, tensor.loaded)) of_rank_0.push_back(tensor);
  }
  if (of_rank_0.empty()) return {};
  return {{"ckpt.buffers_missing", {after_loading(restart) + counted(of_rank_0, all, "buffers") + " are rank 0's"}}};
}

/// Averages that are the loaded weights.
std::vector<Suspect> suspects_of_average(const Restart& restart, const std::vector<Tensor>& wrong) {
  const bool all = std::all_of(wrong.begin(), wrong.end(), [&](const Tensor& tensor) {
    return tensor.loaded != nullptr &&
           trace::same_bits(restart.loaded(tensor.rank, Channel::kWeight, tensor.name), tensor.loaded);
  });
  if (!all) return {};
  return {{"ema.rebuilt", {after_loading(restart) + "the averages " + names_of(wrong) + " are the loaded weights"}}};
}

/// Whether a generator stands a few numbers before the one where it was saved.
bool is_behind(const Tensor& tensor) {
  if (tensor.loaded == nullptr || tensor.loaded->integers.size() != 2 || tensor.saved->integers.size() != 2)
    return false;
  const std::int64_t more = (tensor.loaded->integers[1] - tensor.saved->integers[1] + kBlock) % kBlock;
  return more >= kBlock - kFewNumbers;
}

std::vector<Suspect> suspects_of_generators(const Restart& restart, const std::vector<Tensor>& all) {
  if (restart.changes_world()) return {};
  const std::vector<Tensor> wrong = only(all, is_wrong), fresh = only(all, is_fresh);
  const std::string seen = after_loading(restart) + counted(wrong, all, "generators") + " are not as they were saved";
  if (!fresh.empty())
    return {{"ckpt.rng_missing", {seen, names_of(fresh) + ": the state before the first update, never restored"}}};
  for (const Tensor& tensor : wrong) {
    const Record* first = restart.held(0, restart.saved, Channel::kRng, tensor.name);
    if (tensor.rank > 0 && trace::same_bits(first, tensor.loaded))
      return {{"ckpt.rng_missing", {seen, names_of({tensor}) + " is rank 0's: its own was not restored"}}};
  }
  for (const Tensor& tensor : wrong) {
    if (tensor.loaded == nullptr || tensor.loaded->integers.empty() || tensor.saved->integers.empty()) continue;
    const bool same_seed = tensor.loaded->integers[0] == tensor.saved->integers[0];
    if (same_seed && tensor.loaded->integers.back() == 0 && tensor.saved->integers.back() != 0)
      return {{"ckpt.rng_missing", {seen, names_of({tensor}) + " is as its seed makes it: nothing was drawn from it"}}};
    if (!same_seed)
      return {{"ckpt.rng_missing",
               {seen, names_of({tensor}) + " has the seed " + std::to_string(tensor.loaded->integers[0]) +
                          ", saved was " + std::to_string(tensor.saved->integers[0])}}};
  }
  if (auto other = suspects_of_other_step(restart, Channel::kRng, wrong); !other.empty()) return other;
  const std::string neither = "neither what was saved nor the state before the first update";
  if (std::any_of(wrong.begin(), wrong.end(), is_behind)) return {};  // no draw leads back
  return {{"ckpt.rng_order", {seen, neither + ": something drew after it was restored, or before it was saved"}},
          {"ckpt.rng_missing", {seen, neither}}};
}

std::vector<Suspect> suspects_in(const Restart& restart, Channel channel) {
  const std::vector<Tensor> all = tensors_of(restart, channel), wrong = only(all, is_wrong);
  if (wrong.empty()) return {};
  if (channel == Channel::kRng) return suspects_of_generators(restart, all);
  std::vector<Suspect> suspects = suspects_of_order(restart, all);
  if (suspects.empty()) suspects = suspects_of_cast(restart, wrong);
  if (suspects.empty() && channel == Channel::kEma) suspects = suspects_of_average(restart, wrong);
  if (suspects.empty() && channel == Channel::kWeight) suspects = suspects_of_weights(restart, all);
  if (suspects.empty() && channel == Channel::kOptimizer) suspects = suspects_of_optimizer(restart, all);
  if (suspects.empty() && channel == Channel::kBuffer) suspects = suspects_of_buffers(restart, all);
  if (suspects.empty()) suspects = suspects_of_other_step(restart, channel, wrong);
  return suspects;
}

/// Whether every tensor of a channel is right on rank 0, and on no other rank: as before the first update, or absent.
bool only_rank_0_has(const std::vector<Tensor>& all, bool (*lacks)(const Tensor&)) {
  std::set<std::size_t> ranks, lacking;
  for (const Tensor& tensor : all) {
    ranks.insert(tensor.rank);
    if (tensor.rank == 0 && !tensor.right()) return false;
    if (tensor.rank > 0 && !tensor.right() && !lacks(tensor)) return false;
    if (tensor.rank > 0 && lacks(tensor)) lacking.insert(tensor.rank);
  }
  return !lacking.empty() && lacking.size() + 1 == ranks.size();
}

std::vector<Suspect> suspects_of_rank_0(const Restart& restart) {
  const std::int64_t world = restart.resumed.run->world_size();
  if (world < 2) return {};
  const std::vector<Tensor> weights = tensors_of(restart, Channel::kWeight),
                            optimizer = tensors_of(restart, Channel::kOptimizer);
  const bool of_weights = only_rank_0_has(weights, is_fresh);
  if (!of_weights && !only_rank_0_has(optimizer, is_lost)) return {};
  const std::vector<Tensor>& all = of_weights ? weights : optimizer;
  const std::vector<Tensor> wrong = only(all, is_wrong);
  return {{"ckpt.load_rank0_only",
           {after_loading(restart) + "rank 0 holds what was saved after step " + std::to_string(restart.saved),
            counted(wrong, all, of_weights ? "weights" : "tensors of the optimizer") +
                (of_weights ? " are those before the first update" : " are absent or zero")}}};
}

/// Without anything to hold it against: all other ranks agree, and rank 0 holds other weights.
std::vector<Suspect> suspects_between_ranks(const Restart& restart) {
  const trace::RunTrace& run = *restart.resumed.run;
  const recipe::LoadSpec& load = *restart.resumed.promises->train.checkpoint.load;
  const trace::Step* first = run.ranks[0].find(restart.begin);
  if (restart.straight || restart.source != nullptr || first == nullptr || run.world_size() < 2) return {};
  if (!load.restores("weights")) return {};
  std::vector<std::string> names;
  for (const Record& record : first->records) {
    if (record.channel != Channel::kWeight) continue;
    const Record* other = restart.loaded(1, Channel::kWeight, record.name);
    if (other == nullptr || trace::same_bits(&record, other)) return {};  // a part was loaded by others, too
    for (std::size_t rank = 2; rank < run.ranks.size(); ++rank) {
      if (!trace::same_bits(restart.loaded(rank, Channel::kWeight, record.name), other)) return {};
    }
    names.push_back(record.name);
  }
  if (names.empty()) return {};
  return {{"ckpt.load_rank0_only",
           {after_loading(restart) + std::to_string(names.size()) + " weights of rank 0 (" + names[0] +
            ", …) differ from the other ranks', which agree among themselves"}}};
}

}  // namespace

std::vector<Suspect> suspects_in_loaded_state(const Restart& restart, Channel channel) {
  if (auto suspects = suspects_of_rank_0(restart); !suspects.empty()) return suspects;
  if (auto suspects = suspects_between_ranks(restart); !suspects.empty()) return suspects;
  if (auto suspects = suspects_in_loaded_file(restart, channel); !suspects.empty()) return suspects;
  std::vector<Suspect> suspects = suspects_in(restart, channel);
  if (suspects.empty()) return {};
  for (const Channel other : trace::channels_that([](const auto& row) { return row.is_carried(); })) {
    if (other == channel || (!restart.straight && !restart.asks(other))) continue;
    // A program's state was recorded at its first forward pass, when a loader had drawn already.
    if (other == Channel::kRng && restart.resumed.promises->known) continue;
    for (Suspect& suspect : suspects_in(restart, other)) {
      if (!accuses(suspects, suspect.cause)) suspects.push_back(std::move(suspect));
    }
  }
  return suspects;
}

}  // namespace lockstep::diagnosis
