// docs/extending.md lists the files that an extension touches. Patches that add one of a kind touch these and no other,
// still apply, and compile as far as a syntax check tells. Where a patch no longer applies: make it anew, `git diff
// -U2`.
#include <filesystem>
#include <regex>
#include <set>
#include <sstream>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/json.h"

#include "tests/support/part.h"
#include "tests/support/support.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

struct Extension {
  const char* heading;  ///< in docs/extending.md
  const char* patch;
};

constexpr Extension kExtensions[] = {{"## A check", "check.patch"},
                                     {"## A channel", "channel.patch"},
                                     {"## A cause", "cause.patch"},
                                     {"## A launcher", "launcher.patch"},
                                     {"## A reduction", "reduction.patch"},
                                     {"## An optimizer", "optimizer.patch"},
                                     {"## A law", "law.patch"},
                                     {"## A Python hook", "hook.patch"},
                                     {"## A format of a report", "format.patch"}};

fs::path path_of(const Extension& extension) { return source_root() / "tests/extending" / extension.patch; }

/// The lines of the block ```files under a heading: paths, with <…> for a name.
std::vector<std::string> files_under(const std::string& heading) {
  std::istringstream document(read_file(source_root() / "docs/extending.md"));
  std::vector<std::string> files;
  bool is_under = false, is_block = false;
  for (std::string line; std::getline(document, line);) {
    if (line.starts_with("## ")) is_under = line == heading;
    if (is_block && line == "```") return files;
    if (is_block) files.push_back(line);
    if (is_under && line == "```files") is_block = true;
  }
  return files;
}

std::vector<std::string> files_touched_by(const fs::path& patch) {
  std::istringstream lines(read_file(patch));
  std::vector<std::string> files;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("+++ b/")) files.push_back(line.substr(6));
  }
  return files;
}

bool is_one_of(const std::string& file, const std::string& pattern) {
  std::string expression = std::regex_replace(pattern, std::regex("\\."), "\\.");
  expression = std::regex_replace(expression, std::regex("<[a-z]+>"), "[a-z0-9_]+");
  return std::regex_match(file, std::regex(expression));
}

TEST(Extending, EverySeamListsItsFiles) {
  for (const char* heading :
       {"## A model", "## A check", "## A channel", "## A launcher", "## A reduction", "## A device", "## A fault",
        "## A cause", "## An optimizer", "## A sampler", "## A schedule", "## Data"}) {
    const std::vector<std::string> listed = files_under(heading);
    EXPECT_FALSE(listed.empty()) << heading;
    for (const std::string& file : listed) {
      const bool is_new = file.find('<') != std::string::npos;
      EXPECT_TRUE(is_new || fs::exists(source_root() / file)) << heading << ": " << file;
    }
  }
}

TEST(Extending, APatchTouchesTheListedFilesAndNoOther) {
  for (const Extension& extension : kExtensions) {
    const std::vector<std::string> listed = files_under(extension.heading);
    ASSERT_FALSE(listed.empty()) << extension.heading;
    std::set<std::string> unused(listed.begin(), listed.end());
    for (const std::string& file : files_touched_by(path_of(extension))) {
      bool is_listed = false;
      for (const std::string& pattern : listed) {
        if (!is_one_of(file, pattern)) continue;
        is_listed = true;
        unused.erase(pattern);
      }
      EXPECT_TRUE(is_listed) << extension.patch << " touches " << file << ", which " << extension.heading << " lacks";
    }
    for (const std::string& pattern : unused) ADD_FAILURE() << extension.patch << " does not touch " << pattern;
  }
}

TEST(Extending, APatchApplies) {
  for (const Extension& extension : kExtensions) {
    const Outcome outcome = run_program({"git", "apply", "--check", path_of(extension).string()}, 60, source_root());
    EXPECT_EQ(outcome.exit_code, 0) << extension.patch << ": " << outcome.err;
  }
}

/// A copy of harness/, python/ and tests/ with some patches, and what the build generates from the schema.
class Copy {
 public:
  explicit Copy(const std::vector<std::string>& apply) {
    for (const char* folder : {"harness", "python", "tests"})
      fs::copy(source_root() / folder, root() / folder, fs::copy_options::recursive);
    for (const std::string& patch : apply) {
      const Outcome outcome = run_program({"git", "apply", "--include=harness/*", "--include=tests/*",
                                           "--include=python/*", (source_root() / "tests/extending" / patch).string()},
                                          60, root());
      if (outcome.exit_code != 0) ADD_FAILURE() << patch << ": " << outcome.err;
    }
    generate_kinds();
  }

  fs::path root() const { return scratch_.path(); }

  void take_from_the_tree(const std::string& file) const {
    fs::copy_file(source_root() / file, root() / file, fs::copy_options::overwrite_existing);
  }

  Outcome compile(const std::string& file) const {
    return run_program(
        {LOCKSTEP_CXX, "-std=c++20", "-fsyntax-only", "-Wall", "-Wextra", "-Wno-missing-field-initializers", "-Werror",
         "-I.", "-Igenerated", "-isystem", LOCKSTEP_EIGEN, file},
        300, root());
  }

 private:
  void generate_kinds() const {
    const Json schema = Json::parse(read_file(root() / "harness/scenario/scenario.schema.json"));
    std::string lines;
    for (const Json& branch : schema["definitions"]["check"]["oneOf"])
      lines += "LOCKSTEP_KIND(" + branch["properties"]["that"]["const"].get<std::string>() + ")\n";
    scratch_.write("generated/kinds/check.inc", lines);
    const Outcome enums =
        run_program({"cmake", "-DSCHEMA=" + (root() / "harness/scenario/scenario.schema.json").string(),
                     "-DOUTPUT=" + (root() / "generated/kinds/recipe.inc").string(), "-P",
                     (source_root() / "cmake/recipe_kinds.cmake").string()},
                    60, root());
    if (enums.exit_code != 0) ADD_FAILURE() << enums.err;
  }

  Scratch scratch_;
};

TEST(Extending, WhatAPatchTouchesCompiles) {
  for (std::size_t i = 0; i < std::size(kExtensions); ++i) {
    if (!in_part(i, std::size(kExtensions))) continue;
    const Extension& extension = kExtensions[i];
    const Copy copy({extension.patch});
    std::set<std::string> files = {"harness/scenario/check_kind.cpp", "harness/trace/channel.cpp"};
    for (const std::string& file : files_touched_by(path_of(extension))) {
      const bool needs_torch = file.starts_with("harness/train/") || file.starts_with("tests/train/");
      if (file.ends_with(".cpp") && !needs_torch) files.insert(file);
    }
    for (const std::string& file : files) {
      const Outcome outcome = copy.compile(file);
      EXPECT_EQ(outcome.exit_code, 0) << extension.patch << ", " << file << ":\n" << outcome.err;
    }
  }
}

void expect_refused(const Copy& copy, const std::string& file, const std::string& why) {
  const Outcome outcome = copy.compile(file);
  EXPECT_NE(outcome.exit_code, 0) << file;
  EXPECT_NE(outcome.err.find(why), std::string::npos) << outcome.err;
}

TEST(Extending, ABranchWithoutARowDoesNotCompile) {
  const Copy copy({"check.patch"});
  copy.take_from_the_tree("harness/scenario/check_kind.h");
  expect_refused(copy, "harness/scenario/check_kind.cpp", "kCheckKinds needs one row for each branch");
}

TEST(Extending, AnOptimizerWithoutItsRuleDoesNotCompile) {
  const Copy copy({"optimizer.patch"});
  copy.take_from_the_tree("harness/recipe/optimizer_rule.cpp");
  expect_refused(copy, "harness/recipe/optimizer_rule.cpp", "kSignsgd");
}

/// A kind without a case in the comparison with Python, or with a twin that does not know it. `twin`: the file of that.
std::vector<std::string> without_parity(const fs::path& root, const std::string& definition,
                                        const std::string& twin = "tests/parity/training.py") {
  const Json schema = Json::parse(read_file(root / "harness/scenario/scenario.schema.json"));
  std::vector<std::string> missing;
  for (const std::string& file : {std::string("tests/parity/parity_test.cpp"), twin}) {
    const std::string text = read_file(root / file);
    for (const Json& branch : schema["definitions"][definition]["anyOf"]) {
      const std::string kind = branch["properties"]["kind"]["const"].dump();
      if (text.find(kind) == std::string::npos) missing.push_back(definition + " " + kind + " in " + file);
    }
  }
  return missing;
}

TEST(Extending, EveryOptimizerIsComparedWithPython) {
  EXPECT_EQ(without_parity(source_root(), "optimizer"), std::vector<std::string>{});
  const Copy copy({"optimizer.patch"});
  EXPECT_EQ(without_parity(copy.root(), "optimizer"), std::vector<std::string>{});
  for (const char* file : {"tests/parity/parity_test.cpp", "tests/parity/training.py"}) copy.take_from_the_tree(file);
  EXPECT_EQ(without_parity(copy.root(), "optimizer").size(), 2U);
}

/// Hooks of the recorder that nothing installs.
std::vector<std::string> hooks_not_installed(const fs::path& root) {
  const std::string installed = read_file(root / "python/lockstep/_install.py");
  std::vector<std::string> missing;
  for (const fs::directory_entry& file : fs::directory_iterator(root / "python/lockstep/_hooks")) {
    const std::string name = file.path().stem().string();
    const bool is_hook = file.path().extension() == ".py" && name != "__init__";
    if (is_hook && installed.find("    " + name + ".install(") == std::string::npos) missing.push_back(name);
  }
  return missing;
}

TEST(Extending, EveryHookIsInstalled) {
  EXPECT_EQ(hooks_not_installed(source_root()), std::vector<std::string>{});
  const Copy copy({"hook.patch"});
  EXPECT_EQ(hooks_not_installed(copy.root()), std::vector<std::string>{});
  copy.take_from_the_tree("python/lockstep/_install.py");
  EXPECT_EQ(hooks_not_installed(copy.root()), std::vector<std::string>{"derivative"});
}

TEST(Extending, EverySamplerAndScheduleIsComparedWithPython) {
  const std::vector<std::string> no_twin = {"sampler \"libtorch\" in tests/parity/parity_test.cpp",  // none in Python
                                            "sampler \"libtorch\" in tests/parity/samplers.py"};
  EXPECT_EQ(without_parity(source_root(), "sampler", "tests/parity/samplers.py"), no_twin);
  const std::vector<std::string> default_one = {"schedule \"constant\" in tests/parity/parity_test.cpp"};
  EXPECT_EQ(without_parity(source_root(), "schedule"), default_one);
}

TEST(Extending, AChannelWithoutItsSentenceDoesNotCompile) {
  const Copy copy({"channel.patch"});
  copy.take_from_the_tree("harness/compare/explain.cpp");
  expect_refused(copy, "harness/compare/explain.cpp", "kStages needs one row for each channel");
}

}  // namespace
}  // namespace lockstep::test
