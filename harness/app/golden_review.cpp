// lockstep golden review, reject: proposals of runs, one by one.
#include <algorithm>
#include <cmath>
#include <cstdio>
#include <system_error>

#include <CLI/CLI.hpp>
#include <termios.h>
#include <unistd.h>

#include "harness/app/acceptance.h"
#include "harness/app/golden_command.h"
#include "harness/app/pipeline.h"
#include "harness/app/proposals_chosen.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/golden/curve.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

struct ReviewOptions {
  std::vector<std::string> patterns;
  std::vector<fs::path> from;
  fs::path golden_root;
  std::string reason;
  fs::path json;
  bool dirty = false;
  bool dry_run = false;
  bool in_ci = false;
};

/// Keys are read at once, and not shown, as long as it lives.
class KeyByKey {
 public:
  KeyByKey() : is_set_(::tcgetattr(STDIN_FILENO, &before_) == 0) {
    termios raw = before_;
    raw.c_lflag &= ~static_cast<tcflag_t>(ICANON | ECHO);
    if (is_set_) ::tcsetattr(STDIN_FILENO, TCSANOW, &raw);
  }
  ~KeyByKey() {
    if (is_set_) ::tcsetattr(STDIN_FILENO, TCSANOW, &before_);
  }
  KeyByKey(const KeyByKey&) = delete;
  KeyByKey& operator=(const KeyByKey&) = delete;

 private:
  termios before_{};
  bool is_set_;
};

/// Nothing at the end of the input.
std::optional<char> read_key() {
  char key = 0;
  return ::read(STDIN_FILENO, &key, 1) == 1 ? std::optional(key) : std::nullopt;
}

/// A line that a person types; empty at the end of the input.
std::string read_typed_line() {
  std::string line;
  for (auto key = read_key(); key && *key != '\n'; key = read_key()) line += *key;
  return line;
}

std::string shown_proposal(const golden::Proposal& proposal, const fs::path& root) {
  std::string page = proposal.text() + "\n";
  const auto add = [&page](const char* name, const std::string& text) {
    if (!text.empty()) page += "  " + padded(name, 9) + "  " + printable(text) + "\n";
  };
  add("verdict", proposal.verdict);
  add("cause", proposal.cause);
  add("moved", proposal.moved);
  try {
    const auto golden = golden::read_golden(golden::golden_file(root, proposal.name.scenario, proposal.name.variant));
    const golden::Entry* const before = golden ? golden->find(proposal.entry.key) : nullptr;
    if (before != nullptr) page += "  golden     " + golden::bars_of(golden::losses_of(before->run)) + "\n";
  } catch (const Error& error) {
    add("golden", error.problem().what);
  }
  page += "  proposed   " + golden::bars_of(golden::losses_of(proposal.entry.run)) + "\n";
  for (const std::string& obstacle : proposal.obstacles) add("but", obstacle);
  return page;
}

void reject_one(const golden::Proposal& proposal) {
  std::error_code error;
  fs::remove(proposal.origin, error);
  if (error)
    throw ResourceError({.what = "cannot remove a proposal: " + error.message(), .where = proposal.origin.string()});
}

/// Asks about each proposal, until a key says "all of these".
class Review {
 public:
  Review(const ReviewOptions& options, fs::path root) : options_(options), root_(std::move(root)) {}

  void ask(const golden::Proposal& proposal) {
    print_page(stdout, shown_proposal(proposal, root_));
    while (!is_over_) {
      const char key = for_all_ != 0 ? for_all_ : asked();
      if (does(key, proposal)) return;
    }
  }

  std::string summary() const {
    return std::to_string(accepted_) + " accepted, " + std::to_string(rejected_) + " rejected, " +
           std::to_string(skipped_) + " skipped";
  }
  bool is_over() const { return is_over_; }

 private:
  static constexpr const char* kKeys = "  a accept   r reject   s skip   A, R, S all of these   q quit: the rest stays";

  char asked() {
    print_line(stdout, kKeys);
    const KeyByKey raw;
    return read_key().value_or('q');
  }

  /// Whether the key decides it.
  bool does(char key, const golden::Proposal& proposal) {
    switch (key) {
      case 'A':
      case 'R':
      case 'S':
        for_all_ = static_cast<char>(key - 'A' + 'a');
        return false;
      case 'a':
        return accept(proposal);
      case 'r':
        reject_one(proposal);
        ++rejected_;
        return true;
      case 's':
        ++skipped_;
        return true;
      case 'q':
        is_over_ = true;
        return true;
      default:
        return false;
    }
  }

  bool accept(const golden::Proposal& proposal) {
    try {
      require_committed(proposal, options_.dirty);
      golden::require_no_obstacles(proposal);
      while (reason_.empty() && !is_over_) {
        print_line(stdout, "  why does it change?");
        reason_ = read_typed_line();
        is_over_ = reason_.empty();
      }
      if (is_over_) return true;
      accept_proposal(proposal, reason_, root_);
      ++accepted_;
    } catch (const InputError& error) {
      print_page(stdout, "  not accepted: " + std::string(error.what()) + "\n");
      ++skipped_;
    }
    return true;
  }

  const ReviewOptions& options_;
  fs::path root_;
  std::string reason_ = options_.reason;
  char for_all_ = 0;
  bool is_over_ = false;
  int accepted_ = 0, rejected_ = 0, skipped_ = 0;
};

int review(const ReviewOptions& options) {
  const fs::path root = root_of_proposals(options.golden_root);
  const std::vector<golden::Proposal> proposals = proposals_chosen(options.patterns, options.from, options.golden_root);
  if (proposals.empty()) {
    print_line(stdout, "nothing is proposed");
    return 0;
  }
  const bool has_terminal = ::isatty(STDIN_FILENO) != 0 && ::isatty(STDOUT_FILENO) != 0;
  if (has_terminal) require_somebody_decides(options.in_ci);
  Review review(options, root);
  for (const golden::Proposal& proposal : proposals) {
    if (!has_terminal) {
      const std::string name = shell_quoted(proposal.name.scenario + "/" + proposal.name.variant);
      print_page(stdout, shown_proposal(proposal, root));
      print_line(stdout, "  accept     lockstep golden accept " + name + " --reason '…'");
      print_line(stdout, "  reject     lockstep golden reject " + name);
    } else if (!review.is_over()) {
      review.ask(proposal);
    }
  }
  if (has_terminal) print_line(stdout, review.summary());
  return 0;
}

int reject(const ReviewOptions& options) {
  make_way("--json", options.json);
  Json rejected = Json::array();
  for (const golden::Proposal& proposal : proposals_chosen(options.patterns, options.from, options.golden_root)) {
    if (!options.dry_run) reject_one(proposal);
    rejected.push_back(proposal.text());
    if (options.json != kStandardOutput)
      print_line(stdout, (options.dry_run ? "would reject  " : "rejected  ") + proposal.text());
  }
  if (!options.json.empty())
    write_json(options.json,
               {{"format", "lockstep.rejected/1"}, {"dry_run", options.dry_run}, {"proposals", rejected}});
  return 0;
}

std::shared_ptr<ReviewOptions> add_common(CLI::App& command) {
  const auto options = std::make_shared<ReviewOptions>();
  command.add_option("proposals", options->patterns, "Proposals: 'world-size/w3', 'world-size/*'");
  command.add_option("--from", options->from, "Folder of proposals, as a CI job left them; as often as given")
      ->type_name("FOLDER")
      ->check(not_empty)
      ->allow_extra_args(false);
  command.add_option("--golden", options->golden_root, "Folder of the goldens")->type_name("FOLDER")->check(not_empty);
  return options;
}

}  // namespace

void add_golden_review(CLI::App& golden, Action& action) {
  CLI::App* reviewing = golden.add_subcommand(
      "review", "Decide about each golden that a run proposed; without a terminal, print the commands for it");
  const auto options = add_common(*reviewing);
  reviewing->add_option("--reason", options->reason, "Why the goldens change; else it is asked for")->check(not_empty);
  reviewing->add_flag("--dirty", options->dirty, "Accept even if sources were not committed");
  reviewing->add_flag("--in-ci", options->in_ci, "Review even if the environment variable CI is set");
  run_when_chosen(*reviewing, action, options, review);

  CLI::App* rejecting = golden.add_subcommand("reject", "Remove proposals");
  const auto rejected = add_common(*rejecting);
  rejecting->get_option("proposals")->required();
  rejecting->add_flag("--dry-run", rejected->dry_run, "Remove nothing; say what would be removed");
  add_json_option(*rejecting, rejected->json);
  run_when_chosen(*rejecting, action, rejected, reject);
}

}  // namespace lockstep::app
