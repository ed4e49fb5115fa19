#include <algorithm>
#include <set>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/diagnosis/same_numbers.h"
#include "harness/laws/held.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using trace::Channel;
using trace::kInitialStep;
using trace::Record;

/// Digests of the files that a run read.
std::set<std::string> files_read(const trace::RunTrace& run) {
  std::set<std::string> files;
  const Json loaded = seen_of(run, "loaded");
  for (const Json& entry : loaded.is_array() ? loaded : Json::array()) {
    const Json digest = entry.is_object() ? entry.value("sha256", Json()) : Json();
    if (digest.is_string()) files.insert(digest.get<std::string>());
  }
  return files;
}

/// The files that a run read, by name.
std::string names_read(const trace::RunTrace& run) {
  const Json loaded = seen_of(run, "loaded");
  std::set<std::string> names;
  for (const Json& entry : loaded.is_array() ? loaded : Json::array()) {
    if (entry.is_object()) names.insert(entry.value("file", std::string("a checkpoint")));
  }
  return join({names.begin(), names.end()}, ", ");
}

bool read_the_same(const Scene& scene) {
  const std::set<std::string> left = files_read(*scene.left.run), right = files_read(*scene.right.run);
  return std::any_of(left.begin(), left.end(), [&](const std::string& file) { return right.contains(file); });
}

std::string at_start(const Side& side) { return side.run->run + ", before the first update: "; }

/// The weights of rank 0 are not those of the other ranks, which agree. DDP has made all alike, and somebody loaded
/// after it did.
std::vector<Suspect> only_rank_0_loaded(const Side& side) {
  const trace::RunTrace& run = *side.run;
  const Json ddp = seen_of(run, "ddp");
  if (run.world_size() < 2 || files_read(run).empty() || !ddp.is_object() || ddp.value("wrap", Json()) != true)
    return {};
  const Held first(run, 0, kInitialStep), second(run, 1, kInitialStep);
  std::size_t apart = 0;
  std::string name;
  for (const Record* weight : first.all(Channel::kWeight)) {
    const Record* other = second.find(Channel::kWeight, weight->name);
    if (other == nullptr || trace::same_bits(weight, other)) return {};  // others loaded a part, too
    if (apart++ == 0) name = weight->name;
  }
  for (std::size_t rank = 2; rank < run.ranks.size(); ++rank) {
    if (!laws::same(Held(run, rank, kInitialStep), second, Channel::kWeight)) return {};
  }
  if (apart == 0) return {};
  return {{"ckpt.load_rank0_only",
           {at_start(side) + std::to_string(apart) + " weights of rank 0 (" + name + (apart > 1 ? ", …" : "") +
                ") differ from the other ranks', which agree among themselves",
            "DDP gives all ranks the weights of rank 0, and the run read a checkpoint"}}};
}

/// Optimizer state that the other side got from the same file.
std::vector<Suspect> state_not_applied(const Side& side, const Side& other) {
  const Held its(*side.run, side.rank, kInitialStep), others(*other.run, other.rank, kInitialStep);
  const auto is_empty = [](const Record* record) { return record == nullptr || (record->norm && *record->norm == 0); };
  std::size_t lost = 0, all = 0;
  for (const Record* record : others.all(Channel::kOptimizer)) {
    if (is_empty(record) || trace::count_of(record->shape) < 2) continue;  // a counter may count the making of a state
    ++all;
    lost += is_empty(its.find(Channel::kOptimizer, record->name)) ? 1 : 0;
  }
  if (all == 0 || lost != all) return {};
  return {{"ckpt.opt_not_applied",
           {at_start(side) + "all " + std::to_string(all) + " tensors of the optimizer's state are absent or zero",
            other.run->run + " read the same checkpoint, and holds them"}}};
}

/// Weights of which every one that differs holds the other side's numbers in other places.
std::vector<Suspect> put_elsewhere(const Scene& scene) {
  const Held theirs(*scene.left.run, scene.left.rank, kInitialStep),
      its(*scene.right.run, scene.right.rank, kInitialStep);
  std::vector<std::string> names;
  for (const Record* weight : its.all(Channel::kWeight)) {
    const Record* other = theirs.find(Channel::kWeight, weight->name);
    if (other == nullptr || trace::same_bits(weight, other)) continue;
    if (!same_numbers(*weight, *other)) return {};
    names.push_back(weight->name);
  }
  if (names.empty()) return {};
  return {{"ckpt.other_tensor",
           {at_start(scene.right) + std::to_string(names.size()) + " weights (" + some_of(names, 3) +
                ") hold the numbers that they have in " + scene.left.run->run + ", in other places",
            "both read the same checkpoint"}}};
}

/// The schedule counts from 0 on one side, and goes on on the other.
std::vector<Suspect> schedule_not_restored(const Side& side, const Side& other) {
  const auto its = told_in(side, 0, "seen.schedule_steps"), others = told_in(other, 0, "seen.schedule_steps");
  if (its != 0 || !others || *others <= 0) return {};
  return {{"ckpt.schedule_missing",
           {place_of(*side.run, 0) + ": the schedule has taken no step yet",
            other.run->run + " read the same checkpoint, and its schedule had taken " + to_decimal(*others)}}};
}

/// The right side's first, if both have it.
template <typename SuspectsOf>
std::vector<Suspect> of_either(const Scene& scene, SuspectsOf suspects_of) {
  auto found = suspects_of(scene.right, scene.left);
  return found.empty() ? suspects_of(scene.left, scene.right) : found;
}

bool rates_part(const Scene& scene) {
  const auto left = told_in(scene.left, scene.at.step, "learning_rate"),
             right = told_in(scene.right, scene.at.step, "learning_rate");
  return left && right && *left != *right;
}

}  // namespace

std::vector<Suspect> suspects_in_left_overs(const Scene& scene) {
  const bool begins = scene.at.step == kInitialStep && scene.question.that != scenario::CheckKind::kResumes;
  if (!begins || !is_between_programs(scene) || scene.within_one_run()) return {};
  const trace::RunTrace &left = *scene.left.run, &right = *scene.right.run;
  if (files_read(left).empty() == files_read(right).empty()) return {};
  const trace::RunTrace &reader = files_read(left).empty() ? right : left, &other = &reader == &left ? right : left;
  return {
      {"ckpt.left_over",
       {"before its first update " + reader.run + " read " + names_read(reader) + "; " + other.run + " read none"}}};
}

std::vector<Suspect> suspects_in_loaded_programs(const Scene& scene) {
  const bool at_beginning = scene.at.step == kInitialStep, of_weights = scene.at.channel == Channel::kWeight;
  if (scene.left && scene.within_one_run())
    return at_beginning && of_weights ? only_rank_0_loaded(scene.left) : std::vector<Suspect>{};
  if (!is_between_programs(scene) || !read_the_same(scene)) return {};
  if (at_beginning && of_weights) {
    auto found = between(scene, only_rank_0_loaded);
    return found.empty() ? put_elsewhere(scene) : found;
  }
  if (at_beginning && scene.at.channel == Channel::kOptimizer) return of_either(scene, state_not_applied);
  return rates_part(scene) ? of_either(scene, schedule_not_restored) : std::vector<Suspect>{};
}

}  // namespace lockstep::diagnosis
