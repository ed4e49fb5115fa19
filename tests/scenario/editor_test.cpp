// The schema as an editor uses it: on a scenario's file as it stands, of which lockstep alone merges the parts.
#include <filesystem>

#include <gtest/gtest.h>
#include <valijson/adapters/nlohmann_json_adapter.hpp>
#include <valijson/schema.hpp>
#include <valijson/schema_parser.hpp>
#include <valijson/validator.hpp>

#include "harness/base/files.h"
#include "harness/scenario/schema.h"

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::minimal;
using test::with;
using test::with_variants;

class Editor : public ::testing::Test {
 protected:
  Editor() {
    valijson::SchemaParser(valijson::SchemaParser::kDraft7)
        .populateSchema(valijson::adapters::NlohmannJsonAdapter(schema()), compiled_);
  }

  /// What an editor would underline; empty: nothing.
  std::string underlined(const Json& document) const {
    valijson::ValidationResults results;
    const valijson::adapters::NlohmannJsonAdapter target(document);
    if (valijson::Validator().validate(compiled_, target, &results)) return "";
    valijson::ValidationResults::Error error;
    std::string text = "underlined:";
    while (results.popError(error)) {
      for (const std::string& part : error.context) text += " " + part;
      text += ": " + error.description + "\n";
    }
    return text;
  }

 private:
  valijson::Schema compiled_;
};

TEST_F(Editor, UnderlinesNothingInTheShippedScenarios) {
  std::size_t count = 0;
  for (const auto& entry : std::filesystem::recursive_directory_iterator(lockstep::test::source_root() / "scenarios")) {
    const std::string extension = entry.path().extension();
    EXPECT_NE(extension, ".json") << entry.path() << ": editors underline comments there";
    const bool is_audit = entry.path().string().find("scenarios/audit/") != std::string::npos;
    if (extension != ".jsonc" || is_audit) continue;
    EXPECT_EQ(underlined(read_json(entry.path())), "") << entry.path();
    ++count;
  }
  EXPECT_GE(count, 20U);
}

TEST_F(Editor, TakesPartsOfATraining) {
  EXPECT_EQ(underlined(minimal()), "");
  Json parts = with_variants({{"a", {{"world_size", 2}, {"train", {{"optimizer", {{"lr", 0.2}}}}}}},
                              {"b", {{"train", {{"sampler", {{"shuffle", false}}}, {"batch", {{"accumulation", 2}}}}}}},
                              {"c", {{"train", {{"evaluation", {{"every", 2}}}}}, {"launch", {{"stall_s", 5}}}}}});
  EXPECT_EQ(underlined(parts), "");
  parts["train"].erase("model");  // which the variants supply
  EXPECT_EQ(underlined(parts), "");
  EXPECT_EQ(underlined(with("matrix", {{"train.optimizer.lr", {0.1, 0.2}}, {"world_size", {1, 2}}})), "");
}

TEST_F(Editor, UnderlinesSlipsWherePeopleType) {
  const auto variant = [](const Json& changes) { return with_variants({{"a", changes}}); };
  for (const Json& wrong :
       {with("train.stepss", 3), with("train.optimizer.momentun", 1), with("train.model.kind", "lenett"),
        with("launch.stall", 5), variant({{"worldsize", 2}}), variant({{"train", {{"stepss", 3}}}}),
        variant({{"train", {{"optimizer", {{"lrr", 1}}}}}}), variant({{"train", {{"optimizer", {{"kind", "sdg"}}}}}}),
        variant({{"train", {{"optimizer", {{"kind", "adam"}, {"nesterov", true}}}}}}),
        variant({{"train", {{"steps", "3"}}}}), variant({{"launch", {{"stall", 1}}}}), variant(3),
        with("matrix", {{"train.steps", 3}}), with("matrix", {{"repeats", {1}}}), with("checks.0.thta", "x")}) {
    EXPECT_NE(underlined(wrong), "") << wrong;
  }
}

}  // namespace
}  // namespace lockstep::scenario
