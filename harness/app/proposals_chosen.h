#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/golden/proposal.h"

namespace lockstep::app {

/// Folder of goldens that proposals belong to. `given`: --golden; empty: that of the current directory.
std::filesystem::path root_of_proposals(const std::filesystem::path& given);

/// Whether a name such as "world-size/w3" fits a pattern: "world-size/*".
bool fits(const std::string& pattern, const std::string& name);

/// Proposals of these folders (none given: pending/ in the folder of goldens) that one of the patterns matches:
/// "world-size/w3", "world-size/*", "*". No pattern: all.
/// *Throws*: InputError for a pattern that matches none.
std::vector<golden::Proposal> proposals_chosen(const std::vector<std::string>& patterns,
                                               const std::vector<std::filesystem::path>& from,
                                               const std::filesystem::path& given);

/// *Throws*: InputError if the sources of a proposal were not committed, unless `dirty`.
void require_committed(const golden::Proposal& proposal, bool dirty);

/// Accepts it today, by the one who works here.
golden::Outcome accept_proposal(const golden::Proposal& proposal, const std::string& reason,
                                const std::filesystem::path& root);

}  // namespace lockstep::app
