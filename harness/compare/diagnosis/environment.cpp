#include "harness/compare/diagnosis/environment.h"

#include "harness/compare/environment.h"

namespace lockstep::compare {
namespace {

Json manifest(const trace::RunTrace& run, std::size_t rank) {
  return run.ranks[rank].header.value("environment", Json::object());
}

std::string name_of_rank(const trace::RunTrace& run, std::size_t rank) {
  return run.run + " rank " + std::to_string(rank);
}

/// Of a run whose ranks do not run alike.
std::vector<Suspect> suspects_within(const Side& side) {
  const auto found = rank_elsewhere(*side.run);
  if (!found) return {};
  return suspects_of_environments(manifest(*side.run, found->other), manifest(*side.run, found->odd),
                                  name_of_rank(*side.run, found->other), name_of_rank(*side.run, found->odd));
}

bool ask_for_one_environment(const scenario::DeterminismSpec& a, const scenario::DeterminismSpec& b) {
  return a.threads == b.threads && a.cpu == b.cpu && a.algorithms == b.algorithms &&
         a.cudnn_deterministic == b.cudnn_deterministic && a.cudnn_benchmark == b.cudnn_benchmark && a.tf32 == b.tf32;
}

}  // namespace

std::vector<Suspect> suspects_in_environment(const Scene& scene) {
  if (scene.at.class_ != name_of(Class::kRounding)) return {};
  auto found = between(scene, suspects_within);
  if (!found.empty() || !scene.left || !scene.right || scene.within_one_run()) return found;
  if (!ask_for_one_environment(scene.left.variant->train.determinism, scene.right.variant->train.determinism))
    return {};
  return suspects_of_environments(manifest(*scene.left.run, 0), manifest(*scene.right.run, 0), scene.left.run->run,
                                  scene.right.run->run);
}

}  // namespace lockstep::compare
