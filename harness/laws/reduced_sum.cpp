#include "harness/laws/reduced_sum.h"

#include <algorithm>
#include <cmath>
#include <map>
#include <string>

#include "harness/base/text.h"
#include "harness/laws/finite.h"
#include "harness/laws/held.h"
#include "harness/laws/scales.h"
#include "harness/laws/seen_facts.h"
#include "harness/trace/batch_share.h"

namespace lockstep::laws {
namespace {

using trace::Channel;
using trace::DType;
using trace::Record;

/// What a number below float16's range may lose when it is sent in float16: half of the smallest one.
constexpr double kHalfUnderflow = 0x1p-25;

/// A weight below it is shown as 0.
constexpr double kShownAsZero = 1e-9;

/// The least number that is infinite once it is rounded to a dtype of this roundoff.
double sent_as_infinity(double unit_roundoff) {
  return unit_roundoff == trace::unit_roundoff(DType::kFloat16) ? 65520 : INFINITY;
}

/// The local gradient of this name, which is looked for at `at` first; moves `at` to it. Null if there is none.
const Record* local_in(const trace::Step& step, const std::string& name, std::size_t& at) {
  const auto is_it = [&](const Record& record) {
    return record.channel == Channel::kGradientLocal && record.name == name;
  };
  if (at < step.records.size() && is_it(step.records[at])) return &step.records[at];
  const auto found = std::find_if(step.records.begin(), step.records.end(), is_it);
  if (found == step.records.end()) return nullptr;
  at = static_cast<std::size_t>(found - step.records.begin());
  return &*found;
}

/// Whether several backward passes of a step made local gradients of one parameter: "fc.weight", "fc.weight#1".
bool has_several(const trace::Step& step) {
  return std::any_of(step.records.begin(), step.records.end(), [](const Record& record) {
    return record.channel == Channel::kGradientLocal && record.name.find('#') != std::string::npos;
  });
}

/// The parts of a rank in a gradient whose passes are several, from the last one on; of passes that have a gradient of
/// their own each, that of this gradient.
std::vector<const Record*> locals_in(const Held& held, const std::string& name) {
  std::vector<const Record*> found;
  const bool is_one = held.find(Channel::kGradient, name + "#1") != nullptr;
  for (const Record* next = held.find(Channel::kGradientLocal, name); next != nullptr;
       next = held.find(Channel::kGradientLocal, name + "#" + std::to_string(found.size()))) {
    found.insert(found.begin(), next);
    if (is_one) break;
  }
  return found;
}

/// Local gradients of all ranks in a step.
class Locals {
 public:
  Locals(const trace::RunTrace& run, std::int64_t step) {
    for (std::size_t rank = 0; rank < run.ranks.size(); ++rank) {
      steps_.push_back(run.ranks[rank].find(step));
      shares_.push_back(trace::batch_share_of(run.ranks[rank]).number);
      held_.emplace_back();
      if (steps_.back() != nullptr && has_several(*steps_.back())) held_.back().emplace(run, rank, step);
    }
  }

  /// How many passes of a step may have made a gradient of this name.
  std::size_t passes(const std::string& name) const {
    std::size_t most = 1;
    for (const std::optional<Held>& held : held_) {
      if (held) most = std::max(most, locals_in(*held, name).size());
    }
    return most;
  }

  /// Whether ranks that compute one share of the batch together hold other gradients of it. Each is reduced with those
  /// of its own place, and no mean of all ranks is promised.
  bool differ_within_a_share(const std::string& name) const {
    std::map<std::int64_t, const Record*> first;
    for (std::size_t rank = 0; rank < steps_.size(); ++rank) {
      const Record* own = steps_[rank] == nullptr ? nullptr : steps_[rank]->find(Channel::kGradientLocal, name);
      if (own == nullptr) continue;
      const auto [known, is_new] = first.try_emplace(shares_[rank], own);
      if (!is_new && !trace::same_bits(known->second, own)) return true;
    }
    return false;
  }

  /// `reduced` of those of a name; a rank that has none adds nothing. `back`: how many passes before the last one.
  Equation equation(const Record& reduced, const std::string& name, std::size_t back) const {
    Equation equation{.target = &*reduced.sketch, .terms = {}};
    std::size_t at = 0;  // of the rank before: ranks record the same tensors in the same order, as a rule
    for (std::size_t rank = 0; rank < steps_.size(); ++rank) {
      const Record* own = nullptr;
      if (held_[rank]) {
        const std::vector<const Record*> all = locals_in(*held_[rank], name);
        if (!all.empty()) own = all[std::min(back, all.size() - 1)];
      } else if (steps_[rank] != nullptr) {
        own = local_in(*steps_[rank], name, at);
      }
      equation.terms.push_back(own == nullptr || !own->sketch ? nullptr : &*own->sketch);
    }
    return equation;
  }

 private:
  std::vector<const trace::Step*> steps_;
  std::vector<std::int64_t> shares_;
  std::vector<std::optional<Held>> held_;  ///< of those with several passes
};

double weight_of(const trace::RunTrace& run, const scenario::Promises& promises) {
  const Json fsdp = fsdp_of(run);
  if (fsdp.contains("divide_factor") && fsdp["divide_factor"].is_number())
    return 1 / fsdp["divide_factor"].get<double>();
  return promises.train.ddp.average ? 1.0 / static_cast<double>(promises.world_size) : 1.0;
}

}  // namespace

double sent_roundoff(const trace::RunTrace& run, const scenario::Promises& promises) {
  static const std::map<std::string, DType> kShort = {{"float16", DType::kFloat16}, {"bfloat16", DType::kBFloat16}};
  if (const auto asked = kShort.find(fsdp_of(run).value("reduce_dtype", "")); asked != kShort.end())
    return trace::unit_roundoff(asked->second);
  const recipe::Compression compression = promises.train.ddp.compression;
  if (compression == recipe::Compression::kFp16) return trace::unit_roundoff(DType::kFloat16);
  return trace::unit_roundoff(compression == recipe::Compression::kBf16 ? DType::kBFloat16 : DType::kFloat32);
}

ReductionLaw::ReductionLaw(const trace::RunTrace& run, double weight, double unit_roundoff)
    : run_(run), weight_(weight), unit_roundoff_(unit_roundoff) {}

ReductionLaw::ReductionLaw(const trace::RunTrace& run, const scenario::Promises& promises)
    : ReductionLaw(run, weight_of(run, promises), sent_roundoff(run, promises)) {}

Reduction ReductionLaw::judge(std::int64_t step, std::int64_t rank) const {
  Reduction result;
  const trace::Step* own_step = run_.ranks.at(static_cast<std::size_t>(rank)).find(step);
  if (own_step == nullptr) return result;
  const auto ranks = static_cast<double>(run_.world_size());
  const std::vector<double> promised(run_.ranks.size(), weight_);
  const Locals locals(run_, step);
  // Passes that were reduced in turn, each of which rounds.
  const auto passes = static_cast<double>(std::max<std::int64_t>(seen_count(*own_step, "reduced_passes"), 1));
  std::vector<Equation> broken;
  const Record* handed_out = nullptr;  // before what the script made of it
  for (const Record& record : own_step->records) {
    if (record.channel != Channel::kGradient || !record.sketch) continue;
    if (is_handed_out(record)) handed_out = &record;
    if (!is_plain(record)) continue;
    const Record& reduced =
        handed_out != nullptr && handed_out->name.ends_with(" " + record.name) ? *handed_out : record;
    const Equation equation = locals.equation(reduced, record.name, 0);
    const double roundoff = std::max(unit_roundoff_, trace::unit_roundoff(record.dtype));
    bool any = false, all_finite = true;
    for (const trace::Sketch* term : equation.terms) {
      if (term == nullptr) continue;
      any = true;
      all_finite = all_finite && std::isfinite(term->norm) && term->max_abs < sent_as_infinity(roundoff);
    }
    // Gradients that are not finite, of a scaled loss that overflows, make a reduced one that is not.
    if (!any) continue;
    if (!all_finite && !is_finite(reduced)) {
      result.lost.push_back(record.name);
      continue;
    }
    const double error = count_of(record) > static_cast<double>(trace::Sketch::kBuckets) ? kSketchError : 1;
    const double underflow = roundoff == trace::unit_roundoff(DType::kFloat16) ? kHalfUnderflow : kLeastNormal;
    const auto bound_of = [&](const Equation& of) {
      double addends = 0;
      for (const trace::Sketch* term : of.terms) addends += term == nullptr ? 0 : term->norm;
      return error * passes * (ranks + 2) *
             (2 * roundoff * weight_ * addends + underflow * std::sqrt(count_of(record)));
    };
    const double bound = bound_of(equation), distance = distance_to(equation, promised);
    bool fits = distance <= bound;
    // A pass after the update may have made gradients that no update uses, as a generator's does in its discriminator.
    for (std::size_t back = 1; !fits && back < locals.passes(record.name); ++back) {
      const Equation earlier = locals.equation(reduced, record.name, back);
      fits = distance_to(earlier, promised) <= bound_of(earlier);
    }
    if (!fits && locals.differ_within_a_share(record.name)) continue;
    result.judged.push_back(record.name);
    if (fits) continue;
    if (result.broken.empty()) {
      result.distance = distance;
      result.bound = bound;
    }
    result.broken.push_back(record.name);
    broken.push_back(equation);
  }
  result.weights = recover(broken);
  return result;
}

bool changed_by_hand(const trace::RunTrace& run, std::int64_t step) {
  return std::any_of(run.ranks.begin(), run.ranks.end(), [&](const trace::Trace& rank) {
    const trace::Step* found = rank.find(step);
    return found != nullptr && seen_count(*found, "changed") > 0;
  });
}

bool hold_alike_shards(const trace::Step& step, const std::vector<std::string>& names) {
  const auto alike = std::count_if(names.begin(), names.end(), [&](const std::string& name) {
    const Record* gradient = step.find(Channel::kGradient, name);
    return gradient != nullptr && gradient->is_repeated;
  });
  return 2 * static_cast<std::size_t>(alike) > names.size();
}

std::optional<std::int64_t> ReductionLaw::first_broken(std::int64_t step) const {
  for (std::int64_t rank = 0; rank < run_.world_size(); ++rank) {
    if (!judge(step, rank).broken.empty()) return rank;
  }
  return std::nullopt;
}

std::string to_text(const Combination& combination) {
  std::string text;
  for (const double coefficient : combination.coefficients)
    text += (text.empty() ? "" : ", ") + rounded(std::fabs(coefficient) < kShownAsZero ? 0 : coefficient, 5);
  return text;
}

}  // namespace lockstep::laws
