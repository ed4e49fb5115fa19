// lockstep bisect: the commit from which on a golden does not hold.
#include <algorithm>
#include <cstdio>
#include <optional>
#include <string>
#include <system_error>
#include <vector>

#include <CLI/CLI.hpp>

#include "harness/app/commands.h"
#include "harness/app/leftovers.h"
#include "harness/app/shell.h"
#include "harness/base/console.h"
#include "harness/base/error.h"
#include "harness/base/files.h"
#include "harness/base/json.h"
#include "harness/base/text.h"
#include "harness/golden/root.h"
#include "harness/judge/verdict.h"

namespace lockstep::app {
namespace {

namespace fs = std::filesystem;

struct BisectOptions {
  fs::path scenario;
  std::string good;
  std::string bad = "HEAD";
  std::string before;  ///< command that makes a commit ready
  fs::path golden_root;
};

constexpr int kInconclusive = 4;

/// Words of `git bisect`.
enum class Holds { kGood, kBad, kSkip };

const char* word_of(Holds holds) { return holds == Holds::kGood ? "good" : holds == Holds::kBad ? "bad" : "skip"; }

/// Judgement of one commit, and why.
struct Judgement {
  Holds holds = Holds::kSkip;
  std::string why;
};

/// What git says in a folder. *Throws*: InputError with its complaint.
std::string git(const fs::path& folder, const std::string& arguments) {
  const Said said = said_by("git -C " + shell_quoted(folder.string()) + " " + arguments + " 2>&1");
  if (said.status == 0) return said.text;
  throw InputError({.what = "git refuses: " + said.text, .where = "git " + arguments});
}

/// A work tree of its own, at any commit; what stands in the user's stays as it is.
class OwnWorkTree {
 public:
  OwnWorkTree(fs::path repository, const fs::path& folder, const std::string& commit)
      : repository_(std::move(repository)), folder_(folder) {
    git(repository_, "worktree add --quiet --detach " + shell_quoted(folder_.string()) + " " + shell_quoted(commit));
  }
  ~OwnWorkTree() {
    said_by("git -C " + shell_quoted(repository_.string()) + " worktree remove --force " +
            shell_quoted(folder_.string()) + " 2>&1");
  }
  OwnWorkTree(const OwnWorkTree&) = delete;
  OwnWorkTree& operator=(const OwnWorkTree&) = delete;

  const fs::path& folder() const { return folder_; }

 private:
  fs::path repository_;
  fs::path folder_;
};

/// The first cause of a check, with its evidence.
std::string cause_in(const Json& check) {
  const Json& causes = check.at("causes");
  if (causes.empty()) return "unknown cause, from " + check.at("first_divergence").value("channel", "");
  return causes[0].at("id").get<std::string>() + ": " +
         join(causes[0].at("evidence").get<std::vector<std::string>>(), "; ");
}

/// The golden checks of a result. Equal bits of another recipe hold: the question is when they changed.
Judgement judgement_in(const Json& result) {
  Judgement judgement{.holds = Holds::kSkip, .why = "no golden check was judged"};
  for (const Json& check : result.at("checks")) {
    if (check.at("relation") != name_of(scenario::CheckKind::kGolden)) continue;
    const Json& status = check.at("status");
    if (status == name_of(judge::Status::kDivergence)) return {Holds::kBad, cause_in(check)};
    const bool is_stale_and_equal = status == name_of(judge::Status::kBaseline) && check.at("records_compared") > 0;
    if (status != name_of(judge::Status::kAgree) && !is_stale_and_equal)
      return {Holds::kSkip, check.at("why").is_string() ? check["why"].get<std::string>() : "it is undecided"};
    judgement = {Holds::kGood, ""};
  }
  return judgement;
}

/// Judges commits in a work tree by a golden that stays the same.
class Bisection {
 public:
  Bisection(const BisectOptions& options, const fs::path& top, const fs::path& scratch)
      : options_(options),
        scenario_(fs::relative(fs::absolute(options.scenario), top)),
        scratch_(scratch),
        tree_(top, scratch / "tree", options.good) {
    goldens_ = goldens_at_good(top);
  }

  /// The first bad commit; nothing if commits that cannot be judged hide it.
  std::optional<std::string> first_bad() {
    require(options_.good, Holds::kGood);
    require(options_.bad, Holds::kBad);
    std::string said =
        git(tree_.folder(), "bisect start " + shell_quoted(options_.bad) + " " + shell_quoted(options_.good));
    for (;;) {
      constexpr std::string_view kFound = " is the first bad commit", kHidden = "only 'skip'ped commits left";
      const std::size_t found = said.find(kFound);
      if (found != std::string::npos) {
        const std::size_t begin = said.rfind('\n', found);
        return said.substr(begin == std::string::npos ? 0 : begin + 1,
                           found - (begin == std::string::npos ? 0 : begin + 1));
      }
      if (said.find(kHidden) != std::string::npos) return std::nullopt;
      const Said answer = said_by("git -C " + shell_quoted(tree_.folder().string()) + " bisect " +
                                  word_of(judge_here().holds) + " 2>&1");
      said = answer.text;
      const bool is_over = said.find(kFound) != std::string::npos || said.find(kHidden) != std::string::npos;
      if (answer.status != 0 && !is_over) throw InputError({.what = "git refuses: " + said, .where = "git bisect"});
    }
  }

  /// Judges the commit that the work tree has, and prints a line.
  Judgement judge_here() {
    const Judgement judgement = judged();
    print_line(stdout, padded(word_of(judgement.holds), 4) + "  " + git(tree_.folder(), "log -1 --format='%h  %s'") +
                           (judgement.why.empty() ? "" : "  (" + printable(judgement.why) + ")"));
    return judgement;
  }

  Judgement judge_at(const std::string& commit) {
    git(tree_.folder(), "checkout --quiet --detach " + shell_quoted(commit));
    return judge_here();
  }

 private:
  /// The goldens of the good commit, where they are in the repository; else those that are there.
  fs::path goldens_at_good(const fs::path& top) const {
    const fs::path root =
        fs::absolute(golden::root_of(options_.scenario, options_.golden_root).folder).lexically_normal();
    const fs::path relative = fs::relative(root, top);
    if (relative.empty() || *relative.begin() == fs::path("..")) return root;
    const fs::path inside = tree_.folder() / relative, kept = scratch_ / "golden";
    if (!is_folder(inside))
      throw InputError({.what = "the good commit has no goldens", .where = options_.good + ": " + relative.string()});
    copy_folder(inside, kept);
    return kept;
  }

  void require(const std::string& commit, Holds holds) {
    const Judgement judgement = judge_at(commit);
    if (judgement.holds == holds) return;
    throw InputError({.what = holds == Holds::kGood ? "the golden does not hold at the good commit"
                                                    : "the golden holds at the bad commit, or cannot be judged there",
                      .where = commit,
                      .expected = word_of(holds),
                      .actual = word_of(judgement.holds) + (judgement.why.empty() ? "" : ": " + judgement.why)});
  }

  Judgement judged() {
    const std::string within = "cd " + shell_quoted(tree_.folder().string()) + " && ";
    if (!options_.before.empty() && said_by(within + "(" + options_.before + ") 2>&1").status != 0)
      return {Holds::kSkip, "'" + options_.before + "' fails"};
    const fs::path result = scratch_ / "result.json";
    std::error_code ignored;
    fs::remove(result, ignored);
    const std::string own = fs::read_symlink("/proc/self/exe").string();
    const Said said =
        said_by(within + "CI=true " + shell_quoted(own) + " run " + shell_quoted(scenario_.string()) + " --golden " +
                shell_quoted(goldens_.string()) + " --json " + shell_quoted(result.string()) + " 2>&1");
    if (!is_there(result)) return {Holds::kSkip, said.text.substr(0, said.text.find('\n'))};
    return judgement_in(read_json(result));
  }

  const BisectOptions& options_;
  fs::path scenario_;  ///< from the top of the repository
  fs::path scratch_;
  OwnWorkTree tree_;
  fs::path goldens_;
};

int bisect(const BisectOptions& given) {
  if (!is_there(given.scenario)) throw InputError({.what = "a scenario is missing", .where = given.scenario.string()});
  const fs::path top = git(fs::absolute(given.scenario).parent_path(), "rev-parse --show-toplevel");
  BisectOptions options = given;
  for (std::string* commit : {&options.good, &options.bad})  // HEAD is another one in another work tree
    *commit = git(top, "rev-parse --verify " + shell_quoted(*commit + "^{commit}"));
  const TemporaryFolder scratch = make_temporary_folder();
  std::optional<std::string> commit;
  Judgement judgement;
  {
    Bisection bisection(options, top, scratch.path);
    commit = bisection.first_bad();
    if (commit) {
      print_line(stdout, "");
      judgement = bisection.judge_at(*commit);
    }
  }
  std::error_code ignored;
  fs::remove_all(scratch.path, ignored);
  if (!commit) {
    print_line(stdout, "inconclusive: commits that cannot be judged hide the first bad one");
    return kInconclusive;
  }
  print_line(stdout, "commit  " + *commit);
  print_line(stdout, "author  " + git(top, "log -1 --format='%an, %as' " + *commit));
  print_line(stdout, "cause   " + printable(judgement.why));
  return 0;
}

}  // namespace

void add_bisect(CLI::App& app, Action& action) {
  CLI::App* command =
      app.add_subcommand("bisect", "Find the commit from which on a golden does not hold, and its cause");
  const auto options = std::make_shared<BisectOptions>();
  command->add_option("scenario", options->scenario, "Scenario file, in a git repository")->required();
  command->add_option("--good", options->good, "Commit at which its goldens hold; they are taken from it")
      ->required()
      ->type_name("COMMIT")
      ->check(not_empty);
  command->add_option("--bad", options->bad, "Commit at which they do not. Default: HEAD")
      ->type_name("COMMIT")
      ->check(not_empty);
  command->add_option("--before", options->before, "Command that makes a commit ready, as a build; skipped if it fails")
      ->type_name("COMMAND")
      ->check(not_empty);
  command->add_option("--golden", options->golden_root, "Folder of the goldens")->type_name("FOLDER")->check(not_empty);
  run_when_chosen(*command, action, options, bisect);
}

}  // namespace lockstep::app
