#include <cstdlib>

#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/first_updates_causes.h"
#include "harness/diagnosis/loaded_file_causes.h"
#include "harness/diagnosis/random_causes.h"
#include "harness/diagnosis/restart_causes.h"
#include "harness/diagnosis/samples_causes.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// Whether some weight after loading is another one than before the first update; true where none can be told.
bool loaded_weights(const Restart& restart) {
  bool any = false;
  const trace::Step* step = restart.resumed.run->ranks[0].find(restart.begin);
  for (const trace::Record& record : step->records) {
    const trace::Record* initial = restart.held(0, trace::kInitialStep, Channel::kWeight, record.name);
    if (record.channel != Channel::kWeight || initial == nullptr) continue;
    if (!same_bits(initial, &record)) return true;
    any = true;
  }
  return !any;
}

/// The counter of updates is not the checkpoint's.
std::vector<Suspect> suspects_in_beginning(const Restart& restart) {
  const std::string seen = restart.resumed.run->run + " continues after step " + std::to_string(restart.begin) +
                           ", the checkpoint is of step " + std::to_string(restart.saved);
  if (std::abs(restart.begin - restart.saved) == 1 && restart.begin >= 0)
    return {{"ckpt.off_by_one", {seen, restart.begin < restart.saved ? "an update is repeated" : "one is left out"}}};
  // A run that loaded nothing at all has lost more than its counters.
  if (restart.begin != trace::kInitialStep || !loaded_weights(restart)) return {};
  return {{"ckpt.schedule_missing", {seen, "weights were loaded, the counter of updates starts at 0"}}};
}

/// One run by itself: the first epoch after loading is a whole one, although it was begun before.
std::vector<Suspect> suspects_in_own_epoch(const Restart& restart) {
  const scenario::Promises& promises = *restart.resumed.promises;
  const auto promise = promise_for(*restart.resumed.run, promises);
  if (!promise || restart.changes_world() || restart.begin < 0) return {};
  const std::vector<Epoch> epochs = epochs_of(*restart.resumed.run, promises);
  const recipe::BatchSpec& batch = promises.train.batch;
  const std::int64_t micro = batch.micro_size(promises.world_size), whole = (promise->each[0] + micro - 1) / micro;
  const std::int64_t before = (restart.saved + 1) * batch.accumulation % whole;
  if (epochs.size() < 2 || promises.train.record.every != 1 || batch.updates_at_epoch_end || before == 0) return {};
  const auto taken = static_cast<std::int64_t>(epochs[0].ids[0].size());
  if (taken != promise->each[0]) return {};
  return {{"data.resume_restart",
           {restart.resumed.run->run + ", from step " + std::to_string(epochs[0].first_step) + " to " +
                std::to_string(epochs[0].last_step) + ": rank 0 takes " + std::to_string(taken) + " samples of epoch " +
                std::to_string(epochs[0].number) + ", all that it has",
            "the checkpoint was saved after " + std::to_string(before) + " of the " + std::to_string(whole) +
                " batches of an epoch"}}};
}

/// A generator of rank 0 that is after loading as it was before the first update; empty: there is none.
std::string fresh_generator(const Restart& restart) {
  for (const trace::Record& record : restart.resumed.run->ranks[0].find(restart.begin)->records) {
    if (record.channel != Channel::kRng) continue;
    const bool is_fresh = same_bits(restart.held(0, trace::kInitialStep, Channel::kRng, record.name), &record);
    if (is_fresh && !same_bits(restart.held(0, restart.saved, Channel::kRng, record.name), &record)) return record.name;
  }
  return "";
}

/// A generator that differs after the first update: it drew once more, or less, or was another one already.
std::vector<Suspect> suspects_in_draws(const Scene& scene, const Restart& restart) {
  const auto rank = static_cast<std::size_t>(scene.at.rank);
  const trace::Record *saved = restart.held(rank, restart.begin, Channel::kRng, scene.at.tensor),
                      *loaded = restart.loaded(rank, Channel::kRng, scene.at.tensor);
  const std::string place = restart.resumed.run->run + ", rank " + std::to_string(scene.at.rank) + ": ";
  if (same_bits(saved, loaded) || saved == nullptr || loaded == nullptr)
    return {{"ckpt.rng_order",
             {place + "the generator after loading is the one that was saved",
              "after step " + std::to_string(scene.at.step) +
                  ", the first one, it differs: there was one draw more, or less"}}};
  const bool counts = saved->integers.size() == 2 && loaded->integers.size() == 2;
  const std::int64_t more = counts ? (loaded->integers[1] - saved->integers[1] + kBlock) % kBlock : 0;
  if (counts && saved->integers[0] == loaded->integers[0] && more > 0 && more <= kFewNumbers)
    return {{"ckpt.rng_order",
             {place + "the first forward pass finds the generator " + std::to_string(more) +
              " numbers behind the place where it was saved"}}};
  const std::string other = place + "the first forward pass finds another generator than the one that was saved";
  const auto holds = checkpoint_holds(restart, *saved);
  if (holds == false) return {{"ckpt.rng_missing", {other, "the checkpoint does not hold that one"}}};
  return {{"ckpt.rng_order", {other}}, {"ckpt.rng_missing", {other}}};
}

std::vector<Suspect> suspects_in_first_step(const Scene& scene, const Restart& restart) {
  const Channel channel = scene.at.channel;
  if (channel == Channel::kSamples) return suspects_in_position(restart);
  if (channel == Channel::kInput) return suspects_in_data_generator(restart);
  if (channel == Channel::kEma) return suspects_in_first_average(restart);
  if (channel == Channel::kGradient) return suspects_in_first_reduction(restart);
  // Rates, scales and counters show in the ledger, behind what they change.
  if (channel == Channel::kGradientLocal) return suspects_in_counters(restart, scene.at.step);
  if (channel == Channel::kRng) {
    if (restart.changes_world() || !restart.straight) return {};
    if (const std::string name = fresh_generator(restart); !name.empty())
      return {{"ckpt.rng_missing",
               {restart.resumed.run->run + ", state after loading: generator " + name +
                " is as before the first update, never restored"}}};
    return suspects_in_draws(scene, restart);
  }
  const trace::ChannelInfo& traits = trace::info(channel);
  const bool of_update = traits.is_state() && traits.is_of_parameters();
  if (channel != Channel::kLedger && !of_update) return {};
  auto suspects = suspects_in_counters(restart, scene.at.step);
  return suspects.empty() && !of_update ? suspects_in_position(restart) : suspects;
}

}  // namespace

std::vector<Suspect> suspects_in_resumption(const Scene& scene) {
  const auto restart = restart_in(scene);
  if (!restart) return {};
  if (scene.at.left.run == "checkpoint") return suspects_in_beginning(*restart);
  if (scene.at.right.missing == compare::Missing::kStep) return suspects_in_length(*restart);
  if (scene.at.step == restart->begin && trace::info(scene.at.channel).is_carried())
    return suspects_in_loaded_state(*restart, scene.at.channel);
  if (!restart->straight && scene.at.channel == Channel::kLedger) return suspects_in_own_epoch(*restart);
  if (scene.at.step == restart->first) return suspects_in_first_step(scene, *restart);
  if (scene.at.channel == Channel::kSamples) return suspects_in_later_epoch(*restart, scene.at.step);
  const bool of_rates = scene.at.channel == Channel::kLedger || scene.at.channel == Channel::kWeight ||
                        scene.at.channel == Channel::kGradientLocal;
  return of_rates ? suspects_in_counters(*restart, scene.at.step) : std::vector<Suspect>{};
}

}  // namespace lockstep::diagnosis
