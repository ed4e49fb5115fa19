#include "harness/diagnosis/environment.h"

#include "harness/compare/environment.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

/// Of a run whose ranks do not run alike.
std::vector<Suspect> suspects_within(const Side& side) {
  const auto found = compare::rank_elsewhere(*side.run);
  return found ? found->suspects() : std::vector<Suspect>();
}

bool ask_for_one_environment(const scenario::Promises& a, const scenario::Promises& b) {
  return a.train.determinism == b.train.determinism;
}

}  // namespace

std::vector<Suspect> suspects_in_environment(const Scene& scene) {
  if (scene.at.class_ != scenario::Class::kRounding) return {};
  auto found = between(scene, suspects_within);
  if (!found.empty() || !scene.left || !scene.right || scene.within_one_run()) return found;
  if (!ask_for_one_environment(*scene.left.promises, *scene.right.promises)) return {};
  found = compare::suspects_between({scene.left.run, 0}, {scene.right.run, 0});
  for (Suspect& suspect : found) {
    if (suspect.cause == "env.version_mismatch") suspect.cause = "fp.library_version";
  }
  return found;
}

}  // namespace lockstep::diagnosis
