#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/local_run.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {

/// Ranks as processes of this machine.
///
/// A job has room while `world_size` of `max_processes` places are free; one that is larger runs alone.
///
/// Ranks learn their place as torchrun tells it (place/torchrun.h). Rank 0 also inherits a listening socket on the
/// master's port, so that no rank can come too early. Every rank inherits the read end of a pipe whose write end closes
/// when this process dies: a rank that is not started directly, but by a script, can watch it.
///
/// After the first failure the others get two seconds to fail by themselves, for their evidence, then they are ended.
/// Every rank dies with the thread that starts it, whatever kills it. Nothing that a rank has started outlives its run,
/// not even in another session, as long as it keeps LOCKSTEP_RUN_ID in its environment.
class LocalLauncher : public Launcher {
 public:
  explicit LocalLauncher(int max_processes) : max_processes_(max_processes) {}

  void require(const Job& job) const override;
  bool has_room_for(const Job& job) const override;
  void start(std::size_t number, const Job& job) override;
  std::vector<Ended> wait() override;
  std::vector<Standing> standing() const override;
  void interrupt(int signal) override;

 private:
  struct Active {
    std::size_t number;
    std::int64_t world_size;
    LocalRun run;
  };

  std::int64_t max_processes_;
  OrphanKeeper orphans_;
  Lifeline lifeline_;
  std::list<Active> runs_;
};

}  // namespace lockstep::launch
