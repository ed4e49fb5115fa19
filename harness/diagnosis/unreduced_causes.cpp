#include <algorithm>
#include <cmath>
#include <map>
#include <set>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/scales.h"
#include "harness/trace/collective_record.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::Held;
using laws::Made;
using laws::OwnGradients;
using trace::Channel;

bool reduces_nothing(const Side& side, std::int64_t step) {
  const trace::RunTrace& run = *side.run;
  if (run.world_size() < 2 || seen_of(run, "ddp").is_null()) return false;
  for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
    const Held held(run, rank, step);
    if (!held.all(Channel::kGradientLocal).empty() || held.all(Channel::kGradient).empty()) return false;
  }
  return true;
}

std::string seen_at(const Side& side, std::int64_t step) {
  const bool wraps = laws::ddp_has(*side.run, "wrap");
  return place_of(*side.run, step) + (wraps ? ": no backward pass goes through DDP, or all are under no_sync"
                                            : ": the model is not wrapped in DDP");
}

/// Whether all ranks have the losses of the other side: then their own gradients are the other side's, too.
bool same_losses(const Side& side, const Side& other, std::int64_t step) {
  for (std::size_t rank = 0; rank < side.run->ranks.size(); ++rank) {
    if (!laws::same(Held(*side.run, rank, step), Held(*other.run, rank, step), Channel::kLoss)) return false;
  }
  return side.run->world_size() == other.run->world_size();
}

/// What the gradients of a rank are made of: a weight for each rank's own.
std::optional<laws::Combination> weights_in(const Side& side, std::size_t rank, std::int64_t step,
                                            const std::vector<Made>& own) {
  const Held held(*side.run, rank, step);
  Made gradients;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    if (laws::is_plain(*record) && record->sketch) gradients.emplace(record->name, *record->sketch);
  }
  std::vector<const Made*> terms;
  for (const Made& made : own) terms.push_back(&made);
  auto weights = laws::fit(gradients, terms);
  if (!weights || weights->residual > laws::kFits) return std::nullopt;
  const double scale = laws::loss_scale_of(held).value_or(1);
  for (double& weight : weights->coefficients) weight /= scale;
  return weights;
}

std::vector<Suspect> held_against(const Side& side, const Side& other, std::int64_t step) {
  const OwnGradients own(*other.run, step);
  if (!reduces_nothing(side, step) || !own.complete() || !same_losses(side, other, step)) return {};
  std::vector<Made> of_ranks;
  for (std::size_t rank = 0; rank < own.ranks(); ++rank) of_ranks.push_back(own.of(rank));
  const auto ranks = static_cast<double>(own.ranks());
  std::string cause;
  std::string example;
  for (std::size_t rank = 0; rank < own.ranks(); ++rank) {
    const auto weights = weights_in(side, rank, step, of_ranks);
    if (!weights) return {};
    const auto are = [&](double its, double others) {
      for (std::size_t of = 0; of < own.ranks(); ++of) {
        if (std::fabs(weights->coefficients[of] - (of == rank ? its : others)) > laws::kSameWeight) return false;
      }
      return true;
    };
    const char* found = are(1, 0)                                       ? "grad.not_reduced"
                        : are(1, 1)                                     ? "grad.reduce_sum"
                        : are(1 / (ranks * ranks), 1 / (ranks * ranks)) ? "grad.double_average"
                                                                        : nullptr;
    if (found == nullptr || (rank > 0 && cause != found)) return {};
    if (rank == 0) example = laws::to_text(*weights);
    cause = found;
  }
  return {{cause,
           {seen_at(side, step) + "; its losses are those of " + other.run->run,
            "the gradients with which rank 0 updates are the own gradients of " + other.run->run +
                "'s ranks with the weights " + example}}};
}

bool exchanges(const trace::RunTrace& run, std::int64_t step) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [&](const trace::Trace& rank) {
    const trace::Step* found = rank.find(step);
    return found != nullptr && std::any_of(found->records.begin(), found->records.end(),
                                           [](const auto& record) { return trace::collective_of(record).has_value(); });
  });
}

/// Ranks of one run that differ in every gradient.
std::vector<Suspect> alone(const Side& side, std::int64_t step) {
  if (!reduces_nothing(side, step) || exchanges(*side.run, step)) return {};
  const auto first = laws::final_gradients(Held(*side.run, 0, step));
  for (std::size_t rank = 1; rank < side.run->ranks.size(); ++rank) {
    const Held held(*side.run, rank, step);
    const auto others = laws::final_gradients(held);
    for (const auto& [name, record] : first) {
      const auto found = others.find(name);
      const bool is_zero = record->norm && *record->norm == 0;
      if (found == others.end() || (!is_zero && trace::same_bits(record, found->second))) return {};
    }
  }
  if (first.empty()) return {};
  return {
      {"grad.not_reduced",
       {seen_at(side, step) + "; the script itself reduces nothing in this step",
        "all " + std::to_string(first.size()) + " gradients with which the ranks update differ from rank to rank"}}};
}

/// Names of a module's parameters: "model0." of several models, else all up to the first dot.
std::string module_of(const std::string& parameter) { return parameter.substr(0, parameter.find('.')); }

/// Whether some parameters are all that their modules have, of those that are trained.
bool are_whole_modules(const std::vector<std::string>& some, const std::map<std::string, const trace::Record*>& all) {
  std::set<std::string> modules;
  for (const std::string& name : some) modules.insert(module_of(name));
  const auto belong = std::count_if(all.begin(), all.end(),
                                    [&](const auto& entry) { return modules.contains(module_of(entry.first)); });
  return belong == std::ssize(some);
}

/// Gradients of a step by whether the ranks agree on them. Empty where some are zero on one rank, or missing.
struct Agreement {
  std::vector<std::string> own;  ///< each rank has another one, and DDP reduced none of them
  std::int64_t shared_elements = 0;
  std::size_t reduced = 0;  ///< of those on which the ranks agree, by DDP
  std::size_t all = 0;
};

Agreement agreement_in(const trace::RunTrace& run, std::int64_t step) {
  const Held held(run, 0, step);
  const auto first = laws::final_gradients(held);
  Agreement agreement{.own = {}, .all = first.size()};
  for (const auto& [name, record] : first) {
    std::size_t others = 0;
    bool reduced = held.find(Channel::kGradientLocal, name) != nullptr;
    for (std::size_t rank = 1; rank < run.ranks.size(); ++rank) {
      const Held of_rank(run, rank, step);
      const auto theirs = laws::final_gradients(of_rank);
      const auto found = theirs.find(name);
      if (found == theirs.end()) return {};
      reduced = reduced || of_rank.find(Channel::kGradientLocal, name) != nullptr;
      others += trace::same_bits(record, found->second) ? 0 : 1;
    }
    if (others > 0 && (reduced || others + 1 < run.ranks.size())) return {};
    if (others > 0) agreement.own.push_back(name);
    if (others > 0) continue;
    agreement.shared_elements += static_cast<std::int64_t>(laws::count_of(*record));
    agreement.reduced += reduced ? 1 : 0;
  }
  return agreement;
}

/// A script that reduces its gradients itself, and so many elements as those have on which the ranks agree.
std::vector<Suspect> bucket_of_script(const Side& side, std::int64_t step, const Agreement& agreement) {
  std::int64_t elements = 0;
  for (const trace::Record* record : Held(*side.run, 0, step).all(Channel::kCollective)) {
    const auto collective = trace::collective_of(*record);
    if (collective && collective->is_allreduce()) elements += collective->elements.value_or(0);
  }
  if (elements == 0 || elements != agreement.shared_elements) return {};
  return {
      {"grad.bucket_missing",
       {place_of(*side.run, step) + ": the script reduces " + std::to_string(elements) +
            " elements, as many as the gradients have on which the ranks agree",
        std::to_string(agreement.own.size()) + " of " + std::to_string(agreement.all) +
            " gradients with which the ranks update differ from rank to rank (" + some_of(agreement.own, 3) + ")"}}};
}

/// Some gradients are reduced, on which the ranks agree, and not the others: each rank has its own.
std::vector<Suspect> partly(const Side& side, std::int64_t step) {
  const trace::RunTrace& run = *side.run;
  const Json ddp = seen_of(run, "ddp");
  if (run.world_size() < 2 || !ddp.is_object()) return {};
  const Agreement agreement = agreement_in(run, step);
  const std::vector<std::string>& own = agreement.own;
  if (own.empty() || own.size() == agreement.all) return {};
  if (ddp.value("wrap", Json()) != true && !ddp.contains("fsdp")) return bucket_of_script(side, step, agreement);
  if (agreement.reduced == 0) return {};
  const auto first = laws::final_gradients(Held(run, 0, step));
  const auto hold = [&own](const Json& names) {
    return names.is_array() && !names.empty() && std::all_of(names.begin(), names.end(), [&](const Json& name) {
             return std::find(own.begin(), own.end(), name) != own.end();
           });
  };
  const Json outside = ddp.value("outside", Json::array()), wrapped = ddp.value("wrapped", Json::array());
  const bool is_outside = hold(outside) && outside.size() == own.size() && are_whole_modules(own, first);
  const bool is_past = !is_outside && std::any_of(wrapped.begin(), wrapped.end(), hold);
  const std::vector<std::string> evidence{
      place_of(run, step) + ": " + std::to_string(own.size()) + " of " + std::to_string(first.size()) +
          " gradients with which the ranks update differ from rank to rank (" + some_of(own, 3) + ")",
      is_outside ? "they are of modules of which none is in DDP or FSDP"
      : is_past  ? "they are all that a module in DDP has, and it reduces none of them"
                 : "DDP or FSDP did not know these parameters when it was built"};
  return {{is_outside || is_past ? "grad.module_outside" : "grad.param_unregistered", evidence}};
}

}  // namespace

std::vector<Suspect> suspects_in_unrecorded_reduction(const Scene& scene) {
  const std::int64_t step = scene.at.step;
  if (!trace::info(scene.at.channel).is_gradient()) return {};
  const auto of_one = [step](const Side& side) {
    auto found = alone(side, step);
    return found.empty() ? partly(side, step) : found;
  };
  if (scene.left && scene.within_one_run()) return of_one(scene.left);
  if (!is_between_programs(scene)) return {};
  auto found = held_against(scene.right, scene.left, step);
  if (found.empty()) found = held_against(scene.left, scene.right, step);
  return found.empty() ? between(scene, of_one) : found;
}

}  // namespace lockstep::diagnosis
