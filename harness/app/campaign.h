#pragma once

#include <filesystem>
#include <optional>
#include <vector>

#include "harness/launch/descriptor.h"
#include "harness/launch/launcher.h"
#include "harness/plan/plan.h"

namespace lockstep::app {

/// The runs of a plan in a folder that outlives this process. Each run that ends leaves its outcome in its own folder,
/// so that a later lockstep can go on with the others.
///
/// campaign.json names the runs and what each one computes and records. While a campaign is open, no other lockstep can
/// work in its folder.
class Campaign {
 public:
  /// Begins one in an empty folder. *Throws*: ResourceError.
  static Campaign begin(const plan::Plan& plan, const std::filesystem::path& folder);

  /// Goes on with one. Removes what runs without an end have left, unless a scheduler's job is at work on them: it is
  /// waited for. Cancels such jobs of control runs.
  /// *Throws*: InputError if the folder holds no campaign, or one of other runs; ResourceError.
  static Campaign resume(const plan::Plan& plan, const std::filesystem::path& folder);

  /// Outcomes of runs that need not be started, by run.
  const std::vector<std::optional<launch::RunOutcome>>& ended() const { return ended_; }

 private:
  explicit Campaign(const std::filesystem::path& file);

  launch::Descriptor lock_;
  std::vector<std::optional<launch::RunOutcome>> ended_;
};

/// Leaves the outcome of each run in its folder, then notifies `next`. One that cannot be written is lost: its run
/// starts again.
class OutcomeKeeper : public launch::Observer {
 public:
  /// *Lifetime*: of all three.
  OutcomeKeeper(const plan::Plan& plan, const std::filesystem::path& folder, launch::Observer& next)
      : plan_(plan), folder_(folder), next_(next) {}

  void running(const std::vector<launch::Standing>& runs) override { next_.running(runs); }
  void ended(std::size_t job, const launch::RunOutcome& outcome) override;

 private:
  const plan::Plan& plan_;
  const std::filesystem::path& folder_;
  launch::Observer& next_;
};

}  // namespace lockstep::app
