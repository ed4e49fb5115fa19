#include "harness/app/proposals_chosen.h"

#include <algorithm>

#include <fnmatch.h>

#include "harness/app/pipeline.h"
#include "harness/app/work_tree.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/golden/root.h"

namespace lockstep::app {

namespace fs = std::filesystem;

fs::path root_of_proposals(const fs::path& given) {
  return golden::root_of(fs::current_path() / "any.json", given).folder;
}

bool fits(const std::string& pattern, const std::string& name) {
  return ::fnmatch(pattern.c_str(), name.c_str(), 0) == 0;
}

std::vector<golden::Proposal> proposals_chosen(const std::vector<std::string>& patterns,
                                               const std::vector<fs::path>& from, const fs::path& given) {
  std::vector<fs::path> folders = from;
  if (folders.empty()) folders = {golden::pending_folder(root_of_proposals(given))};
  std::vector<golden::Proposal> all, matching;
  for (const fs::path& folder : folders) {
    if (!from.empty() && !is_folder(folder))
      throw InputError({.what = "there is no folder of proposals",
                        .where = "--from " + folder.string(),
                        .expected = "a folder that `lockstep run --propose` wrote"});
    for (golden::Proposal& proposal : golden::proposals_in(folder)) all.push_back(std::move(proposal));
  }
  std::vector<std::string> names;
  for (const golden::Proposal& proposal : all) names.push_back(proposal.name.scenario + "/" + proposal.name.variant);
  for (const std::string& pattern : patterns) {
    if (std::none_of(names.begin(), names.end(), [&](const std::string& name) { return fits(pattern, name); }))
      throw InputError(
          {.what = "neither a scenario nor a proposal has this name",
           .where = pattern,
           .expected = "a file, or proposals in " + folders[0].string() +
                       (names.empty() ? ": there are none" : ": " + some_of(names, 5)),
           .next = names.empty() ? "run the scenario: it proposes what differs" : suggest(pattern, names)});
  }
  for (std::size_t i = 0; i < all.size(); ++i) {
    const bool is_chosen = patterns.empty() || std::any_of(patterns.begin(), patterns.end(),
                                                           [&](const std::string& one) { return fits(one, names[i]); });
    if (is_chosen) matching.push_back(std::move(all[i]));
  }
  return matching;
}

void require_committed(const golden::Proposal& proposal, bool dirty) {
  if (dirty || !proposal.entry.history.at(0).commit.ends_with("with changes")) return;
  throw InputError({.what = "the sources of a proposal were not committed: no commit says how to make it again",
                    .where = proposal.text(),
                    .expected = "a run of committed sources",
                    .actual = proposal.entry.history[0].commit,
                    .next = "commit, and run it again; or add --dirty: the golden then says 'with changes'"});
}

golden::Outcome accept_proposal(const golden::Proposal& proposal, const std::string& reason, const fs::path& root) {
  const WorkTree tree = work_tree_of(proposal.scenario_file, root);
  return golden::accept(proposal, {.date = today(), .by = tree.by, .reason = reason}, root);
}

}  // namespace lockstep::app
