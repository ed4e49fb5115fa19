#include "harness/launch/place.h"

#include <algorithm>
#include <array>
#include <utility>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/launch/listener.h"
#include "harness/launch/place/arguments.h"
#include "harness/launch/place/manual.h"
#include "harness/launch/place/mpi.h"
#include "harness/launch/place/nodes.h"
#include "harness/launch/place/place_reader.h"
#include "harness/launch/place/slurm.h"
#include "harness/launch/place/torchrun.h"

namespace lockstep::launch {
namespace {

/// Where the processes of a launcher can stand among those of another.
enum class Nesting {
  kNone,    ///< it starts ranks, and no launcher runs below it
  kAgents,  ///< it starts ranks, or one agent of an inner launcher on each node
};

/// One kind of environment.
struct Kind {
  const char* name;
  std::array<const char*, 3> signs;  ///< variables any of which shows that a rank stands in one
  const char* rank;                  ///< the variable that holds what its place calls rank
  Place (*resolve)(Reader&);
  Nesting nesting = Nesting::kNone;
};

/// The innermost comes first: who starts a rank among agents of another launcher knows more of it.
constexpr Kind kKinds[] = {
    {"lockstep", {kSupervisorVariable}, "RANK", place_of_manual},
    {"arguments", {"rank=", "world_size=", "init_method="}, "rank=", place_of_arguments},
    {"torchrun", {"TORCHELASTIC_RUN_ID"}, "RANK", place_of_torchrun},
    {"nodes", {"NPROC_PER_NODE", "PET_NPROC_PER_NODE", "PET_N_PROC_PER_NODE"}, "RANK", place_of_nodes},
    {"open_mpi",
     {kOpenMpi.rank, kOpenMpi.size},
     kOpenMpi.rank,
     [](Reader& reader) { return place_of_mpi(reader, kOpenMpi); },
     Nesting::kAgents},
    {"mvapich",
     {kMvapich.rank, kMvapich.size},
     kMvapich.rank,
     [](Reader& reader) { return place_of_mpi(reader, kMvapich); },
     Nesting::kAgents},
    {"slurm", {"SLURM_PROCID", "SLURM_STEP_NUM_TASKS"}, "SLURM_PROCID", place_of_slurm, Nesting::kAgents},
    {"pmi", {kPmi.rank, kPmi.size}, kPmi.rank, [](Reader& reader) { return place_of_mpi(reader, kPmi); }},
    {"manual", {"RANK", "WORLD_SIZE"}, "RANK", place_of_manual},
};

bool shows(const Kind& kind, const Environment& environment) {
  return std::any_of(kind.signs.begin(), kind.signs.end(),
                     [&](const char* sign) { return sign != nullptr && environment.contains(sign); });
}

std::vector<const Kind*> kinds_in(const Environment& environment) {
  std::vector<const Kind*> found;
  for (const Kind& kind : kKinds) {
    // torchrun and platforms of nodes speak by the variables that a person would set.
    const bool same_variables = std::any_of(
        found.begin(), found.end(), [&](const Kind* inner) { return inner->rank == std::string_view(kind.rank); });
    if (shows(kind, environment) && !same_variables) found.push_back(&kind);
  }
  return found;
}

std::string said(const Kind& kind, const Place& place) {
  return std::string(kind.name) + ": rank " + std::to_string(place.rank) + " of " + std::to_string(place.world_size) +
         " (" + kind.rank + ")";
}

/// Number of processes that started ranks inside of those of `outer`, one on each node: what torchrun calls agents.
std::int64_t agents_of(const Kind& inner, const Environment& environment, const Place& place) {
  Reader reader(environment);
  if (inner.resolve == place_of_torchrun) return agents_of_torchrun(reader);
  return inner.nesting == Nesting::kAgents ? place.world_size : 0;  // mpirun under srun: a daemon on any of the nodes
}

/// Whether `outer` may have started what `inner` says.
bool agree(const Kind& inner, const Place& place, const Kind& outer, const Environment& environment) {
  // Asks for the number of processes alone: agents of a torchrun need no port from srun.
  Reader reader(environment);
  const std::int64_t rank = reader.number(outer.rank, {}).value_or(place.rank);
  const std::int64_t started = outer.resolve == place_of_slurm
                                   ? tasks_of_slurm(reader)
                                   : reader.number(outer.signs[1], {1, kMostRanks}).value_or(place.world_size);
  if (started == place.world_size && rank == place.rank) return true;
  if (outer.nesting != Nesting::kAgents) return false;
  const std::int64_t agents = agents_of(inner, environment, place);
  const bool is_mpi = inner.nesting == Nesting::kAgents;
  const bool is_daemon = outer.resolve != place_of_slurm || reader.number("SLURM_LOCALID", {}).value_or(0) == 0;
  if (is_mpi && !is_daemon) return false;  // mpirun starts one of them on a node
  return started == 1 || (is_mpi ? started <= agents : started == agents);
}

/// --local-rank= says what LOCAL_RANK says.
void merge_local_rank(Environment& variables) {
  const auto argument = variables.find("--local-rank=");
  if (argument == variables.end()) return;
  const auto [variable, is_new] = variables.emplace("LOCAL_RANK", argument->second);
  if (!is_new && variable->second != argument->second)
    refuse_contradiction("--local-rank and LOCAL_RANK", "equal numbers",
                         "--local-rank=" + argument->second + ", LOCAL_RANK=" + variable->second,
                         "torch.distributed.launch sets both: pass neither yourself");
}

constexpr const char* kNext =
    "start the worker with lockstep, torchrun, srun or mpirun, or with RANK, WORLD_SIZE and MASTER_PORT set; "
    "docs/launchers.md has the commands";

}  // namespace

Resolution resolve_place(const Environment& environment, const std::vector<std::string>& arguments) {
  Environment variables = environment;
  variables.merge(variables_of_arguments(arguments));
  merge_local_rank(variables);
  const std::vector<const Kind*> kinds = kinds_in(variables);
  if (kinds.empty()) {
    throw InputError({.what = "no launcher gave this rank its place",
                      .expected = "variables of a launcher, such as RANK and WORLD_SIZE",
                      .actual = "none is set",
                      .next = kNext});
  }
  const Kind& inner = *kinds.front();
  Reader reader(variables);
  Resolution resolution{.launcher = inner.name, .place = inner.resolve(reader)};
  const bool is_own = inner.signs[0] == kSupervisorVariable;  // whatever lockstep itself was started by
  for (std::size_t i = 1; i < kinds.size() && !is_own; ++i) {
    const Kind& outer = *kinds[i];
    if (agree(inner, resolution.place, outer, variables)) continue;
    Reader of_outer(variables);
    const bool by_size = !of_outer.has(outer.rank) && inner.signs[1] != nullptr;
    const char* const name = by_size ? outer.signs[1] : outer.rank;
    refuse_contradiction(
        std::string(by_size ? inner.signs[1] : inner.rank) + " and " + name,
        "two launchers that agree, or one launcher",
        said(inner, resolution.place) + "; " + outer.name + ": " + name + "=" + of_outer.text(name).value_or("not set"),
        "unset what is left over in this shell, or was exported by hand: env | grep -E "
        "'RANK|WORLD_SIZE|TORCHELASTIC|OMPI_|SLURM_'");
  }
  read_own(reader, resolution.place);
  resolution.variables = reader.found();
  return resolution;
}

void forget_place(Environment& environment) {
  forget_own_place(environment);
  for (const Kind& kind : kKinds) {
    for (const char* sign : kind.signs) {
      if (sign != nullptr && kind.resolve != place_of_nodes) environment.erase(sign);  // whose PET_ torchrun reads
    }
  }
  for (const char* name : {"LOCAL_RANK", "LOCAL_WORLD_SIZE", "GROUP_RANK", "GROUP_WORLD_SIZE", "ROLE_RANK",
                           "ROLE_WORLD_SIZE", "MASTER_ADDR", "MASTER_PORT", "SLURM_LOCALID", "SLURM_NODEID"})
    environment.erase(name);
  const auto is_of_launcher = [](const auto& variable) {
    constexpr std::string_view kPrefixes[] = {"TORCHELASTIC_", "OMPI_COMM_", "OMPI_MCA_ess", "OMPI_MCA_orte", "PMIX_"};
    return std::any_of(std::begin(kPrefixes), std::end(kPrefixes),
                       [&](std::string_view prefix) { return variable.first.starts_with(prefix); });
  };
  std::erase_if(environment, is_of_launcher);
}

Resolution place_of_this_process(const std::vector<std::string>& arguments) {
  Resolution resolution = resolve_place(whole_environment(), arguments);
  const Place& place = resolution.place;
  if (!place.store_prefix.empty() && !listens(place.master_address, place.master_port))
    throw InputError({.what = "the agent of torchrun that the environment names does not answer",
                      .where = place.master_address + ":" + std::to_string(place.master_port),
                      .expected = "its store, since TORCHELASTIC_USE_AGENT_STORE is set",
                      .actual = "no answer",
                      .next = "are variables of torchrun left over in this shell? unset TORCHELASTIC_RUN_ID and "
                              "TORCHELASTIC_USE_AGENT_STORE, or start the worker with torchrun"});
  return resolution;
}

}  // namespace lockstep::launch
