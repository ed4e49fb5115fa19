// The table of checks: its rows, the schema's branches and the documents name the same kinds.
#include "harness/scenario/check_kind.h"

#include <set>
#include <sstream>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "harness/base/files.h"
#include "harness/scenario/schema.h"

#include "tests/support/support.h"

namespace lockstep::scenario {
namespace {

TEST(CheckKind, NameRoundTrips) {
  for (const CheckTraits& row : kCheckKinds) {
    EXPECT_EQ(check_kind_named(row.name), row.kind);
    EXPECT_EQ(name_of(row.kind), row.name);
    EXPECT_EQ(&traits_of(row.kind), &row);
  }
  EXPECT_FALSE(check_kind_named("repeatble").has_value());
  EXPECT_FALSE(check_kind_named("").has_value());
}

/// A row says what the keys of its branch let a scenario ask.
TEST(CheckKind, RowsFitTheBranchesOfTheSchema) {
  const Json& branches = schema()["definitions"]["check"]["oneOf"];
  ASSERT_EQ(branches.size(), kCheckKinds.size());
  for (std::size_t i = 0; i < kCheckKinds.size(); ++i) {
    const CheckTraits& row = kCheckKinds[i];
    const Json& keys = branches[i]["properties"];
    EXPECT_EQ(keys["that"]["const"], row.name);
    EXPECT_EQ(keys.contains("interrupted"), row.sides == Sides::kResumption) << row.name;
    EXPECT_EQ(keys.contains("on"), row.wanted != Wanted::kLaw) << row.name << " compares channels";
    const std::set<std::string> required = branches[i].value("required", std::set<std::string>());
    EXPECT_EQ(required.contains("variants"), row.sides == Sides::kVariants) << row.name;
  }
}

TEST(CheckKind, VariantsAgreeBitForBitOrUpToRounding) {
  std::vector<std::string_view> names;
  for (const CheckTraits& row : kCheckKinds) {
    if (row.wants_agreement()) names.push_back(row.name);
  }
  EXPECT_EQ(names, (std::vector<std::string_view>{"equal", "rounding"}));
}

/// The first cells of the tables in a document.
std::string first_cells_of(const std::string& document) {
  std::istringstream lines(read_file(test::source_root() / document));
  std::string cells;
  for (std::string line; std::getline(lines, line);) {
    if (line.starts_with("| `")) cells += line.substr(0, line.find(" | ")) + "\n";
  }
  return cells;
}

TEST(CheckKind, TheReadmeHasARowForEach) {
  const std::string cells = first_cells_of("README.md");
  for (const CheckTraits& row : kCheckKinds)
    EXPECT_NE(cells.find("`" + std::string(row.name) + "`"), std::string::npos) << row.name;
}

}  // namespace
}  // namespace lockstep::scenario
