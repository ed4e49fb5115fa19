// `cmake --install` to a prefix gives a lockstep that works from any directory, and a recorder that others build with.
#include <cstdlib>
#include <filesystem>
#include <regex>
#include <string>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/base/json.h"

#include "tests/support/support.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// One installation for all tests of this program, moved once: nothing may remember where it was put first.
class Installed : public ::testing::Test {
 protected:
  static void SetUpTestSuite() {
    scratch_ = new Scratch;
    const Outcome outcome = run_program(
        {"cmake", "--install", LOCKSTEP_BUILD_ROOT, "--prefix", (scratch_->path() / "before").string()}, 120);
    ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
    fs::rename(scratch_->path() / "before", prefix());
  }
  static void TearDownTestSuite() { delete scratch_; }

  static fs::path prefix() { return scratch_->path() / "a prefix"; }
  static fs::path folder(const std::string& name) {
    fs::create_directories(scratch_->path() / name);
    return scratch_->path() / name;
  }

  /// A program without anything of this build on its paths.
  static Outcome run(const std::vector<std::string>& command, const fs::path& directory) {
    std::vector<std::string> clean = {"env", "-u", "LD_LIBRARY_PATH", "-u", "CPATH"};
    clean.insert(clean.end(), command.begin(), command.end());
    return run_program(clean, 300, directory);
  }

  /// A project elsewhere: a scenario of its own beside a copy of the data.
  static fs::path project() {
    const fs::path root = folder("project");
    fs::copy_file(source_root() / "scenarios/data/digits.csv.gz", root / "digits.csv.gz",
                  fs::copy_options::overwrite_existing);
    const Json check = {{"that", "equal"}, {"variants", {"one", "other"}}};
    const Json scenario = {{"name", "elsewhere"},
                           {"description", "Two trainings of one recipe."},
                           {"train",
                            {{"model", {{"kind", "mlp"}, {"hidden", {8}}}},
                             {"data", {{"kind", "digits"}, {"path", "digits.csv.gz"}, {"size", 24}}},
                             {"batch", {{"global", 12}}},
                             {"optimizer", {{"kind", "sgd"}, {"lr", 0.1}}},
                             {"steps", 2},
                             {"seed", {{"base", 1}}}}},
                           {"variants", {{"one", {{"world_size", 2}}}, {"other", {{"world_size", 2}}}}},
                           {"checks", {check}}};
    write_file(root / "elsewhere.json", scenario.dump());
    return root / "elsewhere.json";
  }

  static void expect_agreement(const std::vector<std::string>& command, const fs::path& from) {
    std::vector<std::string> words = command;
    words.insert(words.end(), {"--json", "-"});
    const Outcome outcome = run(words, from);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
    const Json result = Json::parse(outcome.out, nullptr, false);
    ASSERT_TRUE(result.is_object()) << outcome.out;
    EXPECT_EQ(result["status"], "agree") << result.dump(1);
  }

  static Scratch* scratch_;
};
Scratch* Installed::scratch_ = nullptr;

TEST_F(Installed, GatesAScenarioFromAnyDirectory) {
  const std::string lockstep = (prefix() / "bin/lockstep").string();
  expect_agreement({lockstep, "gate", project()}, folder("somewhere"));
  expect_agreement({lockstep, "run", "elsewhere.json"}, project().parent_path());
}

TEST_F(Installed, FindsItsWorkerThroughASymbolicLink) {
  const fs::path link = folder("links") / "lockstep";
  fs::create_symlink(prefix() / "bin/lockstep", link);
  fs::create_symlink("lockstep", folder("links") / "another");
  expect_agreement({folder("links") / "another", "gate", project()}, folder("somewhere"));
}

TEST_F(Installed, SaysWhichWorkerIsMissing) {
  const fs::path alone = folder("alone") / "lockstep";
  fs::copy_file(prefix() / "bin/lockstep", alone);
  const Outcome outcome = run({alone, "gate", project()}, folder("somewhere"));
  EXPECT_EQ(outcome.exit_code, 2);
  EXPECT_NE(outcome.err.find((folder("alone") / "lockstep-worker").string()), std::string::npos) << outcome.err;
}

TEST_F(Installed, TheSchemaIsThatOfThisVersion) {
  EXPECT_EQ(read_file(prefix() / "share/lockstep/scenario.schema.json"),
            read_file(source_root() / "harness/scenario/scenario.schema.json"));
  EXPECT_TRUE(fs::exists(prefix() / "share/lockstep/trace-format.md"));
}

TEST_F(Installed, ShellsCompleteAndTheManualPageIsThere) {
  const fs::path share = prefix() / "share";
  const std::string lockstep = (prefix() / "bin/lockstep").string();
  for (const auto& [file, shell] :
       {std::pair("bash-completion/completions/lockstep", "bash"), std::pair("zsh/site-functions/_lockstep", "zsh"),
        std::pair("fish/vendor_completions.d/lockstep.fish", "fish")})
    EXPECT_EQ(read_file(share / file), run_program({lockstep, "completion", shell}).out) << file;
  EXPECT_TRUE(read_file(share / "man/man1/lockstep.1").starts_with(".TH LOCKSTEP 1 "));
}

/// Records with the example that was built against the installation, and has the installed lockstep read it.
void expect_records(const fs::path& program, const fs::path& prefix, const fs::path& runs) {
  for (const char* rate : {"0.5", "0.25"}) {
    const Outcome outcome =
        run_program({"env", "LD_LIBRARY_PATH=" + (prefix / "lib").string(), program, runs / rate, rate});
    ASSERT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
  const std::string lockstep = (prefix / "bin/lockstep").string();
  EXPECT_EQ(run_program({lockstep, "show", runs / "0.5"}).exit_code, 0);
  fs::copy(runs / "0.5", runs / "copy", fs::copy_options::recursive);
  EXPECT_EQ(run_program({lockstep, "diff", runs / "0.5", runs / "copy"}).exit_code, 0);
  EXPECT_EQ(run_program({lockstep, "diff", runs / "0.5", runs / "0.25"}).exit_code, 1);
}

TEST_F(Installed, ACProgramIsBuiltWithPkgConfig) {
  const fs::path here = folder("pkg-config");
  const std::string build = "PKG_CONFIG_PATH='" + (prefix() / "lib/pkgconfig").string() +
                            "'; export PKG_CONFIG_PATH; eval cc -std=c99 -pedantic -Wall -Wextra -Werror -o record '" +
                            (source_root() / "docs/examples/record.c").string() +
                            "' $(pkg-config --cflags --libs lockstep-recorder)";
  const Outcome outcome = run({"sh", "-c", build}, here);
  ASSERT_EQ(outcome.exit_code, 0) << outcome.err;
  expect_records(here / "record", prefix(), here);
}

/// The commands of docs/recording.md as they stand, with a prefix that no loader looks into.
TEST_F(Installed, TheDocumentedCommandsRecordAndCompare) {
  const std::string page = read_file(source_root() / "docs/recording.md");
  const std::size_t inside = page.find("./record runs/a");
  ASSERT_NE(inside, std::string::npos);
  const std::size_t begin = page.rfind("```\n", inside) + 4, end = page.find("```", inside);
  const fs::path here = folder("documented");
  fs::create_directory_symlink(prefix(), here / "PREFIX");  // without a space in it
  const std::string commands =
      std::regex_replace(page.substr(begin, end - begin), std::regex("PREFIX"), (here / "PREFIX").string());
  fs::copy_file(source_root() / "docs/examples/record.c", here / "record.c");
  const Outcome outcome = run({"sh", "-exc", commands}, here);
  EXPECT_EQ(outcome.exit_code, 1) << "diff, the last one, finds a difference:\n" << outcome.out << outcome.err;
  EXPECT_NE(outcome.out.find("step 0"), std::string::npos) << outcome.out << outcome.err;
  EXPECT_EQ(outcome.err.find("cannot open shared object"), std::string::npos) << outcome.err;
}

/// README installs after the gate: nothing may be missing then.
TEST(Gate, BuildsAllThatIsInstalled) {
  const fs::path build = fs::canonical(LOCKSTEP_BUILD_ROOT);
  const std::string gate = read_file(source_root() / "ci/gate");
  std::smatch targets;
  ASSERT_TRUE(std::regex_search(gate, targets, std::regex("ci/build ([^|]*)\\|\\|"))) << gate;
  const Outcome commands =
      run_program({"sh", "-c", "ninja -C '" + build.string() + "' -t commands " + targets[1].str()}, 60);
  ASSERT_EQ(commands.exit_code, 0) << commands.err;
  const std::string rules = read_file(build / "harness/cmake_install.cmake");
  const std::regex built("\"(" + build.string() + "/(?:bin|lib)/[^\"]+)\"");
  std::size_t found = 0;
  for (std::sregex_iterator at(rules.begin(), rules.end(), built), none; at != none; ++at, ++found) {
    const std::string file = fs::relative(fs::canonical((*at)[1].str()), build).string();
    EXPECT_NE(commands.out.find(" -o " + file + " "), std::string::npos) << file;
  }
  EXPECT_GE(found, 3U) << rules;
}

TEST_F(Installed, ACxxProgramIsBuiltWithFindPackage) {
  const fs::path here = folder("find-package");
  write_file(here / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES C CXX)\nset(CMAKE_CXX_STANDARD 20)\n"
             "find_package(lockstep 0.1 REQUIRED)\nadd_executable(record record.c)\n"
             "add_executable(cxx main.cpp)\n"
             "target_link_libraries(record PRIVATE lockstep::recorder)\n"
             "target_link_libraries(cxx PRIVATE lockstep::recorder)\n");
  write_file(here / "main.cpp",
             "#include <lockstep/recorder.h>\nint main() { return lockstep_recorder_abi() == LOCKSTEP_RECORDER_ABI ? 0 "
             ": 1; }\n");
  fs::copy_file(source_root() / "docs/examples/record.c", here / "record.c");
  const Outcome configured = run({"cmake", "-S", ".", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix().string()}, here);
  ASSERT_EQ(configured.exit_code, 0) << configured.out << configured.err;
  const Outcome built = run({"cmake", "--build", "build"}, here);
  ASSERT_EQ(built.exit_code, 0) << built.out << built.err;
  EXPECT_EQ(run({here / "build/cxx"}, here).exit_code, 0);
  expect_records(here / "build/record", prefix(), here);
}

/// CTest's tests, as `ctest --show-only=json-v1` has them, by name.
Json tests_by_name(const fs::path& build) {
  const Json listed = Json::parse(run_program({"ctest", "--test-dir", build, "--show-only=json-v1"}).out);
  Json tests = Json::object();
  for (const Json& test : listed.at("tests")) {
    for (const Json& property : test.at("properties"))
      tests[test.at("name").get<std::string>()][property.at("name").get<std::string>()] = property.at("value");
  }
  return tests;
}

TEST_F(Installed, CTestRunsTheScenariosOfAProject) {
  const fs::path here = folder("ctest");
  Json scenario = parse_json(read_file(project()), "");
  scenario["train"]["data"]["path"] = (project().parent_path() / "digits.csv.gz").string();
  write_file(here / "same.lockstep.json", scenario.dump());
  fs::create_directories(here / "scenarios");
  scenario["name"] = "other-rate";
  scenario["variants"]["other"] = {{"world_size", 4}, {"train", {{"optimizer", {{"lr", 0.2}}}}}};
  write_file(here / "scenarios/other-rate.jsonc", "// red\n" + scenario.dump());
  write_file(here / "scenarios/lockstep.json", "{}");
  write_file(here / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES NONE)\nfind_package(lockstep 0.1 REQUIRED)\n"
             "enable_testing()\n"
             "lockstep_discover_scenarios(same.lockstep.json scenarios LABELS training slow\n"
             "  PROPERTIES TIMEOUT 300 RESOURCE_GROUPS \"2,gpus:1\")\n");
  const Outcome configured = run({"cmake", "-S", ".", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix().string()}, here);
  ASSERT_EQ(configured.exit_code, 0) << configured.out << configured.err;
  const Json tests = tests_by_name(here / "build");
  ASSERT_EQ(tests.size(), 2U) << tests;
  const Json& red = tests.at("lockstep.scenarios/other-rate");
  EXPECT_EQ(red.at("LABELS"), (Json{"slow", "training"}));
  EXPECT_EQ(red.at("SKIP_RETURN_CODE"), 77);
  EXPECT_EQ(red.at("PROCESSORS"), 4);
  EXPECT_EQ(red.at("TIMEOUT"), 300);
  EXPECT_TRUE(red.contains("RESOURCE_GROUPS")) << red;
  EXPECT_EQ(tests.at("lockstep.same").at("PROCESSORS"), 2);
  const Outcome ran = run({"ctest", "--test-dir", "build", "--output-junit", "results.xml"}, here);
  EXPECT_EQ(ran.exit_code, 8) << ran.out << ran.err;
  const std::string results = read_file(here / "build/results.xml");
  EXPECT_NE(results.find("tests=\"2\"\n\tfailures=\"1\""), std::string::npos) << results;
  EXPECT_NE(results.find("DIVERGENCE  other-rate: checks.0 equal (one, other)"), std::string::npos) << results;
  EXPECT_NE(results.find("agree: 1 scenario, 2 of 2 runs finished"), std::string::npos) << results;
}

TEST_F(Installed, AFolderWithoutScenariosIsNoTestSuite) {
  const fs::path here = folder("ctest-empty");
  write_file(here / "CMakeLists.txt",
             "cmake_minimum_required(VERSION 3.25)\nproject(user LANGUAGES NONE)\nfind_package(lockstep 0.1 REQUIRED)\n"
             "enable_testing()\nlockstep_discover_scenarios(.)\n");
  const Outcome configured = run({"cmake", "-S", ".", "-B", "build", "-DCMAKE_PREFIX_PATH=" + prefix().string()}, here);
  EXPECT_NE(configured.exit_code, 0);
  EXPECT_NE(configured.err.find("there is no scenario in"), std::string::npos) << configured.err;
}

}  // namespace
}  // namespace lockstep::test
