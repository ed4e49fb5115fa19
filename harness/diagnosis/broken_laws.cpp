#include <algorithm>

#include "harness/diagnosis/diagnosers.h"
#include "harness/diagnosis/program_facts.h"
#include "harness/laws/law.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

/// The breach of a law whose cause its numbers prove; nothing where it holds, or tells no cause.
std::optional<laws::Breach> breach_of(const laws::Law& law, const Side& side, std::int64_t until) {
  if (law.judge == nullptr || law.needs_promise) return std::nullopt;
  if (law.unasked != nullptr && !law.unasked(*side.run, *side.promises).empty()) return std::nullopt;
  const laws::Outcome outcome = laws::ask(law, *side.run, *side.promises);
  const bool tells = outcome.broken && !outcome.broken->cause.empty() && outcome.broken->at.step <= until;
  return tells ? outcome.broken : std::nullopt;
}

}  // namespace

std::vector<Suspect> suspects_in_broken_laws(const Scene& scene) {
  if (!is_between_programs(scene)) return {};
  // Before the first update nothing breaks a law. What a side did not record may be missing for a later breach.
  const std::int64_t until =
      scene.at.lacks(compare::Missing::kRecord) ? compare::kNoStep : std::max<std::int64_t>(scene.at.step, 0);
  for (const laws::Law& law : laws::all_laws()) {
    const auto left = breach_of(law, scene.left, until), right = breach_of(law, scene.right, until);
    if (left.has_value() == right.has_value()) continue;
    const Side& side = left ? scene.left : scene.right;
    const laws::Breach& breach = left ? *left : *right;
    return {
        {breach.cause,
         {place_of(*side.run, breach.at.step) + ": the law " + std::string(law.name) + " is broken: " + breach.evidence,
          "the other side keeps it"}}};
  }
  return {};
}

}  // namespace lockstep::diagnosis
