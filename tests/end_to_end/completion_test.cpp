// What lockstep writes of its own commands: shells complete all that the help pages list, and the manual page has it.
#include <map>
#include <regex>
#include <set>
#include <sstream>

#include "harness/base/files.h"
#include "harness/base/text.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

using Options = std::map<std::string, std::set<std::string>>;

/// "-h", "--help" and the others of each command: "lockstep audit scaling".
void add_options_by_help(const std::vector<std::string>& words, Options& all) {
  std::vector<std::string> asked = words;
  asked.push_back("--help");
  std::istringstream page(run_lockstep(asked).out);
  std::string name = "lockstep";
  for (const std::string& word : words) name += " " + word;
  bool is_command = false;
  for (std::string line; std::getline(page, line);) {
    std::smatch found;
    if (line.starts_with("Subcommands:")) is_command = true;
    if (std::regex_search(line, found, std::regex("^  (-[-a-z]+)(?:,(--[-a-z]+))?"))) {
      for (const std::size_t group : {1, 2}) {
        if (found[group].matched) all[name].insert(found[group]);
      }
    } else if (is_command && std::regex_search(line, found, std::regex("^  ([a-z]+) "))) {
      std::vector<std::string> below = words;
      below.push_back(found[1]);
      add_options_by_help(below, all);
    }
  }
}

Options options_by_help() {
  Options all;
  add_options_by_help({}, all);
  EXPECT_GE(all.size(), 18U);
  EXPECT_TRUE(all["lockstep audit scaling"].contains("--ranks"));
  EXPECT_TRUE(all["lockstep run"].contains("-h"));
  return all;
}

bool has(const char* program) {
  return run_program({"/bin/sh", "-c", std::string("command -v ") + program}).exit_code == 0;
}

class Completion : public EndToEnd {
 protected:
  fs::path script(const std::string& shell) const {
    const Outcome written = run_lockstep({"completion", shell});
    EXPECT_EQ(written.exit_code, 0) << written.err;
    return scratch_.write("completion." + shell, written.out);
  }
};

// The script is asked as bash asks it.
TEST_F(Completion, BashKnowsEveryOptionOfEveryCommand) {
  std::string lines = "source " + script("bash").string() +
                      "\ncomplete -p lockstep\n"
                      "ask() { COMP_WORDS=(\"$@\") COMP_CWORD=$(($# - 1)); _lockstep; echo \"${COMPREPLY[@]}\"; }\n";
  std::string expected = "complete -F _lockstep lockstep\n";
  for (const auto& [command, options] : options_by_help()) {
    lines += "ask " + command + " - | tr ' ' '\\n' | LC_ALL=C sort | xargs\n";
    expected += join(std::vector<std::string>(options.begin(), options.end()), " ") + "\n";
  }
  lines += "cd " + scratch_.path().string() +
           "; mkdir folder; touch folded file\n"
           "ask lockstep ga\nask lockstep audit sc\nask lockstep run --launcher torchr\nask lockstep run --launcher = "
           "torchr\n"
           "ask lockstep run fol\nask lockstep run --out fol\nask lockstep run --jobs fol\nask lockstep completion z\n";
  expected += "gate\nscaling\ntorchrun\ntorchrun\nfolded folder\nfolder\n\nzsh\n";
  const Outcome asked = run_program({"bash", "--norc", "-uc", lines});
  EXPECT_EQ(asked.out, expected) << asked.err;
}

TEST_F(Completion, FishKnowsEveryOptionOfEveryCommand) {
  if (!has("fish")) GTEST_SKIP() << "fish is missing";
  std::string lines = "source " + script("fish").string() + "\n", expected;
  for (const auto& [command, options] : options_by_help()) {
    lines += "complete -C '" + command + " --' | string replace -r '\\t.*' '' | sort\n";
    for (const std::string& option : options) expected += option.starts_with("--") ? option + "\n" : "";
  }
  lines += "complete -C 'lockstep audit sc' | string replace -r '\\t.*' ''\n";
  const Outcome asked = run_program({"env", "LC_ALL=C", "fish", "--no-config", "-c", lines});
  EXPECT_EQ(asked.out, expected + "scaling\n") << asked.err;
}

TEST_F(Completion, ZshReadsTheScript) {
  if (!has("zsh")) GTEST_SKIP() << "zsh is missing";
  const fs::path file = script("zsh");
  const std::string lines = "autoload -U compinit; compinit -u -D; source " + file.string() +
                            "; whence -w _lockstep_audit_scaling; print $_comps[lockstep]";
  EXPECT_EQ(run_program({"zsh", "-f", "-c", lines}).out, "_lockstep_audit_scaling: function\n_lockstep\n");
  const std::string text = read_file(file);
  for (const auto& [command, options] : options_by_help()) {
    std::string name = command;
    std::replace(name.begin(), name.end(), ' ', '_');
    const std::size_t begin = text.find("_" + name + "() {"), end = text.find("\n}\n", begin);
    ASSERT_NE(begin, std::string::npos) << command;
    for (const std::string& option : options)
      EXPECT_NE(text.substr(begin, end - begin).find(option + "["), std::string::npos) << command << " " << option;
  }
}

TEST_F(Completion, TheManualPageHasEveryOptionOfEveryCommand) {
  const std::string page = run_lockstep({"man"}).out;
  for (const auto& [command, options] : options_by_help()) {
    const std::size_t begin = page.find(command == "lockstep" ? ".SH OPTIONS\n" : ".SS " + command + "\n");
    ASSERT_NE(begin, std::string::npos) << command;
    const std::string section = page.substr(begin, page.find("\n.S", begin) - begin);
    for (const std::string& option : options) {
      const std::string name = "\\fB" + std::regex_replace(option, std::regex("-"), "\\-") + "\\fR";
      EXPECT_NE(section.find(name), std::string::npos) << command << " " << option;
    }
  }
  if (!has("groff")) GTEST_SKIP() << "groff is missing";
  const Outcome set = run_program({"groff", "-man", "-ww", "-Tascii", scratch_.write("lockstep.1", page)});
  EXPECT_EQ(set.err, "");
  EXPECT_NE(set.out, "");
}

TEST_F(Completion, AnotherShellIsRefused) { EXPECT_EQ(run_lockstep({"completion", "tcsh"}).exit_code, 2); }

}  // namespace
}  // namespace lockstep::test
