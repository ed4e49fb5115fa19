#include "harness/base/json.h"

#include <gtest/gtest.h>

#include "harness/base/error.h"

namespace lockstep {
namespace {

Problem problem_of(const std::string& text) {
  try {
    parse_json(text, "file.json");
  } catch (const InputError& error) {
    return error.problem();
  }
  ADD_FAILURE() << "accepted: " << text;
  return {};
}

std::string merged(const char* base, const char* patch) {
  Json result = Json::parse(base);
  merge_json(result, Json::parse(patch));
  return result.dump();
}

TEST(Json, ReadsCommentsOfBothKinds) {
  const Json read = parse_json("// first\n{\"a\": 1, /* two\nlines */ \"b\": \"// no comment\"} // last", "x");
  EXPECT_EQ(read.dump(), R"({"a":1,"b":"// no comment"})");
}

TEST(Json, RefusesDuplicateKeysAtAnyDepth) {
  for (const char* text : {R"({"key": 1, "key": 1})", R"({"a": {"b": [{"key": 1, "c": {}, "key": 2}]}})",
                           R"([[{"x": {"key": {"key": 1}, "key": 2}}]])"}) {
    const Problem problem = problem_of(text);
    EXPECT_EQ(problem.what, "the key 'key' appears twice in one object");
    EXPECT_EQ(problem.where, "file.json");
    EXPECT_FALSE(problem.next.empty());
  }
}

TEST(Json, AllowsOneKeyInSeveralObjects) {
  EXPECT_NO_THROW(parse_json(R"({"a": {"a": {"a": 1}}, "b": [{"a": 1}, {"a": 2}]})", "x"));
}

TEST(Json, NamesLineAndColumnOfAnError) {
  EXPECT_EQ(problem_of("{\"a\": 1,\n \"b\": x}").where, "file.json:2:7");
  EXPECT_EQ(problem_of("x").where, "file.json:1:1");
  EXPECT_EQ(problem_of("{\n\n  \"a\" 1}").where, "file.json:3:7");
}

TEST(Json, KnowsWhereEachValueBegins) {
  const std::map<std::string, std::string> expected = {{"", "2:1"},     {"/a", "3:8"},     {"/a/0", "3:9"},
                                                       {"/a/1", "4:5"}, {"/b~1c", "5:12"}, {"/b~1c/\"", "6:10"},
                                                       {"/d", "7:18"}};
  EXPECT_EQ(places_in("// {\n{\n  \"a\": [1/* ] */,\n    \"x\\\"]\"],\r\n  \"b\\/c\" : {\n   \"\\\"\": -1e5},\n"
                      "/* \"e\": 1 */ \"d\":[]}"),
            expected);
  EXPECT_EQ(places_in("\xef\xbb\xbf"
                      "true"),
            (std::map<std::string, std::string>{{"", "1:1"}}));
}

TEST(Json, SaysWhatIsWrong) {
  for (const char* text : {"", "{", "[1,", "{\"a\":}", "nul", "{} {}", "\"\xff\"", "{\"a\": \"\n\"}"}) {
    const Problem problem = problem_of(text);
    EXPECT_EQ(problem.what.find("not valid JSON: "), 0u) << text;
    EXPECT_GT(problem.what.size(), std::string("not valid JSON: ").size()) << text;
    EXPECT_EQ(problem.where.find("file.json:"), 0u) << text;
  }
}

TEST(Json, RefusesANumberBeyondDouble) {
  const Problem problem = problem_of("{\"lr\": -1e999}");
  EXPECT_EQ(problem.what, "not valid JSON: number overflow parsing '-1e999'");
  EXPECT_EQ(problem.where.find("file.json"), 0u);
}

TEST(Json, RefusesDeepNestingBeforeItCosts) {
  const auto nested = [](std::size_t depth) { return std::string(depth, '[') + std::string(depth, ']'); };
  EXPECT_NO_THROW(parse_json(nested(60), "x"));
  EXPECT_EQ(problem_of(nested(70)).what, "JSON is nested too deeply");
  EXPECT_EQ(problem_of(std::string(5'000'000, '[')).what, "JSON is nested too deeply");
  std::string objects;
  for (int i = 0; i < 70; ++i) objects += "{\"a\":";
  EXPECT_EQ(problem_of(objects).what, "JSON is nested too deeply");
}

TEST(Json, MergeGoesKeyByKey) {
  EXPECT_EQ(merged(R"({"a": {"x": 1, "y": 2}, "b": 3})", R"({"a": {"y": 5, "z": {}}, "c": 4})"),
            R"({"a":{"x":1,"y":5,"z":{}},"b":3,"c":4})");
}

TEST(Json, MergeReplacesWhateverIsNoObject) {
  EXPECT_EQ(merged(R"({"a": [1, 2, 3]})", R"({"a": [4]})"), R"({"a":[4]})");
  EXPECT_EQ(merged(R"({"a": {"x": 1}})", R"({"a": 7})"), R"({"a":7})");
  EXPECT_EQ(merged(R"({"a": 7})", R"({"a": {"x": 1}})"), R"({"a":{"x":1}})");
  EXPECT_EQ(merged(R"({"a": 7})", R"({"a": null})"), R"({"a":null})");
}

TEST(Json, DottedReadsLikeAPath) {
  EXPECT_EQ(dotted("/train/faults/0/rank"), "train.faults.0.rank");
  EXPECT_EQ(dotted(""), "");
}

TEST(Json, KeysComeInOrder) {
  EXPECT_EQ(keys_of(Json::parse(R"({"b": 1, "a": 2})")), (std::vector<std::string>{"a", "b"}));
  EXPECT_TRUE(keys_of(Json::object()).empty());
  const Json one = {{"a", 1}, {"b", nullptr}, {"d", 2}}, other = {{"a", 1}, {"c", 1}, {"d", 3}};
  EXPECT_EQ(keys_that_differ(one, other), (std::vector<std::string>{"b", "d", "c"}));
  EXPECT_TRUE(keys_that_differ(one, one).empty());
}

/// Many containers in one: a parser that looks at each of them again for every other one would take minutes.
TEST(Json, ManyContainersAreReadInOneGo) {
  std::string text = "[{}";
  for (int i = 0; i < 1000000; ++i) text += ",{}";
  EXPECT_EQ(parse_json(text + "]", "x.json").size(), 1000001U);
}

TEST(Json, AModestDocumentTakesMemoryInProportion) {
  const auto many = [](const std::string& one) {
    std::string text = "[";
    for (int i = 0; i < 100000; ++i) text += one + ",";
    return text + "0]";
  };
  for (const char* one : {"{}", "[]", "0", R"({"a":0,"b":0})"})
    EXPECT_THROW(parse_modest_json(many(one), "x.json"), InputError) << one;
  EXPECT_EQ(parse_modest_json(many(R"({"a tensor's name": [10, 20]})"), "x.json").size(), 100001U);
  EXPECT_EQ(parse_modest_json("[{},{}]", "x.json").size(), 2U);
}

}  // namespace
}  // namespace lockstep
