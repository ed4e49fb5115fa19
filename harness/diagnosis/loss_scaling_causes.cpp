#include <algorithm>
#include <cmath>
#include <map>
#include <string>
#include <tuple>
#include <vector>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/diagnosis/reduction_causes.h"
#include "harness/laws/own_gradients.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/entry.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;
using laws::OwnGradients;
using trace::Channel;

/// A factor is exact but for rounding.
constexpr double kSameScale = 1e-3;

/// How one side cuts its batch.
struct Cut {
  const Side& side;
  double ranks = 1, micro_batches = 1;
  double samples = 0;  ///< of one micro-batch; 0: unknown, or not the same on all ranks
  double loss = 0;     ///< reduced
};

/// Mean over the ranks of their losses, which micro-batches share.
double mean_loss(const OwnGradients& own) {
  const double reduced = laws::number_at(own.held()[0], Channel::kLoss, trace::entry::kReduced);
  if (std::isfinite(reduced)) return reduced;
  double sum = 0;
  for (const laws::Held& held : own.held()) {
    for (const trace::Record* loss : held.all(Channel::kLoss)) sum += loss->number.value_or(NAN);
  }
  return sum / static_cast<double>(own.ranks());
}

Cut cut_of(const Side& side, const OwnGradients& own) {
  Cut cut{.side = side, .ranks = static_cast<double>(trace::batch_shares_of(*side.run))};
  cut.micro_batches = static_cast<double>(side.promises->train.batch.accumulation);
  cut.loss = mean_loss(own);
  for (const laws::Held& held : own.held()) {
    const trace::Record* ids = held.find(Channel::kSamples, "ids");
    const double samples = ids == nullptr || ids->shape.size() != 1 ? 0 : static_cast<double>(ids->shape[0]);
    cut.samples =
        &held == &own.held()[0] || samples / cut.micro_batches == cut.samples ? samples / cut.micro_batches : 0;
    if (cut.samples == 0) break;
  }
  return cut;
}

/// A mistake, and the factor that it puts on one side's own gradients.
struct Mistake {
  const char* cause;
  double factor;
  std::string why;
};

/// Whether the script itself has to divide by the micro-batches: accelerate, transformers and Lightning do it for it.
bool divides_by_itself(const Cut& cut) {
  const Json& header = cut.side.run->ranks[0].header;
  return !seen_of(*cut.side.run, "optimizer").is_null() && header.value("framework", Json::array()).empty();
}

/// What both scripts were seen to do with their losses tells which of two mistakes with one factor it is.
void ask_scripts(const Scene& scene, const Cut& of, const Cut& other, double factor, std::vector<Suspect>& found) {
  const auto scales = [&](const char* name) {
    const auto told = [&](const Cut& cut) { return told_in(cut.side, scene.at.step, name).value_or(1); };
    return told(of) / told(other);
  };
  const double multiplied = scales("seen.loss_multiplied"), divided = scales("seen.loss_divided");
  const auto is = [](double one, double value) { return std::fabs(one / value - 1) < kSameScale; };
  const std::string who = "the script of " + of.side.run->run;
  const auto one = [](const char* verb, double value) {
    return std::string(" ") + verb + " its loss by one " + (value < 1 ? "factor less, " : "more factor, ") +
           rounded(std::max(value, 1 / value), 6);
  };
  for (const auto& [is_it, refuted, seen] :
       {std::tuple(is(multiplied, factor) && is(divided, 1), "grad.accum_scale", one("multiplies", multiplied)),
        std::tuple(is(multiplied, 1) && is(divided, 1 / factor), "loss.world_scale", one("divides", divided))}) {
    if (!is_it || found.size() < 2) continue;
    const std::string other_one = refuted;
    std::erase_if(found, [&](const Suspect& suspect) { return suspect.cause == other_one; });
    for (Suspect& suspect : found)
      suspect.evidence.push_back(who + seen + ", than the script of " + other.side.run->run);
  }
}

std::string ranks_of(const Cut& cut) { return to_decimal(cut.ranks) + " ranks"; }

/// What may have happened to `of` alone, beside `other`. Where ranks and micro-batches are as many, what the sides do
/// not have in common comes first; a division that a program's script makes itself may be forgotten.
std::vector<Mistake> mistakes_of(const Cut& of, const Cut& other) {
  const std::string a = to_decimal(of.micro_batches);
  const bool has_own = of.ranks == static_cast<double>(of.side.run->world_size());
  const std::string ranks = has_own ? "the number of ranks" : "the number of data-parallel ranks";
  std::vector<Mistake> all{
      {"loss.world_scale", of.ranks, ranks + ": the reduction divides by it, the loss is multiplied with it"},
      {"grad.accum_scale", of.micro_batches, "the number of micro-batches, " + a + ": their gradients are added"}};
  const bool tells_apart = of.ranks == other.ranks && of.micro_batches != other.micro_batches;
  if (tells_apart || (of.ranks == of.micro_batches && divides_by_itself(of))) std::swap(all[0], all[1]);
  const double each = of.ranks * of.micro_batches;
  if (of.ranks > 1 && of.micro_batches > 1)
    all.push_back({"loss.world_scale", each, "ranks times micro-batches, " + ranks_of(of) + " x " + a});
  std::map<std::int64_t, std::vector<std::string>> dimensions;
  for (const auto& [name, size] : trace::mesh_of(*of.side.run)) dimensions[size].push_back(name);
  const auto layout = laws::layout_of(*of.side.run);
  const bool splits = !layout || layout->contains("tensor");
  for (const auto& [size, names] : dimensions) {
    if (!splits && static_cast<double>(size) == of.ranks) continue;  // all ranks, of which another row tells
    all.push_back({"grad.double_average", 1 / static_cast<double>(size),
                   "one over the ranks of the mesh's dimension " + join(names, ", or of ") +
                       ", whose gradients are whole or averaged already"});
  }
  all.push_back({"loss.denominator_global", 1 / of.ranks,
                 "one over " + ranks +
                     ": each divides its part by the count of all, and the reduction divides "
                     "again"});
  const double data = of.side.run->ranks[0].header.value("samples", 0.0);
  if (data <= 0 || of.samples <= 0) return all;
  for (const double samples : {of.samples, of.samples * of.micro_batches})
    all.push_back({"loss.denominator_global", samples / data,
                   to_decimal(samples) + " samples of " + to_decimal(data) + " in the whole data set"});
  return all;
}

/// What both sides do wrong, each by its own shape.
std::vector<Mistake> mistakes_of_both(const Cut& of, const Cut& other) {
  std::vector<Mistake> all;
  if (other.ranks > 1 && of.ranks > 1)
    all.push_back({"loss.world_scale", of.ranks / other.ranks, "the ratio of the numbers of ranks"});
  if (other.micro_batches > 1 && of.micro_batches > 1)
    all.push_back({"grad.accum_scale", of.micro_batches / other.micro_batches, "the ratio of the micro-batches"});
  return all;
}

/// One over the ranks, of the gradients alone: the loss is right, something divides behind it.
void look_at_loss(const Cut& of, const Cut& other, double factor, std::vector<Suspect>& found) {
  const double ratio = of.loss / other.loss;
  const bool same = std::fabs(ratio - 1) < kSameScale, scaled = std::fabs(ratio / factor - 1) < kSameScale;
  for (Suspect& suspect : found) {
    if (!std::isfinite(ratio)) break;  // no losses were recorded
    suspect.evidence.push_back("the reduced losses " + std::string(scaled ? "have the same ratio"
                                                                   : same ? "agree"
                                                                          : "have a ratio of " + rounded(ratio, 6)));
  }
  if (std::fabs(factor * of.ranks - 1) > kSameScale) return;
  Suspect averaged{"grad.double_average", found[0].evidence};
  if (!accuses(found, averaged.cause)) found.insert(same ? found.begin() : found.end(), averaged);
}

std::vector<Suspect> suspects_of(const Scene& scene, const Cut& of, const Cut& other, double factor) {
  std::vector<Mistake> all = mistakes_of(of, other);
  const std::vector<Mistake> both = mistakes_of_both(of, other);
  all.insert(all.end(), both.begin(), both.end());
  std::vector<Suspect> found;
  for (const Mistake& mistake : all) {
    if (std::fabs(mistake.factor - 1) < kSameScale || std::fabs(factor / mistake.factor - 1) > kSameScale) continue;
    if (accuses(found, mistake.cause)) continue;
    found.push_back(
        {mistake.cause,
         {"step " + std::to_string(scene.at.step) + ": before the reduction the gradients of " + of.side.run->run +
              " are " + rounded(factor, 6) + " times those of " + other.side.run->run + ", all parameters alike",
          "that is " + mistake.why}});
  }
  if (is_between_programs(scene)) ask_scripts(scene, of, other, factor, found);
  if (!found.empty()) look_at_loss(of, other, factor, found);
  return found;
}

/// Whether the scripts take the factor off their gradients themselves, before the update: a loss scale of their own.
bool is_taken_off(const Scene& scene, double factor) {
  const auto own = [&](const Side& side) { return own_factor(*side.run, side.rank, scene.at.step).value_or(1); };
  return std::fabs(factor * own(scene.right) / own(scene.left) - 1) < kSameScale;
}

}  // namespace

std::vector<Suspect> suspects_in_loss_scaling(const Scene& scene) {
  if (!scene.left || !scene.right || scene.within_one_run()) return {};
  // A hook of a tensor may scale its gradient in any way, and FSDP2 calls none.
  for (const Side* side : {&scene.left, &scene.right}) {
    if (laws::seen_of(*side->run, "hooks") == Json(true)) return {};
  }
  const OwnGradients left(*scene.left.run, scene.at.step), right(*scene.right.run, scene.at.step);
  if (!left.complete() || !right.complete()) return {};
  const laws::Made of_left = left.mean(), of_right = right.mean();
  const auto ratio = laws::fit(of_right, {&of_left});
  if (!ratio || ratio->residual > laws::kFactorFits || std::fabs(ratio->coefficients[0] - 1) < kSameScale) return {};
  const double factor = ratio->coefficients[0];
  if (is_taken_off(scene, factor)) return {};
  const Cut theirs = cut_of(scene.left, left), its = cut_of(scene.right, right);
  std::vector<Suspect> found = suspects_of(scene, its, theirs, factor);
  if (!found.empty()) return found;
  // Nothing tells that the left side is at fault where both are cut alike.
  found = suspects_of(scene, theirs, its, 1 / factor);
  std::erase_if(found, [&](const Suspect& suspect) {
    return suspect.cause == "grad.accum_scale" ? its.micro_batches == theirs.micro_batches : its.ranks == theirs.ranks;
  });
  return found;
}

}  // namespace lockstep::diagnosis
