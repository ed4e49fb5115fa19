#include <cmath>

#include "harness/base/text.h"
#include "harness/laws/held.h"
#include "harness/laws/law.h"

namespace lockstep::laws {
namespace {

using trace::Channel;

/// torch adds the squares of all elements in float32, and 1e-6 to the norm: relative to the threshold's factor.
constexpr double kNormError = 1e-3;

/// Gradients before the recipe's clipping: unscaled where a step unscales.
std::map<std::string, const trace::Record*> before_clipping(const Held& held) {
  std::map<std::string, const trace::Record*> last;
  for (const trace::Record* record : held.all(Channel::kGradient)) {
    if (!record->name.starts_with("clipped ")) last[parameter_of(record->name)] = record;
  }
  return last;
}

}  // namespace

std::string no_clipping_asked(const trace::RunTrace&, const scenario::Promises& promises) {
  return promises.known || promises.train.gradient.clip_norm ? ""
                                                             : "the recipe does not clip the norm of its gradients";
}

Outcome judge_clipping(const trace::RunTrace& run, const scenario::Promises& promises) {
  const scenario::GradientSpec& recipe = promises.train.gradient;
  if (promises.known) return cannot_tell("nobody promises how this program clips its gradients");
  if (recipe.clip_value) return cannot_tell("the recipe clips each element, too: sketches cannot tell that");
  Outcome outcome;
  for_each_state(run, [&](std::int64_t step, std::int64_t rank, const Held& held) {
    const auto before = before_clipping(held);
    const double norm = total_norm(before);
    if (before.empty() || !std::isfinite(norm)) return true;
    const double factor = std::min(1.0, *recipe.clip_norm / (norm + 1e-6));
    const bool near = norm > (1 - kNormError) * *recipe.clip_norm;
    for (const auto& [name, gradient] : before) {
      const trace::Record* clipped = held.find(Channel::kGradient, "clipped " + name);
      const Rule rule{.target = clipped == nullptr ? gradient : clipped,
                      .terms = {{factor, gradient}},
                      .relative = near ? kNormError : 0};
      if (keeps(outcome, rule, step, rank)) continue;
      outcome.broken->expected = "the gradient times " + rounded(factor, 5);
      outcome.broken->relation = "norm of all gradients: before " + rounded(norm, 5) + ", after " +
                                 rounded(total_norm(final_gradients(held)), 5) + ", threshold " +
                                 to_decimal(*recipe.clip_norm);
      return false;
    }
    return true;
  });
  return outcome;
}

}  // namespace lockstep::laws
