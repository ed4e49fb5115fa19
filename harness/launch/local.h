#pragma once

#include <chrono>
#include <cstdint>
#include <list>
#include <vector>

#include "harness/launch/fork_server.h"
#include "harness/launch/launcher.h"
#include "harness/launch/lifeline.h"
#include "harness/launch/local_run.h"
#include "harness/launch/processes.h"

namespace lockstep::launch {

/// Runs ranks as processes on this machine.
///
/// A job has room while `world_size` of `max_processes` places are free. A larger job runs alone. One whose ranks a
/// scheduler starts takes no place.
///
/// Ranks learn their place from variables (place/manual.h). Rank 0 also inherits a socket that listens on
/// the master's port, so no rank can connect too early. Every rank inherits the read end of a lifeline: a rank started
/// through a script can watch it.
///
/// Ranks of a job with a fork group are forked by a server, others executed.
///
/// After the first failure, the other ranks have two seconds to fail by themselves and write their evidence. Then they
/// are ended. Every executed rank dies with the thread that started it, a forked one with this process. Processes that
/// a rank started end with the run, even in another session, if they keep LOCKSTEP_RUN_ID in their environment.
class LocalLauncher : public Launcher {
 public:
  /// *Lifetime*: borrows `servers`.
  LocalLauncher(int max_processes, ForkServers& servers) : max_processes_(max_processes), servers_(servers) {}

  void require(const Job& job) const override;
  bool has_room_for(const Job& job) const override;
  void start(std::size_t number, const Job& job) override;
  std::vector<Ended> wait() override;
  std::vector<Standing> standing() const override;
  void interrupt(int signal) override;

 private:
  struct Active {
    std::size_t number;
    const Job& job;
    LocalRun run;
  };

  std::int64_t max_processes_;
  ForkServers& servers_;
  OrphanKeeper orphans_;
  Lifeline lifeline_;
  std::list<Active> runs_;
};

}  // namespace lockstep::launch
