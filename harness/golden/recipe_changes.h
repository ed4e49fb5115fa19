#pragma once

#include <string>
#include <vector>

#include "harness/golden/golden_file.h"
#include "harness/scenario/changes.h"
#include "harness/scenario/scenario.h"

namespace lockstep::golden {

/// Values that a recipe has otherwise than when the golden was accepted; what is recorded is no part of it. Keys that
/// have been added to the schema since count with their defaults.
std::vector<scenario::Change> changes_of_recipe(const Entry& golden, const scenario::Variant& variant);

/// Those that its digest covers, as texts: "train.optimizer.lr 0.1 -> 0.2".
std::vector<std::string> changed_keys(const Entry& golden, const scenario::Variant& variant);

/// Whether a recipe's digest leaves a key out: names of files and variants, whose content it holds, and what a control
/// run needs.
bool is_left_out_of_digest(const std::string& path, const scenario::Variant& variant);

}  // namespace lockstep::golden
