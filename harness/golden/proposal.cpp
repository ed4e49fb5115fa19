#include "harness/golden/proposal.h"

#include <algorithm>
#include <system_error>
#include <tuple>

#include "harness/base/files.h"
#include "harness/base/text.h"

namespace lockstep::golden {
namespace {

namespace fs = std::filesystem;

constexpr const char* kProposalFormat = "lockstep.proposal/1";
constexpr const char* kIgnored = ".gitignore";

fs::path file_of(const fs::path& folder, const Name& name, const std::string& key) {
  return folder / name.scenario / (name.variant + "." + key + ".json");
}

Json json_of(const Proposal& proposal) {
  const Golden golden{
      .scenario = proposal.name.scenario, .variant = proposal.name.variant, .entries = {proposal.entry}};
  return {{"format", kProposalFormat},        {"scenario", proposal.name.scenario},
          {"variant", proposal.name.variant}, {"key", proposal.entry.key},
          {"file", proposal.scenario_file},   {"goldens", proposal.golden_root},
          {"verdict", proposal.verdict},      {"cause", proposal.cause},
          {"moved", proposal.moved},          {"obstacles", proposal.obstacles},
          {"golden", to_text(golden)}};
}

Proposal proposal_from(const fs::path& file) {
  try {
    const Json json = read_json(file);
    if (json.at("format") != kProposalFormat) throw std::runtime_error("another format");
    Golden golden = golden_from(json.at("golden"), file.string());
    return {.origin = file,
            .name = {golden.scenario, golden.variant},
            .scenario_file = json.at("file"),
            .golden_root = json.at("goldens"),
            .verdict = json.at("verdict"),
            .cause = json.at("cause"),
            .moved = json.at("moved"),
            .obstacles = json.at("obstacles").get<std::vector<std::string>>(),
            .entry = std::move(golden.entries.at(0))};
  } catch (const std::exception& error) {
    throw DamagedFile({.what = std::string("a file is no proposal of a golden: ") + error.what(),
                       .where = file.string(),
                       .expected = kProposalFormat,
                       .next = "remove it, and run the scenario again"});
  }
}

}  // namespace

std::string Proposal::text() const { return name.scenario + "/" + name.variant + " (" + entry.key + ")"; }

fs::path pending_folder(const fs::path& root) { return root / "pending"; }

void write_proposal(const fs::path& folder, const Proposal& proposal) {
  const fs::path file = file_of(folder, proposal.name, proposal.entry.key);
  make_directories(file.parent_path());
  if (!is_there(folder / kIgnored)) replace_file(folder / kIgnored, "*\n");
  replace_file(file, json_of(proposal).dump(1, ' ', false, Json::error_handler_t::replace) + "\n");
}

void withdraw(const fs::path& folder, const Name& name, const std::string& key) {
  const fs::path file = file_of(folder, name, key);
  std::error_code error;
  fs::remove(file, error);
  if (error) throw ResourceError({.what = "cannot remove a proposal: " + error.message(), .where = file.string()});
}

std::vector<Proposal> proposals_in(const fs::path& folder) {
  std::vector<Proposal> all;
  if (!is_there(folder)) return all;
  for (const std::string& name : files_below(folder)) {
    if (name.ends_with(".json")) all.push_back(proposal_from(folder / name));
  }
  std::sort(all.begin(), all.end(), [](const Proposal& a, const Proposal& b) {
    return std::tie(a.name.scenario, a.name.variant, a.entry.key) <
           std::tie(b.name.scenario, b.name.variant, b.entry.key);
  });
  return all;
}

void require_no_obstacles(const Proposal& proposal) {
  if (proposal.obstacles.empty()) return;
  throw InputError({.what = "a proposal cannot be accepted: " + join(proposal.obstacles, "; "),
                    .where = proposal.text(),
                    .next = "lockstep golden accept " + shell_quoted(proposal.scenario_file) + " --reason '…'"});
}

Outcome accept(const Proposal& proposal, const Acceptance& acceptance, const fs::path& root) {
  require_no_obstacles(proposal);
  Entry entry = proposal.entry;
  entry.history.at(0).date = acceptance.date;
  entry.history[0].by = acceptance.by;
  entry.history[0].reason = acceptance.reason;
  const Outcome outcome =
      accept(golden_file(root, proposal.name.scenario, proposal.name.variant), proposal.name, entry);
  const fs::path pending = file_of(pending_folder(root), proposal.name, "any").parent_path();
  const bool is_pending = proposal.origin.parent_path().lexically_normal() == pending.lexically_normal();
  std::error_code ignored;  // it is accepted in any case
  if (is_pending) fs::remove(proposal.origin, ignored);
  return outcome;
}

}  // namespace lockstep::golden
