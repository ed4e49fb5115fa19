#include "harness/compare/environments.h"
#include "harness/diagnosis/diagnosers.h"

namespace lockstep::diagnosis {
namespace {

using compare::Suspect;

/// Causes in a run whose ranks do not run alike.
std::vector<Suspect> suspects_within(const Side& side) {
  const auto found = compare::rank_elsewhere(*side.run);
  return found ? found->suspects() : std::vector<Suspect>();
}

std::vector<Suspect> suspects_in_threads(const Scene& scene) {
  const auto threads_of = [](const Side& side) {
    const Json environment = side.run->ranks[0].header.value("environment", Json());
    return environment.is_object() ? environment.value("threads", Json()) : Json();
  };
  const Json left = threads_of(scene.left), right = threads_of(scene.right);
  if (left.is_null() || right.is_null() || left == right) return {};
  return {{"fp.thread_count",
           {scene.left.run->run + " has " + left.dump() + " threads, " + scene.right.run->run + " " + right.dump()}}};
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
  // A variable asks for threads; their number is why.
  auto threads = suspects_in_threads(scene);
  if (!threads.empty() && !accuses(found, "fp.library_version")) {
    threads.insert(threads.end(), found.begin(), found.end());
    return threads;
  }
  return found;
}

}  // namespace lockstep::diagnosis
