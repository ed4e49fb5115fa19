// The table of classes is the schema's list, and one class more that nobody can expect.
#include "harness/scenario/class.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "harness/scenario/schema.h"

namespace lockstep::scenario {
namespace {

TEST(Class, NameRoundTrips) {
  for (const ClassInfo& row : kClasses) EXPECT_EQ(class_named(name_of(row.class_)), row.class_) << row.name;
  for (const char* name : {"", "Semantic", "random"}) EXPECT_FALSE(class_named(name).has_value()) << name;
}

TEST(Class, AllButUndecidedCanBeExpected) {
  std::vector<std::string> names;
  for (const ClassInfo& row : kClasses) {
    if (row.class_ != Class::kUndecided) names.emplace_back(row.name);
  }
  EXPECT_EQ(schema()["definitions"]["expect"]["properties"]["class"]["enum"], Json(names));
}

}  // namespace
}  // namespace lockstep::scenario
