// The schema judges itself: its defaults, its kinds, its descriptions.
#include "harness/scenario/schema.h"

#include <functional>
#include <set>

#include <gtest/gtest.h>

#include "harness/base/files.h"

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::load;
using test::minimal;
using test::with;

const Json& definitions() { return schema()["definitions"]; }

/// Every rule of the schema with its place.
void each_rule(const std::function<void(const Json& rule, const std::string& place)>& visit) {
  const std::function<void(const Json&, const std::string&)> walk = [&](const Json& rule, const std::string& place) {
    if (!rule.is_object()) return;
    visit(rule, place);
    const Json properties = rule.value("properties", Json::object());
    for (const auto& [key, property] : properties.items()) walk(property, place + "." + key);
    for (const Json& branch : branches_of(rule)) walk(branch, place + "|" + branch["properties"].dump().substr(0, 40));
    for (const char* key : {"items", "additionalProperties"}) {
      if (rule.contains(key)) walk(rule[key], place + "." + key);
    }
  };
  walk(schema(), "");
  for (const auto& [name, rule] : definitions().items()) walk(rule, name);
}

Json example_of_branch(const Json& branch);

/// A value for every required key, so that a branch can be completed.
Json example_of(const Json& rule) {
  if (rule.contains("$ref"))
    return example_of(schema().at(Json::json_pointer(rule["$ref"].get<std::string>().substr(1))));
  if (!branches_of(rule).empty()) return example_of_branch(branches_of(rule)[0]);
  if (rule.contains("const")) return rule["const"];
  if (rule.contains("enum")) return rule["enum"][0];
  const std::string type = rule.value("type", "object");
  if (type == "integer" || type == "number") return rule.contains("minimum") ? rule["minimum"] : Json(1);
  if (type == "string") return rule.contains("pattern") ? std::string(16, '0') : "x";
  if (type == "boolean") return true;
  if (type == "array") return rule.contains("items") ? Json::array({example_of(rule["items"])}) : Json::array();
  Json object = Json::object();
  for (const Json& key : rule.value("required", rule.value("needs", Json::array())))
    object[key.get<std::string>()] = example_of(rule["properties"][key.get<std::string>()]);
  return object;
}

/// The smallest document of one branch.
Json example_of_branch(const Json& branch) {
  Json object = example_of(branch);
  for (const auto& [key, property] : branch["properties"].items()) {
    if (property.contains("const")) object[key] = property["const"];
  }
  return object;
}

TEST(Schema, IsTheCommittedFile) {
  const auto file = lockstep::test::source_root() / "harness/scenario/scenario.schema.json";
  EXPECT_EQ(schema(), Json::parse(read_file(file)));
}

TEST(Schema, EveryReferenceLeadsSomewhere) {
  each_rule([](const Json& rule, const std::string& place) {
    if (!rule.contains("$ref")) return;
    const std::string reference = rule["$ref"].get<std::string>();
    ASSERT_EQ(reference.find("#/"), 0U) << place;
    EXPECT_TRUE(schema().contains(Json::json_pointer(reference.substr(1)))) << place << " " << reference;
  });
}

TEST(Schema, EveryDefinitionIsUsed) {
  std::set<std::string> used = {"run", "saved_state", "audit"};  // by complete()
  each_rule([&](const Json& rule, const std::string&) {
    if (rule.contains("$ref"))
      used.insert(rule["$ref"].get<std::string>().substr(std::string("#/definitions/").size()));
  });
  for (const auto& [name, rule] : definitions().items()) EXPECT_TRUE(used.contains(name)) << name;
}

TEST(Schema, EveryObjectIsClosed) {
  each_rule([](const Json& rule, const std::string& place) {
    EXPECT_TRUE(!rule.contains("properties") || rule.contains("additionalProperties")) << place;
  });
}

TEST(Schema, EveryRequiredKeyIsThereAndHasNoDefault) {
  each_rule([](const Json& rule, const std::string& place) {
    for (const Json& key : rule.value("required", rule.value("needs", Json::array()))) {
      const std::string name = key.get<std::string>();
      ASSERT_TRUE(rule["properties"].contains(name)) << place << "." << name;
      EXPECT_FALSE(rule["properties"][name].contains("default")) << place << "." << name;
    }
  });
}

TEST(Schema, EveryBranchHasOneKindOfItsOwn) {
  for (const auto& [name, rule] : definitions().items()) {
    if (branches_of(rule).empty()) continue;
    std::set<std::string> keys, kinds;
    for (const Json& branch : branches_of(rule)) {
      std::size_t constants = 0;
      for (const auto& [key, property] : branch["properties"].items()) {
        if (!property.contains("const")) continue;
        ++constants;
        keys.insert(key);
        EXPECT_TRUE(kinds.insert(property["const"].get<std::string>()).second) << name << " " << property["const"];
      }
      EXPECT_EQ(constants, 1U) << name;
      EXPECT_EQ(branch.value("additionalProperties", Json()), Json(false)) << name;
    }
    EXPECT_EQ(keys.size(), 1U) << name;
  }
}

// One kind needs no words when its name says it all.
TEST(Schema, EveryKindIsDescribed) {
  const std::set<std::string> plain = {"schedule/constant"};
  for (const auto& [name, rule] : definitions().items()) {
    for (const Json& branch : branches_of(rule)) {
      for (const auto& [key, property] : branch["properties"].items()) {
        if (!property.contains("const") || plain.contains(name + "/" + property["const"].get<std::string>())) continue;
        EXPECT_FALSE(property.value("description", "").empty()) << name << " " << property["const"];
      }
    }
  }
}

TEST(Schema, EveryPropertyIsDescribed) {
  each_rule([](const Json& rule, const std::string& place) {
    const Json properties = rule.value("properties", Json::object());
    for (const auto& [key, property] : properties.items()) {
      const bool described =
          !property.value("description", "").empty() || !resolved(property).value("description", "").empty();
      EXPECT_TRUE(described) << place << "." << key;
    }
  });
}

/// What takes stack or time by its size has a bound: patterns, the search for equal items, the walk over items.
TEST(Schema, EveryPatternAndListIsBounded) {
  each_rule([](const Json& rule, const std::string& place) {
    EXPECT_TRUE(!rule.contains("pattern") || rule.contains("maxLength")) << place;
    EXPECT_TRUE(!rule.contains("items") || rule.contains("maxItems")) << place;
    EXPECT_TRUE(!rule.contains("uniqueItems") || rule.contains("maxItems")) << place;
  });
}

/// Editors know nothing of merging: what a variant may leave out is not required.
TEST(Schema, NothingThatAVariantMayLeaveOutIsRequired) {
  const std::function<void(const Json&, const std::string&)> walk = [&](const Json& reference,
                                                                        const std::string& place) {
    const Json& rule = resolved(reference);
    EXPECT_FALSE(rule.contains("required")) << place;
    EXPECT_FALSE(rule.contains("oneOf")) << place << ": without its kind, an object is of several";
    for (const Json& branch : branches_of(rule)) walk(branch, place + "|");
    const Json properties = rule.value("properties", Json::object());
    for (const auto& [key, property] : properties.items()) walk(property, place + "." + key);
  };
  walk(definitions()["run"], "run");
}

TEST(Schema, EveryDefaultIsValid) {
  std::size_t count = 0;
  for (const auto& [name, definition] : definitions().items()) {
    if (definition.contains("default") && definition["default"].is_object()) {
      EXPECT_NO_THROW(complete(definition["default"], name, {"x", ""})) << name;
      ++count;
    }
    const Json branches = branches_of(definition).empty() ? Json::array({definition}) : branches_of(definition);
    for (const Json& branch : branches) {
      if (!branch.contains("properties")) continue;
      const Json example = example_of_branch(branch);
      try {
        const Json completed = complete(example, name, {"x", ""});
        for (const auto& [key, property] : branch["properties"].items()) {
          if (!property.contains("default")) continue;
          EXPECT_TRUE(completed.contains(key)) << name << "." << key;
          const bool as_written = property["default"] == completed[key] || property["default"] == Json::object();
          EXPECT_TRUE(as_written) << name << "." << key;
          ++count;
        }
      } catch (const Error& error) {
        ADD_FAILURE() << name << " " << example << "\n" << error.what();
      }
    }
  }
  EXPECT_GT(count, 50U);
}

TEST(Schema, EveryKindOfTrainingLoadsFromItsRequiredKeys) {
  for (const char* part : {"model", "data", "sampler", "optimizer", "learning_rate_rule", "schedule"}) {
    for (const Json& branch : branches_of(definitions()[part])) {
      const Json example = example_of_branch(branch);
      EXPECT_NO_THROW(load(with(std::string("train.") + part, example))) << part << " " << example;
    }
  }
  for (const Json& branch : branches_of(definitions()["fault"])) {
    Json everything = with("train.gradient", {{"clip_norm", 1}, {"loss_scale", 2}});  // some faults are about it
    everything["train"]["ema"] = {{"decay", 0.9}};
    everything["train"]["schedule"] = {{"kind", "plateau"}};
    everything["train"]["checkpoint"] = {{"load", {{"file", "weights"}, {"restore", {"weights"}}}}};
    EXPECT_NO_THROW(load(with(everything, "train.faults", Json::array({example_of_branch(branch)}))))
        << branch["properties"];
  }
}

/// docs/extending.md shows a model as it is.
TEST(Schema, TheDocumentedExampleIsTheModel) {
  const auto root = lockstep::test::source_root();
  const std::string document = read_file(root / "docs/extending.md");
  const auto expect_shown = [&](std::string part) {
    while (part.ends_with('\n')) part.pop_back();
    EXPECT_NE(document.find("\n" + part + "\n```"), std::string::npos) << part;
  };
  expect_shown(read_file(root / "harness/train/model/linear_model.cpp"));
  const std::string schema_text = read_file(root / "harness/scenario/scenario.schema.json");
  const std::size_t begin =
      schema_text.find("{\"additionalProperties\": false, \"properties\": {\"kind\": {\"const\": \"linear\"");
  ASSERT_NE(begin, std::string::npos);
  expect_shown(schema_text.substr(begin, schema_text.find(",\n", begin) - begin));
}

TEST(Schema, CompletionIsIdempotent) {
  const Json once = complete(minimal()["train"], "train", {"x", ""});
  EXPECT_EQ(complete(once, "train", {"x", ""}), once);
}

TEST(Schema, WithoutDefaultsLeavesWhatTheAuthorSaid) {
  const Json said = minimal()["train"];
  EXPECT_EQ(without_defaults(complete(said, "train", {"x", ""}), "train"), said);
  Json more = said;
  more["sampler"] = {{"kind", "contiguous"}, {"shuffle", false}};
  more["seed"] = {{"base", 1}};
  more["checkpoint"] = {{"save_after", 2}};
  EXPECT_EQ(without_defaults(complete(more, "train", {"x", ""}), "train"), more);
}

TEST(Schema, WithoutDefaultsForgetsDefaultsThatAreWritten) {
  Json written = minimal()["train"];
  written["sampler"] = {{"kind", "distributed"}, {"shuffle", true}};
  written["ddp"] = {{"average", true}};
  written["faults"] = Json::array();
  EXPECT_EQ(without_defaults(complete(written, "train", {"x", ""}), "train"), minimal()["train"]);
}

}  // namespace
}  // namespace lockstep::scenario
