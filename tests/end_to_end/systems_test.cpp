// The recipes of real systems, each with the mistakes that are made with it: all of them as their scenario says.
#include <algorithm>
#include <cstdlib>
#include <set>

#include "harness/base/files.h"
#include "harness/base/text.h"
#include "harness/scenario/scenario.h"

#include "tests/end_to_end/fixture.h"
#include "tests/support/part.h"

namespace lockstep::test {
namespace {

std::filesystem::path file_of(const std::string& recipe) {
  return source_root() / "scenarios/systems" / (recipe + ".jsonc");
}

class SystemsEndToEnd : public EndToEnd {};

/// A row of docs/systems.md.
std::string row_of(const scenario::Scenario& scenario, const scenario::Practice& practice, const std::string& folder) {
  std::vector<std::string> checks, mutations;
  for (const std::size_t check : practice.proven_by) checks.push_back(scenario.checks[check].name);
  for (const scenario::Mutation& mutation : practice.mutations) mutations.push_back(mutation.name);
  return "| " + practice.name + " | [" + scenario.name + "](../scenarios/" + folder + "/" + scenario.name +
         ".jsonc) | " + join(checks, "; ") + " | " + join(mutations, "; ") + " |";
}

TEST_F(SystemsEndToEnd, EveryRecipeIsAsItsScenarioSays) {
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(source_root() / "scenarios/systems"))
    files.insert(file.path().string());
  ASSERT_GE(files.size(), 10U);
  const auto json = scratch_.path() / "result.json";
  std::vector<std::string> gate = {"gate", "--json", json};
  std::size_t index = 0;
  for (const std::string& file : files) {
    if (in_part(index++)) gate.push_back(file);
  }
  const Outcome outcome = run_lockstep(gate);
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  const Json result = read_json(json);
  EXPECT_EQ(result.at("scenarios").size(), gate.size() - 3);
  for (const Json& run : result.at("failed_runs")) {
    const auto name = run.at("run").get<std::string>();  // Slurm's ranks are refused, as a check expects
    EXPECT_TRUE(name == "detr/slurm/0" || name.starts_with("tczhangzhi/slurm/")) << name;
  }
  const bool warns = std::find(gate.begin(), gate.end(), file_of("stmixer").string()) != gate.end();
  ASSERT_EQ(result.at("warnings").size(), warns ? 1U : 0U) << result.at("warnings");
  if (warns) expect_says(result.at("warnings")[0], {"stmixer/no-head", "'roi_heads.'", "does nothing"});
}

/// ci/systems tries all mutations; here the commit chooses a part of them.
TEST_F(SystemsEndToEnd, EveryMutationTurnsACheckOfItsPracticeRed) {
  constexpr std::int64_t kParts = 16;
  const char* const seed = std::getenv("LOCKSTEP_CI_SEED");
  const std::int64_t number = (seed == nullptr ? 0 : std::atoll(seed)) % kParts + 1;
  const std::string part = std::to_string(number) + "/" + std::to_string(kParts);
  const Outcome outcome = run_lockstep(
      {"run", "--mutations", "--part", part, source_root() / "scenarios/systems", source_root() / "scenarios/gate"});
  EXPECT_EQ(outcome.exit_code, 0) << "lockstep run --mutations --part " << part << "\n" << outcome.out << outcome.err;
}

TEST_F(SystemsEndToEnd, EveryPracticeStandsInTheTableWithItsChecksAndMutations) {
  const std::string table = read_file(source_root() / "docs/systems.md");
  std::size_t practices = 0, mutations = 0;
  for (const std::string folder : {"systems", "gate"}) {
    for (const auto& file : std::filesystem::directory_iterator(source_root() / "scenarios" / folder)) {
      const scenario::Scenario scenario = scenario::load_scenario(file.path());
      EXPECT_FALSE(scenario.practices.empty()) << file.path();
      for (const scenario::Practice& practice : scenario.practices) {
        expect_says(table, {row_of(scenario, practice, folder)});
        ++practices;
        mutations += practice.mutations.size();
      }
    }
  }
  EXPECT_GE(practices, 90U);
  EXPECT_GE(mutations, 300U);
  const std::string link = "](../scenarios/";
  std::size_t rows = 0;
  for (std::size_t at = table.find(link); at != std::string::npos; at = table.find(link, at + 1)) ++rows;
  EXPECT_EQ(rows, practices) << "the table has rows that no scenario has";
}

}  // namespace
}  // namespace lockstep::test
