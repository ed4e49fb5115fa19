#pragma once

#include <filesystem>
#include <string>
#include <vector>

#include "harness/golden/golden_file.h"
#include "harness/golden/store.h"

namespace lockstep::golden {

/// A training that a run proposes as golden. Runs write proposals; only `lockstep golden accept` changes goldens.
struct Proposal {
  std::filesystem::path origin;  ///< file that it was read from
  Name name;
  std::string scenario_file;
  std::string golden_root;  ///< folder of the golden
  std::string verdict;      ///< of the golden check: "divergence", "baseline"
  std::string cause;        ///< id and evidence, or why there is nothing to compare with; empty: see the check
  std::string moved;        ///< how it differs from the golden
  /// Why it cannot be accepted as it is: an override that no file holds, a single run, another check that fails.
  std::vector<std::string> obstacles;
  Entry entry;

  /// "world-size/w3 (portable)".
  std::string text() const;
};

/// Folder of the proposals beside goldens. Version control ignores it.
std::filesystem::path pending_folder(const std::filesystem::path& root);

/// Writes a proposal into a folder, in the place of an older one of the same golden and key. *Throws*: ResourceError.
void write_proposal(const std::filesystem::path& folder, const Proposal& proposal);

/// Removes what is proposed for a golden. *Throws*: ResourceError.
void withdraw(const std::filesystem::path& folder, const Name& name, const std::string& key);

/// Proposals in a folder and its folders, sorted by scenario, variant and key; none if it is not there.
/// *Throws*: DamagedFile for a file that is no proposal.
std::vector<Proposal> proposals_in(const std::filesystem::path& folder);

/// *Throws*: InputError with all that stands in the way of a proposal.
void require_no_obstacles(const Proposal& proposal);

/// Puts a proposal into its golden, with date, person and reason of this acceptance, and removes it from pending/.
/// Folders elsewhere stay as they are.
/// *Throws*: as require_no_obstacles, and as the store.
Outcome accept(const Proposal& proposal, const Acceptance& acceptance, const std::filesystem::path& root);

}  // namespace lockstep::golden
