#pragma once

#include <exception>
#include <functional>
#include <map>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/experiment/investigation.h"
#include "harness/plan/plan.h"

#include "tests/support/support.h"
#include "tests/support/tiny/worker_training.h"

namespace lockstep::test {

/// Runs plans in memory: what experiment::Execute asks for, in milliseconds and without processes.
class MemoryWorker {
 public:
  /// Makes all runs below a folder.
  explicit MemoryWorker(std::filesystem::path folder) : folder_(std::move(folder)) {}

  /// Changes the training of a run that is made again, or of any run before it is made, as a machine would that does
  /// not do the same twice. `where`: "float64/tiny/one/0"; of first runs "tiny/one/0".
  std::function<void(const std::string& where, scenario::Variant& variant)> otherwise;

  /// Whether a run dies.
  std::function<bool(const std::string& where)> dies;

  /// The runs of a plan, in a folder; "" for first runs.
  std::vector<judge::Evidence> run(plan::Plan& plan, const std::string& folder);

  /// The seam of investigations. *Lifetime*: of the worker.
  experiment::Execute execute() {
    return [this](plan::Plan& plan, const experiment::Again& again) {
      try {
        return run(plan, again.folder);
      } catch (const std::exception& error) {  // which an investigation would take for a trial without result
        ADD_FAILURE() << again.folder << ": " << error.what();
        throw;
      }
    };
  }

  /// Folders of the plans that were run, in order.
  const std::vector<std::string>& folders() const { return folders_; }
  bool made(const std::string& folder) const;

  /// Number of runs of a folder's plans.
  std::size_t runs_in(const std::string& folder) const { return runs_.contains(folder) ? runs_.at(folder) : 0; }

 private:
  judge::Evidence evidence_of(const plan::Plan& plan, const plan::Run& run, const std::string& folder);

  std::filesystem::path folder_;
  std::vector<std::string> folders_;
  std::map<std::string, std::size_t> runs_;
  std::map<std::string, Snapshots> saved_;  ///< by name of the run, of one plan
  std::uint64_t chance_ = 0;
};

}  // namespace lockstep::test
