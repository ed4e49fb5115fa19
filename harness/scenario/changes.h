#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// One value in which two trainings differ.
struct Change {
  std::vector<std::string> keys;  ///< from the outermost; a program's option may hold a dot
  Json left, right;               ///< null: not there

  /// "train.optimizer.lr"
  std::string path() const;

  /// "train.optimizer.lr 0.1 -> 0.2".
  std::string text() const;
};

/// Every value in which two documents differ; of a choice of another kind the whole choice. `keys`: of the documents.
std::vector<Change> changes_between(const Json& left, const Json& right, const std::vector<std::string>& keys = {});

/// The patch (RFC 7386: null removes) that makes these changes.
Json patch_of(const std::vector<Change>& changes);

}  // namespace lockstep::scenario
