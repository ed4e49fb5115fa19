#pragma once

#include <chrono>
#include <cstddef>
#include <map>
#include <optional>
#include <set>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/plan/plan.h"
#include "harness/report/renderer.h"

namespace lockstep::app {

/// Columns of a terminal that a line may fill. The last stays free, since some terminals wrap when it is written.
/// Nothing where the descriptor is none of a terminal.
std::optional<std::size_t> columns_of(int descriptor);

/// Says on stderr how the runs of a plan fare.
///
/// On a terminal: one line that changes up to ten times a second (runs done, those that go with their steps, time
/// left), and is gone in the end. Elsewhere, and where TERM is dumb: one line for each scenario as its last run ends,
/// and one for each run that ends badly. Verbose: one for each run. Quiet: only those that end badly.
class Display : public launch::Observer {
 public:
  /// *Lifetime*: borrows the plan.
  Display(const plan::Plan& plan, report::Verbosity verbosity);
  ~Display() override;
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  void running(const std::vector<launch::Standing>& runs) override;
  void ended(std::size_t job, const launch::RunOutcome& outcome) override;

 private:
  using Clock = std::chrono::steady_clock;

  void print_run(const launch::RunOutcome& outcome) const;
  /// If all of its runs have ended.
  void print_scenario(const std::string& name) const;

  /// As many of the runs that go as fit whole into `width` columns, and how many more there are.
  std::string line_of(const std::vector<launch::Standing>& runs, std::size_t width) const;
  std::string time_left(const std::vector<launch::Standing>& runs) const;

  /// Runs of one scenario.
  struct Runs {
    std::size_t all = 0, ended = 0, finished = 0;
  };

  const plan::Plan& plan_;
  report::Verbosity verbosity_;
  bool live_ = false;
  std::map<std::string, Runs> scenarios_;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_at_;
  std::string drawn_;  ///< what stands on the terminal
  std::set<std::size_t> done_;
};

}  // namespace lockstep::app
