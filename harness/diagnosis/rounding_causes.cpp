#include <limits>

#include "harness/base/text.h"
#include "harness/diagnosis/diagnosers.h"
#include "harness/laws/held.h"
#include "harness/laws/reduced_sum.h"
#include "harness/laws/scales.h"
#include "harness/trace/batch_share.h"
#include "harness/trace/collective_record.h"

namespace lockstep::diagnosis {
namespace {

using compare::Divergence;
using compare::Suspect;
using trace::Channel;

/// What the recipes of the two sides ask for differently, where that is known to round.
std::vector<Suspect> suspects_of_recipes(const recipe::TrainSpec& left, const recipe::TrainSpec& right) {
  const auto differ = [](const std::string& key, const std::string& a, const std::string& b) {
    return std::vector<std::string>{key + " is " + a + " on one side, " + b + " on the other"};
  };
  if (left.determinism.threads != right.determinism.threads)
    return {{"fp.thread_count", differ("determinism.threads", std::to_string(left.determinism.threads),
                                       std::to_string(right.determinism.threads))}};
  if (left.determinism.cpu != right.determinism.cpu)
    return {{"fp.isa", differ("determinism.cpu", left.determinism.cpu, right.determinism.cpu)}};
  if (left.determinism.flush_denormal != right.determinism.flush_denormal)
    return {{"fp.denormal", {"denormal numbers are flushed to zero on one side only"}}};
  if (left.ddp.compression != right.ddp.compression)
    return {{"comm.lossy", differ("ddp.compression", text_of(left.ddp.compression), text_of(right.ddp.compression))}};
  if (left.autocast != right.autocast)
    return {{"fp.precision_mode", differ("autocast", text_of(left.autocast), text_of(right.autocast))}};
  if (left.precision != right.precision)
    return {{"fp.precision_mode", differ("precision", text_of(left.precision), text_of(right.precision))}};
  return {};
}

/// Numbers below the least normal one, which are zero on one side.
std::vector<Suspect> suspects_of_size(const Divergence& at) {
  const auto& element = at.element;
  const bool is_lost = element && (element->left == 0) != (element->right == 0);
  if (!is_lost || element->largest >= static_cast<double>(std::numeric_limits<float>::min())) return {};
  return {{"fp.denormal", {"one side holds zero in place of denormal numbers"}}};
}

/// What a side's collectives of a step bring beside the sums of buckets, and the layout of buckets, in integers.
std::vector<std::string> beside_buckets(const Side& side, std::int64_t step) {
  std::vector<std::string> texts;
  for (const trace::Record* record : laws::Held(*side.run, side.rank, step).all(Channel::kCollective)) {
    const auto collective = trace::collective_of(*record);
    if (!collective->is_allreduce() && collective->dtype != "Int") texts.push_back(record->text);
  }
  return texts;
}

/// Other collectives, because the recipes ask for other buckets: the same sums, in another order.
std::vector<Suspect> suspects_of_buckets(const Scene& scene) {
  const recipe::DdpSpec &left = scene.left.promises->train.ddp, &right = scene.right.promises->train.ddp;
  const bool same_buckets = left.bucket_mb == right.bucket_mb;
  if (same_buckets || beside_buckets(scene.left, scene.at.step) != beside_buckets(scene.right, scene.at.step))
    return {};
  const auto shown = [](const std::optional<double>& size) { return size ? to_decimal(*size) : "DDP's default"; };
  return {
      {"fp.reduction_order",
       {"ddp.bucket_mb is " + shown(left.bucket_mb) + " on one side, " + shown(right.bucket_mb) + " on the other"}}};
}

/// Whether every rank holds the mean of the ranks' own gradients, up to rounding.
bool reduces_rightly(const Side& side, std::int64_t step) {
  return !laws::ReductionLaw(*side.run, *side.promises).first_broken(step);
}

bool same_own_gradients(const Scene& scene) {
  const auto own = [&](const Side& side) { return side.find(scene.at.step, Channel::kGradientLocal, scene.at.tensor); };
  return trace::same_bits(own(scene.left), own(scene.right));
}

/// Samples in one forward pass of one rank.
std::int64_t micro_size(const Side& side) { return side.promises->train.batch.micro_size(side.run->world_size()); }

/// How the two sides lay out the tensor, where that differs.
std::string other_layouts(const Scene& scene) {
  const auto of = [&](const Side& side) {
    const trace::Record* record = side.find(scene.at.step, scene.at.channel, scene.at.tensor);
    const bool is_whole = record == nullptr || record->layout.empty() || !record->is_joined;
    return is_whole ? std::string("whole on each rank") : record->layout;
  };
  const std::string left = of(scene.left), right = of(scene.right);
  if (left != right) return "the ranks hold the tensor in other parts: " + left + "; " + right;
  const bool lie_alike = trace::mesh_of(*scene.left.run) == trace::mesh_of(*scene.right.run);
  return lie_alike ? "" : "other tensors of the model lie in other parts on the ranks";
}

std::vector<Suspect> suspects_of_sums(const Scene& scene) {
  const Divergence& at = scene.at;
  const std::int64_t left_shares = trace::batch_shares_of(*scene.left.run);
  const std::int64_t right_shares = trace::batch_shares_of(*scene.right.run);
  const bool same_ranks = left_shares == right_shares;
  const std::string ranks = std::to_string(left_shares) + " and " + std::to_string(right_shares) + " ranks";
  if (same_ranks && micro_size(scene.left) != micro_size(scene.right))
    return {{"fp.batch_variance",
             {"each rank computes " + std::to_string(micro_size(scene.left)) + " samples at a time on one side, " +
              std::to_string(micro_size(scene.right)) + " on the other"}}};
  if (auto layouts = other_layouts(scene); at.channel == Channel::kGradient && same_ranks && !layouts.empty())
    return {{"fp.reduction_order", {layouts}}};
  if (at.channel == Channel::kGradient && same_ranks) {
    if (!same_own_gradients(scene) || !reduces_rightly(scene.left, at.step) || !reduces_rightly(scene.right, at.step))
      return {};
    return {{"fp.reduction_order",
             {"rank " + std::to_string(at.rank) +
              " has equal gradients of its own on both sides, and every rank holds the mean of all up to rounding"}}};
  }
  if (!same_ranks)
    return {{"fp.reduction_order", {"sums over a batch are cut into those of " + ranks}},
            {"fp.batch_variance", {"the ranks' batches have different sizes: " + ranks}}};
  if (trace::info(at.channel).part == trace::Part::kUpdated) {
    const laws::Held left(*scene.left.run, scene.left.rank, at.step),
        right(*scene.right.run, scene.right.rank, at.step);
    const bool same_gradients = laws::same(left, right, Channel::kGradient);
    return {{"fp.kernel_variant",
             {same_gradients ? "gradients are equal, and the update differs by rounding"
                             : "the update differs by rounding"}}};
  }
  return {};
}

}  // namespace

std::vector<Suspect> suspects_in_rounding(const Scene& scene) {
  const bool between_runs = scene.left && scene.right && !scene.within_one_run();
  if (scene.at.channel == Channel::kCollective && between_runs) return suspects_of_buckets(scene);
  if (scene.at.class_ != scenario::Class::kRounding) return {};
  std::vector<Suspect> found;
  if (between_runs) {
    found = suspects_of_recipes(scene.left.promises->train, scene.right.promises->train);
    if (found.empty()) found = suspects_of_size(scene.at);
    if (found.empty()) found = suspects_of_sums(scene);
  }
  if (found.empty()) found = {{"fp.rounding", {"rounding only, of unknown origin"}}};
  return found;
}

}  // namespace lockstep::diagnosis
