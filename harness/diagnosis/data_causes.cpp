#include <algorithm>
#include <cmath>
#include <map>
#include <set>
#include <utility>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/diagnosis/samples_causes.h"
#include "harness/diagnosis/shards_causes.h"
#include "harness/laws/contents.h"
#include "harness/laws/held.h"
#include "harness/laws/promise.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using trace::Channel;

/// Entries of the ledger that count samples.
bool counts_samples(const std::string& entry) {
  for (const char* name : {trace::entry::kSamplesTaken, trace::entry::kEpoch, trace::entry::kUpdates, "targets",
                           trace::entry::kLossDenominator}) {
    if (entry == name) return true;
  }
  return false;
}

/// Whether both sides took the same samples in the step: then what was counted of them is no matter of the data.
bool same_samples(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return false;
  const Ids left = global_batch_of(*scene.left.run, scene.at.step);
  return !left.empty() && left == global_batch_of(*scene.right.run, scene.at.step);
}

/// Data of other sizes, on two sides or on the ranks of one, where a sampler that knows of ranks splits them.
std::vector<Suspect> suspects_in_size(const Scene& scene) {
  if (!is_between_programs(scene) || scene.left.run->world_size() != scene.right.run->world_size()) return {};
  const auto splits = [](const Side& side) {
    const Json sampler = seen_of(*side.run, "sampler");
    return sampler.is_object() && sampler.value("class", "") == "DistributedSampler";
  };
  if (!splits(scene.left) || !splits(scene.right)) return {};
  const std::int64_t size = laws::samples_in(scene.left.run->ranks[0]);
  for (const Side* side : {&scene.right, &scene.left}) {
    for (const trace::Trace& rank : side->run->ranks) {
      const std::int64_t its = laws::samples_in(rank);
      if (size <= 0 || its <= 0 || its == size) continue;
      return {{"data.content",
               {"the data of " + side->run->run + " have " + std::to_string(its) + " samples on rank " +
                std::to_string(rank.rank) + ", the data of " + scene.left.run->run + " " + std::to_string(size) +
                " on rank 0"}}};
    }
  }
  return {};
}

/// Samplers of one class that were built otherwise.
std::vector<Suspect> suspects_in_sampler(const Scene& scene) {
  if (!is_between_programs(scene) || scene.left.run->world_size() != scene.right.run->world_size()) return {};
  const Json left = seen_of(*scene.left.run, "sampler");
  Json right = seen_of(*scene.right.run, "sampler");
  if (!left.is_object() || !right.is_object() || left.value("class", Json()) != right.value("class", Json())) return {};
  const auto deals_to_all = [](const Json& sampler, const Side& side) {
    return sampler.value("num_replicas", Json()) == trace::batch_shares_of(*side.run);
  };
  if (deals_to_all(left, scene.left) && deals_to_all(right, scene.right)) right.erase("num_replicas");  // as laid out
  std::vector<std::string> evidence;
  for (const auto& [option, value] : right.items()) {
    const Json other = left.value(option, Json());
    if (value == other || other.is_null() || value.is_null()) continue;
    evidence.push_back("the sampler of " + scene.right.run->run + " has " + option + " " + value.dump() +
                       ", the sampler of " + scene.left.run->run + " " + other.dump());
  }
  return evidence.empty() ? std::vector<Suspect>{} : std::vector<Suspect>{{"data.sampler_options", evidence}};
}

std::vector<Suspect> suspects_in_samples(const Scene& scene) {
  const std::int64_t step = scene.at.step;
  if (auto found = suspects_in_size(scene); !found.empty()) return found;
  auto suspects = between(scene, [&](const Side& side) { return suspects_in_shards(*side.run, *side.promises, step); });
  if (!suspects.empty()) return suspects;
  if (scene.at.channel == Channel::kSamples)
    suspects = between(scene, [&](const Side& side) { return suspects_in_epochs(*side.run, *side.promises, step); });
  for (const auto suspects_of : {suspects_in_batch_size, suspects_in_tail, suspects_in_dealing, suspects_in_sampler}) {
    if (suspects.empty()) suspects = suspects_of(scene);
  }
  return suspects;
}

/// Two seeds were to give two orders.
std::vector<Suspect> suspects_in_unused_seeds(const Scene& scene) {
  if (!scene.left || scene.within_one_run()) return {};
  const auto seeds = [](const Side& side) {
    const recipe::TrainSpec& train = side.promises->train;
    return std::pair(train.seed.base, train.sampler.options.value("seed", Json()));
  };
  if (seeds(scene.left) == seeds(scene.right)) return {};
  return {{"data.seed_ignored",
           {scene.left.run->run + " and " + scene.right.run->run +
            " have different seeds and the same samples, first at " + scene.at.place()}}};
}

std::string step_and_rank(const Scene& scene) {
  return "step " + std::to_string(scene.at.step) + ", rank " + std::to_string(scene.at.rank);
}

const trace::Record* samples_of(const Side& side, std::int64_t step) {
  const trace::Step* found = side.run->ranks[side.rank].find(step);
  return found == nullptr ? nullptr : laws::samples_in(*found);
}

/// The state of a rank's generators before a step.
const trace::Record* generator_before(const Side& side, std::size_t rank, std::int64_t step) {
  const trace::Record* last = nullptr;
  for (const trace::Step& recorded : side.run->ranks[rank].steps) {
    if (recorded.step >= step) break;
    if (const trace::Record* state = recorded.find(Channel::kRng, "cpu")) last = state;
  }
  return last;
}

/// Whether all ranks draw alike in a step.
bool draw_alike(const Side& side, std::int64_t step) {
  const trace::Record* first = generator_before(side, 0, step);
  if (first == nullptr || trace::batch_shares_of(*side.run) < 2) return false;  // ranks of one share draw alike
  for (std::size_t rank = 1; rank < side.run->ranks.size(); ++rank) {
    if (!trace::is_first_of_share(*side.run, rank)) continue;
    const trace::Record* other = generator_before(side, rank, step);
    if (!trace::same_bits(first, other)) return false;
  }
  return true;
}

/// A rank whose inputs of a step differ between the sides although its samples are the same; none: the world's size.
std::size_t rank_with_other_inputs(const Scene& scene, std::int64_t step) {
  const std::size_t ranks = std::min(scene.left.run->ranks.size(), scene.right.run->ranks.size());
  for (std::size_t rank = 0; rank < ranks; ++rank) {
    const Side left{scene.left.run, scene.left.promises, rank}, right{scene.right.run, scene.right.promises, rank};
    const trace::Step* found = left.run->ranks[rank].find(step);
    const trace::Record *ours = samples_of(left, step), *theirs = samples_of(right, step);
    if (found == nullptr || !trace::same_bits(ours, theirs)) continue;
    for (const trace::Record& record : found->records) {
      if (record.channel != Channel::kInput) continue;
      const trace::Record* other = right.find(step, Channel::kInput, record.name);
      if (other != nullptr && other->dtype == record.dtype && !trace::same_bits(&record, other)) return rank;
    }
  }
  return ranks;
}

/// One side's ranks draw alike, the other's do not, and the inputs show it.
std::vector<Suspect> suspects_in_augmentation(const Scene& scene, std::int64_t step) {
  const bool left = draw_alike(scene.left, step), right = draw_alike(scene.right, step);
  if (left == right) return {};
  const std::size_t rank = rank_with_other_inputs(scene, step);
  if (rank >= std::min(scene.left.run->ranks.size(), scene.right.run->ranks.size())) return {};
  return {{"rng.augment_rank_clone",
           {"before step " + std::to_string(step) + " all ranks of " + (left ? scene.left : scene.right).run->run +
                " hold the same generator, the ranks of " + (left ? scene.right : scene.left).run->run + " do not",
            "step " + std::to_string(step) + ", rank " + std::to_string(rank) +
                ": the same samples gave different inputs, which are drawn from it"}}};
}

/// One side's ranks draw alike, the other's do not, and a model that drops gives other losses of the same inputs.
std::vector<Suspect> suspects_in_masks(const Scene& scene, std::int64_t step) {
  const bool left = draw_alike(scene.left, step), right = draw_alike(scene.right, step);
  if (!is_between_programs(scene) || left == right || scene.left.run->world_size() != scene.right.run->world_size())
    return {};
  const Side& alike = left ? scene.left : scene.right;
  const Json model = seen_of(*alike.run, "model");
  if (!model.is_object() || model.value("dropout", Json()) != Json(true)) return {};
  for (std::size_t rank = 0; rank < alike.run->ranks.size(); ++rank) {
    const laws::Held ours(*scene.left.run, rank, step), theirs(*scene.right.run, rank, step);
    if (!laws::same(ours, theirs, Channel::kInput)) return {};
    if (laws::same(ours, theirs, Channel::kLoss)) continue;
    return {{"rng.dropout_clone",
             {"before step " + std::to_string(step) + " all ranks of " + alike.run->run +
                  " hold the same generator, the ranks of " + (left ? scene.right : scene.left).run->run + " do not",
              "step " + std::to_string(step) + ", rank " + std::to_string(rank) +
                  ": the same inputs gave other losses, and the model drops"}}};
  }
  return {};
}

/// Whether a run gave this very tensor for other samples: then it is whole, and in the wrong place.
bool is_of_others(const trace::RunTrace& run, const trace::Record& tensor, const trace::Record& ids) {
  for (const trace::Trace& rank : run.ranks) {
    for (const trace::Step& step : rank.steps) {
      const trace::Record* taken = laws::samples_in(step);
      if (trace::same_bits(step.find(Channel::kInput, tensor.name), &tensor) && taken && !trace::same_bits(taken, &ids))
        return true;
    }
  }
  return false;
}

std::vector<Suspect> suspects_in_inputs(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  if (auto suspects = suspects_in_augmentation(scene, scene.at.step); !suspects.empty()) return suspects;
  const trace::Record* left = scene.left.find(scene.at.step, Channel::kInput, scene.at.tensor);
  const trace::Record* right = scene.right.find(scene.at.step, Channel::kInput, scene.at.tensor);
  const trace::Record *ours = samples_of(scene.left, scene.at.step), *theirs = samples_of(scene.right, scene.at.step);
  if (left == nullptr || right == nullptr || ours == nullptr || theirs == nullptr) return {};
  // Another dtype is another precision, which both recipes may ask for.
  if (left->dtype != right->dtype || trace::same_bits(left, right) || !trace::same_bits(ours, theirs)) return {};
  if (is_of_others(*scene.left.run, *right, *ours) || is_of_others(*scene.right.run, *left, *ours)) return {};
  std::vector<std::string> evidence{step_and_rank(scene) + ": both sides take the samples " + some_ids(ours->integers) +
                                    ", and " + scene.at.tensor + " differs"};
  if (!scene.at.relation.empty()) evidence.push_back(scene.at.relation);
  return {{"data.content", evidence}};
}

/// Contents of all samples that a run takes up to a step: by input and sample, and those of each input.
struct Contents {
  std::map<std::pair<std::string, std::int64_t>, laws::Content> by_sample;
  std::map<std::string, std::set<std::uint64_t>> all;

  Contents(const trace::RunTrace& run, std::int64_t until) {
    for (const trace::Trace& rank : run.ranks) {
      for (const trace::Step& step : rank.steps) {
        if (step.step > until) break;
        for (const auto& [input, contents] : laws::contents_of(step)) {
          for (const laws::Content& content : contents) {
            by_sample.try_emplace({input, content.id}, content);
            all[input].insert(content.digest);
          }
        }
      }
    }
  }
};

/// A sample that has another content on the other side, whatever the ranks' shares.
std::vector<Suspect> suspects_in_contents(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  for (const Side* side : {&scene.left, &scene.right}) {  // a program may augment as it likes
    if (side->promises->known || side->promises->train.augmentation() != recipe::Augmentation::kNone) return {};
  }
  const Contents left(*scene.left.run, scene.at.step), right(*scene.right.run, scene.at.step);
  for (const auto& [sample, content] : right.by_sample) {
    const auto ours = left.by_sample.find(sample);
    if (ours == left.by_sample.end() || ours->second.digest == content.digest) continue;
    const auto& [input, id] = sample;
    // Another dtype is another precision, which both recipes may ask for. The content of other samples is another
    // order.
    if (ours->second.dtype != content.dtype || left.all.at(input).contains(content.digest) ||
        right.all.at(input).contains(ours->second.digest))
      return {};
    return {{"data.content",
             {"sample " + std::to_string(id) + " of " + scene.right.run->run + " has another " + input + " than in " +
              scene.left.run->run}}};
  }
  return {};
}

std::optional<double> number_of(const Side& side, const Scene& scene, const std::string& name) {
  if (!side) return std::nullopt;
  const trace::Record* record = side.find(scene.at.step, Channel::kMetric, name);
  if (record == nullptr) return std::nullopt;
  if (record->integers.size() == 1) return static_cast<double>(record->integers[0]);
  return record->number;
}

/// Whether a share is a count over so many.
bool is_count_over(double share, std::int64_t all) {
  const double count = share * static_cast<double>(all);
  return std::isfinite(count) && std::fabs(count - std::round(count)) < kWholeCount;
}

/// What one side's metric is a mean over, where that is more than the held-out samples.
std::vector<Suspect> suspects_in_count(const Scene& scene, const Side& side) {
  const auto& evaluation = side.promises->train.evaluation;
  if (!evaluation || evaluation->samples < 1 || side.run->world_size() < 2) return {};
  const std::int64_t held = evaluation->samples, ranks = side.run->world_size();
  const std::int64_t filled = (held + ranks - 1) / ranks * ranks;
  const Json& header = side.run->ranks[0].header;
  const std::int64_t targets = header.is_object() ? header.value("targets_per_sample", std::int64_t{0}) : 0;
  const std::string where = "step " + std::to_string(scene.at.step) + " of " + side.run->run + ": ";
  if (targets == 0) return {};
  if (const auto counted = number_of(side, scene, "counted"); counted) {
    const double most = static_cast<double>(filled * targets);
    if (*counted == static_cast<double>(held * targets) || filled == held) return {};
    if (*counted != most) return {};
    return {
        {"data.pad_duplicates",
         {where + to_decimal(*counted) + " targets are counted, " + std::to_string(held * targets) + " are held out",
          std::to_string(ranks) + " ranks evaluate " + std::to_string(filled) + " samples: padding is counted"}}};
  }
  const auto accuracy = number_of(side, scene, "accuracy");
  if (!accuracy || targets != 1 || filled == held || is_count_over(*accuracy, held)) return {};
  if (!is_count_over(*accuracy, filled)) return {};
  return {{"data.pad_duplicates",
           {where + "accuracy " + rounded(*accuracy, 7) + " is not a count over the " + std::to_string(held) +
                " held-out samples, but over " + std::to_string(filled),
            std::to_string(ranks) + " ranks pad to that many"}}};
}

/// What each channel tells of the data; of the others nothing is in them.
struct OfChannel {
  Channel channel;
  std::vector<Suspect> (*suspects_of)(const Scene& scene);
};

constexpr OfChannel kOfChannels[] = {
    {Channel::kSamples,
     [](const Scene& scene) {
       const bool is_control = scene.question.traits().wants_different(scenario::Sides::kVariants);
       return is_control ? suspects_in_unused_seeds(scene) : suspects_in_samples(scene);
     }},
    {Channel::kInput, suspects_in_inputs},
    {Channel::kRng,
     [](const Scene& scene) {
       if (!scene.left || scene.within_one_run()) return std::vector<Suspect>{};
       auto found = suspects_in_augmentation(scene, scene.at.step + 1);
       return found.empty() ? suspects_in_masks(scene, scene.at.step + 1) : found;
     }},
    {Channel::kMetric,
     [](const Scene& scene) {
       if (scene.at.lacks(compare::Missing::kRecord)) return std::vector<Suspect>{};
       return between(scene, [&](const Side& side) { return suspects_in_count(scene, side); });
     }},
    {Channel::kLedger,
     [](const Scene& scene) {
       const bool counts_others = counts_samples(scene.at.tensor) && !same_samples(scene);
       return counts_others ? suspects_in_samples(scene) : std::vector<Suspect>{};
     }},
};

}  // namespace

std::vector<Suspect> suspects_in_data(const Scene& scene) {
  // What is only rounding has no cause in the data.
  if (scene.at.class_ == scenario::Class::kRounding || !scene.right) return {};
  const auto is_empty = [](const Side& side) { return side && side.run->ranks.empty(); };
  if (is_empty(scene.left) || is_empty(scene.right)) return {};
  for (const OfChannel& row : kOfChannels) {
    if (row.channel != scene.at.channel) continue;
    if (auto suspects = row.suspects_of(scene); !suspects.empty()) return suspects;
  }
  return suspects_in_contents(scene);
}

}  // namespace lockstep::diagnosis
