#include "harness/golden/root.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"

#include "tests/support/support.h"

// Where a scenario's goldens stand.

namespace lockstep::golden {
namespace {

namespace fs = std::filesystem;
using lockstep::test::Scratch;

/// The folder and the reason of a scenario file in a scratch folder.
std::pair<fs::path, std::string> root_in(const Scratch& scratch, const std::string& file) {
  const Root root = root_of(scratch.write(file, "{}"), "");
  return {root.folder.lexically_relative(scratch.path()), root.reason};
}

using Found = std::pair<fs::path, std::string>;

TEST(GoldenRoot, IsBesideTheNearestProjectFile) {
  const Scratch scratch;
  scratch.write("lockstep.json", "{}\n");
  EXPECT_EQ(root_in(scratch, "a/b/s.json"), Found("golden", "beside lockstep.json"));
  EXPECT_EQ(root_in(scratch, "s.json"), Found("golden", "beside lockstep.json"));
  EXPECT_EQ(root_in(scratch, "a/scenarios/s.json"), Found("golden", "beside lockstep.json")) << "it goes first";
  scratch.write("a/lockstep.json", "{}\n");
  EXPECT_EQ(root_in(scratch, "a/b/s.json"), Found("a/golden", "beside lockstep.json"));
}

TEST(GoldenRoot, IsBesideTheNearestScenarios) {
  const Scratch scratch;
  EXPECT_EQ(root_in(scratch, "p/scenarios/gate/s.json"), Found("p/golden", "beside the folder scenarios/"));
  EXPECT_EQ(root_in(scratch, "scenarios/p/scenarios/s.json"),
            Found("scenarios/p/golden", "beside the folder scenarios/"));
}

TEST(GoldenRoot, IsBesideTheScenarioElse) {
  const Scratch scratch;
  EXPECT_EQ(root_in(scratch, "a/s.json"), Found("a/golden", "beside the scenario"));
}

TEST(GoldenRoot, GivenOneGoesFirst) {
  const Scratch scratch;
  scratch.write("lockstep.json", "{}\n");
  EXPECT_EQ(root_of(scratch.path() / "s.json", "elsewhere").folder, "elsewhere");
}

TEST(GoldenRoot, IsTheSameFromEverywhereAndReadsAsWrittenHere) {
  const Scratch scratch;
  scratch.write("p/scenarios/gate/s.json", "{}");
  const fs::path before = fs::current_path(), real = fs::canonical(scratch.path());
  fs::current_path(real / "p");
  EXPECT_EQ(root_of("scenarios/gate/s.json", "").folder, "golden");
  fs::current_path(real / "p/scenarios/gate");
  EXPECT_EQ(root_of("s.json", "").folder, real / "p/golden");
  EXPECT_EQ(root_of("../gate/./s.json", "").folder, real / "p/golden");
  fs::current_path(real);
  EXPECT_EQ(root_of("p/scenarios/gate/s.json", "").folder, "p/golden");
  fs::current_path(before);
}

TEST(GoldenRoot, IsThatOfTheRealScenarioBehindALink) {
  const Scratch scratch;
  scratch.write("p/scenarios/gate/s.json", "{}");
  scratch.write("links/x", "");
  const fs::path golden = fs::canonical(scratch.path()) / "p/golden";
  fs::create_directory_symlink(scratch.path() / "p/scenarios", scratch.path() / "links/sc");
  fs::create_directory_symlink("../p/scenarios/gate", scratch.path() / "links/scenarios");
  fs::create_symlink("../p/scenarios/gate/s.json", scratch.path() / "links/s.json");
  for (const char* link : {"links/sc/gate/s.json", "links/scenarios/s.json", "links/s.json"}) {
    const Root root = root_of(scratch.path() / link, "");
    EXPECT_EQ(root.folder, golden) << link;
    EXPECT_EQ(root.reason, "beside the folder scenarios/") << link;
  }
}

TEST(GoldenRoot, ProjectFileThatSaysMoreIsRefused) {
  const Scratch scratch;
  for (const auto& [content, actual] : {std::pair{"{\"goldens\": \"x\"}", "the key 'goldens'"}, {"[]", "no object"}}) {
    const fs::path file = scratch.write("lockstep.json", content);
    try {
      root_of(scratch.path() / "s.json", "");
      ADD_FAILURE() << content;
    } catch (const InputError& error) {
      EXPECT_EQ(error.problem().where, file.string());
      EXPECT_EQ(error.problem().expected, "{}");
      EXPECT_EQ(error.problem().actual, actual);
    }
  }
  scratch.write("lockstep.json", "{");
  EXPECT_THROW(root_of(scratch.path() / "s.json", ""), InputError);
}

}  // namespace
}  // namespace lockstep::golden
