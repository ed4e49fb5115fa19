#pragma once

#include <chrono>
#include <cstddef>
#include <set>
#include <string>
#include <vector>

#include "harness/launch/launcher.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// Says on stderr how the runs of a plan fare.
///
/// On a terminal: one line that changes up to ten times a second (runs done, those that go with their steps, time
/// left), and is gone in the end. Elsewhere, and where TERM is dumb: one line for each run as it ends.
class Display : public launch::Observer {
 public:
  /// *Lifetime*: borrows the plan.
  explicit Display(const plan::Plan& plan);
  ~Display() override;
  Display(const Display&) = delete;
  Display& operator=(const Display&) = delete;

  void running(const std::vector<launch::Standing>& runs) override;
  void ended(std::size_t job, const launch::RunOutcome& outcome) override;

 private:
  using Clock = std::chrono::steady_clock;

  /// As many of the runs that go as fit whole into `width` columns, and how many more there are.
  std::string line_of(const std::vector<launch::Standing>& runs, std::size_t width) const;
  std::string time_left(const std::vector<launch::Standing>& runs) const;

  const plan::Plan& plan_;
  bool live_ = false;
  Clock::time_point begin_ = Clock::now();
  Clock::time_point drawn_at_;
  std::string drawn_;  ///< what stands on the terminal
  std::set<std::size_t> done_;
};

}  // namespace lockstep::app
