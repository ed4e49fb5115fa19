// What load_scenario refuses, and how it says so.
#include <filesystem>

#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::checked;
using test::load;
using test::minimal;
using test::problem_of;
using test::with;
using test::with_variants;

std::string next_of(const Json& document) { return problem_of(document).next; }

TEST(ScenarioError, UnknownKeyAtEachLevelNamesTheNearest) {
  EXPECT_PROBLEM(problem_of(with("repeat", 2)), "unknown key 'repeat'", "s.json", "repeats", "'repeat'");
  EXPECT_EQ(next_of(with("repeat", 2)), "did you mean 'repeats'?");
  EXPECT_PROBLEM(problem_of(with("train.step", 2)), "unknown key 'step'", ": train (variant 'main')", "steps",
                 "'step'");
  EXPECT_EQ(next_of(with("train.optimiser", 2)), "did you mean 'optimizer'?");
  EXPECT_PROBLEM(problem_of(with("train.optimizer.momentun", 0.9)), "unknown key", ": train.optimizer", "momentum",
                 "'momentun'");
  EXPECT_EQ(next_of(with("train.optimizer.momentun", 0.9)), "did you mean 'momentum'?");
  EXPECT_EQ(next_of(with("train.batch.per-rank", 3)), "did you mean 'per_rank'?");
  EXPECT_EQ(next_of(with("launch.deadline", 3)), "did you mean 'deadline_s'?");
  EXPECT_EQ(next_of(with("train.checkpoint.load", {{"form", "x"}})), "did you mean 'from'?");
  EXPECT_EQ(next_of(with_variants({{"a", {{"worldsize", 2}}}})), "did you mean 'world_size'?");
  EXPECT_PROBLEM(problem_of(with_variants({{"a", {{"train", {{"seed", {{"bse", 2}}}}}}}})), "unknown key",
                 "train.seed (variant 'a')", "base", "'bse'");
  EXPECT_PROBLEM(problem_of(with("checks.0.variant", {"main"})), "unknown key", ": checks.0", "variants", "'variant'");
  EXPECT_EQ(next_of(with("checks.0.expect", {{"status", "divergence"}, {"reason", "r"}, {"untill", "x"}})),
            "did you mean 'until'?");
}

TEST(ScenarioError, KeyOfAnotherKindIsUnknown) {
  EXPECT_PROBLEM(problem_of(with("train.model.hidden", {1})), "unknown key 'hidden'", ": train.model", "kind",
                 "'hidden'");
}

TEST(ScenarioError, UnknownKindNamesTheNearest) {
  EXPECT_PROBLEM(problem_of(with("train.model.kind", "lenett")), "unknown kind", ": train.model.kind",
                 "mlp, linear, lenet", "'lenett'");
  EXPECT_EQ(next_of(with("train.model.kind", "lenett")), "did you mean 'lenet'?");
  EXPECT_PROBLEM(problem_of(with("checks.0.that", "repeatble")), "unknown that", ": checks.0.that", "repeatable",
                 "'repeatble'");
  EXPECT_EQ(next_of(with("checks.0.that", "repeatble")), "did you mean 'repeatable'?");
  EXPECT_PROBLEM(problem_of(with("train.model.kind", 3)), "unknown kind", ": train.model.kind", "lenet", "3");
}

TEST(ScenarioError, MissingKind) {
  EXPECT_PROBLEM(problem_of(with("train.model", Json::object())), "required key is missing", ": train.model", "'kind'",
                 "no keys");
  EXPECT_PROBLEM(problem_of(with("train.optimizer", {{"lr", 1}})), "required key is missing", ": train.optimizer",
                 "'kind', one of: sgd", "lr");
  EXPECT_PROBLEM(problem_of(with("checks.0", Json::object())), "required key is missing", ": checks.0", "'that'",
                 "no keys");
}

TEST(ScenarioError, WrongTypeAtAnyPlace) {
  EXPECT_PROBLEM(problem_of(with("repeats", "2")), "", ": repeats", "integer", "\"2\"");
  EXPECT_PROBLEM(problem_of(with("name", 2)), "", ": name", "string", "2");
  EXPECT_PROBLEM(problem_of(with("train", 5)), "", ": train", "object", "5");
  EXPECT_PROBLEM(problem_of(with("train.steps", 1.5)), "", ": train.steps (variant 'main')", "integer", "1.5");
  EXPECT_PROBLEM(problem_of(with("train.model", "lenet")), "wrong type", ": train.model", "object", "\"lenet\"");
  EXPECT_PROBLEM(problem_of(with("train.optimizer.lr", "x")), "", ": train.optimizer.lr", "number", "\"x\"");
  EXPECT_PROBLEM(problem_of(with("train.seed", 4)), "", ": train.seed", "object", "4");
  EXPECT_PROBLEM(problem_of(with("train.checkpoint", 4)), "", ": train.checkpoint", "object", "4");
  EXPECT_PROBLEM(problem_of(with("train.faults", Json::object())), "", ": train.faults", "array", "{}");
  EXPECT_PROBLEM(problem_of(with("train.record.channels", "loss")), "", ": train.record.channels", "array", "\"loss\"");
  EXPECT_PROBLEM(problem_of(with("train.data.shape", {1, 2, "3"})), "", ": train.data.shape.2", "integer", "\"3\"");
  EXPECT_PROBLEM(problem_of(with("launch", 3)), "", ": launch", "object", "3");
  EXPECT_PROBLEM(problem_of(with("launch.environment.A", 3)), "", ": launch.environment.A", "string", "3");
  EXPECT_PROBLEM(problem_of(with("checks", Json::object())), "", ": checks", "array", "{}");
  EXPECT_PROBLEM(problem_of(with("checks.0", "repeatable")), "wrong type", ": checks.0", "object", "\"repeatable\"");
  EXPECT_PROBLEM(problem_of(with("checks.0.on", "weight")), "", ": checks.0.on", "array", "\"weight\"");
  EXPECT_PROBLEM(problem_of(with("variants", {1})), "", ": variants", "object", "[1]");
  EXPECT_PROBLEM(problem_of(with_variants({{"a", 3}})), "", ": variants.a", "object", "3");
  EXPECT_PROBLEM(problem_of(with_variants({{"a", {{"train", 3}}}})), "", ": train (variant 'a')", "object", "3");
  EXPECT_PROBLEM(problem_of(with("matrix", {{"train.steps", 3}})), "", ": matrix.train.steps", "array", "3");
  for (const Json& document : {Json::array(), Json(3), Json("x"), Json()}) {
    EXPECT_EQ(problem_of(document).what, "wrong type") << document;
  }
}

TEST(ScenarioError, KeysWithSignsOfPathsAreNamedAsTheyStand) {
  for (const char* key : {"A/B", "A~B", "A.B", "a\"b", "[0]"}) {
    Json document = minimal();
    document["launch"]["environment"][key] = 3;
    EXPECT_PROBLEM(problem_of(document), "", std::string("launch.environment.") + key, "string", "3");
  }
}

TEST(ScenarioError, MissingKeys) {
  for (const char* key : {"name", "description", "train", "checks"}) {
    Json document = minimal();
    document.erase(key);
    EXPECT_PROBLEM(problem_of(document), key, "s.json", key, "");
  }
  for (const char* key : {"model", "data", "batch", "optimizer", "steps"}) {
    Json document = minimal();
    document["train"].erase(key);
    EXPECT_PROBLEM(problem_of(document), key, ": train (variant 'main')", key, "");
  }
  Json document = minimal();
  document["train"]["optimizer"].erase("lr");
  EXPECT_PROBLEM(problem_of(document), "lr", ": train.optimizer", "lr", "sgd");
  EXPECT_PROBLEM(problem_of(with("train.data", {{"kind", "digits"}})), "path", ": train.data", "path", "digits");
  EXPECT_PROBLEM(problem_of(with("train.faults", {{{"kind", "kill"}, {"rank", 0}}})), "step", ": train.faults.0",
                 "step", "kill");
}

TEST(ScenarioError, ValuesOutOfRange) {
  EXPECT_PROBLEM(problem_of(with("world_size", 0)), "", ": world_size", "at least 1", "0");
  EXPECT_PROBLEM(problem_of(with_variants({{"a", {{"world_size", 0}}}})), "", ": world_size (variant 'a')",
                 "at least 1", "0");
  EXPECT_PROBLEM(problem_of(with("world_size", 1025)), "", ": world_size", "at most 1024", "1025");
  EXPECT_PROBLEM(problem_of(with("train.steps", 0)), "", ": train.steps", "at least 1", "0");
  EXPECT_PROBLEM(problem_of(with("train.optimizer.lr", -0.1)), "", ": train.optimizer.lr", "at least 0", "-0.1");
  EXPECT_PROBLEM(problem_of(with("repeats", 0)), "", ": repeats", "at least 1", "0");
  EXPECT_PROBLEM(problem_of(with("launch.stall_s", 0)), "", ": launch.stall_s", "more than 0", "0");
  EXPECT_PROBLEM(problem_of(with("train.seed.policy", "random")), "", ": train.seed.policy", "same, add_rank",
                 "random");
  EXPECT_PROBLEM(problem_of(with("train.data.shape", {1, 8})), "", ": train.data.shape", "3", "[1,8]");
  EXPECT_PROBLEM(problem_of(with("train.record.channels", Json::array())), "", ": train.record.channels", "at least 1",
                 "[]");
  EXPECT_PROBLEM(problem_of(with("checks", Json::array())), "", ": checks", "at least 1", "[]");
  EXPECT_PROBLEM(problem_of(with("checks.0.on", {"weight", "weight"})), "", ": checks.0.on", "no item twice", "weight");
  EXPECT_PROBLEM(problem_of(with("description", "")), "", ": description", "at least 1", "\"\"");
  EXPECT_PROBLEM(problem_of(with("matrix", {{"train.steps", Json::array()}})), "", ": matrix.train.steps", "at least 1",
                 "[]");
}

TEST(ScenarioError, ADayThatNoCalendarHas) {
  const auto until = [](const char* day) {
    return with("checks",
                {{{"that", "ledger"}, {"expect", {{"status", "divergence"}, {"reason", "r"}, {"until", day}}}}});
  };
  EXPECT_NO_THROW(load(until("2028-02-29")));
  for (const char* day : {"2026-13-01", "2026-02-31", "2027-02-29", "2026-00-10"})
    EXPECT_PROBLEM(problem_of(until(day)), "a date does not exist", "checks.0", "calendar", day);
}

TEST(ScenarioError, AFactorOfOne) {
  Json document = with_variants({{"a", Json::object()}, {"b", {{"world_size", 2}}}});
  document["checks"] = {{{"that", "differs"}, {"variants", {"a", "b"}}, {"factor", 1}}};
  EXPECT_PROBLEM(problem_of(document), "a factor of 1", "checks.0", "another number", "1");
}

TEST(ScenarioError, VariablesWithoutAName) {
  for (const char* name : {"", "A=B", "1A", "A B"})
    EXPECT_PROBLEM(problem_of(with("launch.environment", {{name, "x"}})), "environment variable", "launch.environment",
                   "letters", name);
}

// A program would see what stands before the NUL.
TEST(ScenarioError, VariablesThatHoldANul) {
  const std::string value("x\0y", 3);
  const Problem problem = problem_of(with("launch.environment", {{"A", value}}));
  EXPECT_PROBLEM(problem, "cannot hold a NUL character", "launch.environment.A", "without", "NUL after 1 bytes of 3");
  EXPECT_FALSE(problem.next.empty());
  Json of_rank = with("launch.rank_environment", {{{"rank", 0}, {"variables", {{"B", value}}}}});
  EXPECT_PROBLEM(problem_of(of_rank), "NUL", "launch.rank_environment.B", "", "");
  Json program = minimal();
  program.erase("train");
  program["program"] = {{"command", {"true", "{world_size}"}}, {"environment", {{"C", value}}}};
  EXPECT_PROBLEM(problem_of(program), "NUL", "program.environment.C", "", "");
}

TEST(ScenarioError, NamesThatAreNoFolders) {
  for (const char* name : {"../x", "a/b", "..", ".", "", "-x", "A", "a b", "\u00e9"}) {
    EXPECT_PROBLEM(problem_of(with("name", name)), "", ": name", "matching", name);
  }
  EXPECT_PROBLEM(problem_of(with("name", std::string(81, 'a'))), "", ": name", "at most 80", "aaa");
  for (const char* name : {"../x", "a/b", "..", ".hidden", "", "-x", "a b", "a\\b", "\u00e9", "a\nb"}) {
    Json variants;
    variants[name] = Json::object();
    EXPECT_PROBLEM(problem_of(with_variants(variants)), "cannot be used as the name of a folder", ": variants",
                   "letters", name);
  }
  EXPECT_PROBLEM(problem_of(with_variants({{std::string(201, 'a'), Json::object()}})), "name of a folder", ": variants",
                 "", "aaa");
  for (const char* directory : {"..", "a/b", ".", "", "/tmp"}) {
    EXPECT_PROBLEM(problem_of(with("launch.directory", directory)), "", ": launch.directory", "matching", directory);
  }
}

TEST(ScenarioError, ALongNameIsNotPrintedInFull) {
  const Problem problem = problem_of(with_variants({{std::string(30000, 'a'), Json::object()}}));
  EXPECT_PROBLEM(problem, "name of a folder", ": variants", "at most 200 letters", "aaa...'");
  EXPECT_NE(problem.actual.find("30000 characters"), std::string::npos) << problem.actual;
  EXPECT_LT(describe(problem).size(), 600U) << describe(problem);
}

TEST(ScenarioError, MatrixValuesThatLookAlike) {
  const Problem problem = problem_of(with("matrix", {{"train.description", {"a b", "a_b"}}}));
  EXPECT_NE(problem.what, "");
  const Problem twice = problem_of(with("matrix", {{"train.optimizer.lr", {0.5, 0.5}}}));
  EXPECT_EQ(twice.what, "two variants have the same name");
  EXPECT_EQ(twice.actual, "'lr=0.5'");
  EXPECT_FALSE(twice.next.empty());
  EXPECT_NE(twice.where.find("s.json"), std::string::npos);
}

TEST(ScenarioError, MatrixPathThatLeadsNowhere) {
  EXPECT_EQ(next_of(with("matrix", {{"train.optimizer.momentun", {1}}})), "did you mean 'momentum'?");
  EXPECT_PROBLEM(problem_of(with("matrix", {{"repeats", {1}}})), "unknown key 'repeats'", "variant 'repeats=1'",
                 "world_size", "'repeats'");
  problem_of(with("matrix", {{"train.faults.0.rank", {1}}}));
  problem_of(with("matrix", {{"", {1}}}));
  Json document = with("matrix", {{"train.steps.x", {1}}});
  document["variants"] = {{"a", {{"train", {{"steps", 3}}}}}};
  EXPECT_NE(problem_of(document).where.find("matrix"), std::string::npos);
}

/// All that is wrong, told at once.
std::vector<Problem> problems_of(const Json& document, const std::vector<std::string>& overrides = {}) {
  try {
    load(document, overrides);
  } catch (const InputError& error) {
    return error.problems();
  }
  ADD_FAILURE() << "accepted: " << document;
  return {};
}

std::string places_of(const std::vector<Problem>& problems) {
  std::string text;
  for (const Problem& problem : problems) {
    const std::size_t at = problem.where.find("s.json: ");
    text += problem.what + " @ " + (at == std::string::npos ? "" : problem.where.substr(at + 8)) + "\n";
  }
  return text;
}

TEST(ScenarioError, AllAreToldAtOnceEachWithItsPlace) {
  Json document = with("repeat", 2);
  document["train"]["optimizer"]["lr"] = -1;
  document["checks"][0]["on"] = {"weigth"};
  EXPECT_EQ(places_of(problems_of(document)),
            "unknown key 'repeat' @ \n"
            "the number is out of range @ train.optimizer.lr (variant 'main')\n"
            "a check names an unknown channel @ checks.0 (repeatable).on\n");
  const std::vector<Problem> problems = problems_of(document);
  EXPECT_EQ(problems.at(0).next, "did you mean 'repeats'?");
  EXPECT_EQ(problems.at(2).next, "did you mean 'weight'?");
}

TEST(ScenarioError, SeveralInOneObjectAndBetweenParts) {
  Json document = with("name", "A b");
  document["train"]["steps"] = "x";
  document["train"]["model"]["kind"] = "lenett";
  document["train"]["batch"]["global"] = 0;
  document["launch"] = {{"stall_s", 0}, {"environment", {{"A", 3}}}};
  document["checks"] = {{{"that", "equal"}, {"variants", {"nobody"}}}, {{"that", "covres"}}};
  EXPECT_EQ(problems_of(document).size(), 8U) << places_of(problems_of(document));
}

TEST(ScenarioError, SemanticOnesAreIndependentOfEachOther) {
  Json document = with("train.batch.global", 25);
  document["world_size"] = 2;
  document["train"]["evaluation"] = {{"samples", 4}, {"every", 100}};
  document["train"]["ddp"] = {{"average", false}, {"compression", "bf16"}};
  document["launch"]["environment"] = {{"1A", "x"}};
  document["checks"] = {{{"that", "ledger"}, {"variants", {"mian"}}}, {{"that", "ledger"}, {"variants", {"none"}}}};
  EXPECT_EQ(problems_of(document).size(), 6U) << places_of(problems_of(document));
}

/// A batch that does not divide hides neither another variant's source nor anything of the checks.
TEST(ScenarioError, NoStageHidesALaterOne) {
  const Json loads = {{"train", {{"checkpoint", {{"load", {{"from", "nobody"}}}}}}}};
  Json document = with_variants({{"a", {{"world_size", 2}}}, {"l", loads}});
  document["train"]["batch"]["global"] = 25;
  const Json late = {{"status", "divergence"}, {"reason", "r"}, {"until", "2026-02-30"}, {"at", {{"channel", "x"}}}};
  document["checks"] = {{{"that", "equal"}, {"variants", {"a"}}, {"on", {"wait"}}, {"expect", late}}};
  std::string all;
  for (const Problem& problem : problems_of(document)) all += describe(problem);
  for (const char* part : {"batch", "'nobody'", "compare a variant with itself", "'wait'", "2026-02-30", "'x'"})
    EXPECT_NE(all.find(part), std::string::npos) << part << "\n" << all;
}

TEST(ScenarioError, WhatVariantsShareIsToldOnce) {
  Json document = with_variants({{"a", Json::object()}, {"b", Json::object()}, {"c", {{"train", {{"steps", 0}}}}}});
  document["train"]["optimizer"]["lr"] = -1;
  EXPECT_EQ(places_of(problems_of(document)),
            "the number is out of range @ train.optimizer.lr (variant 'a' and 2 more)\n"
            "the number is out of range @ train.steps (variant 'c')\n");
}

TEST(ScenarioError, AMisspeltKeyIsNotMissingToo) {
  Json document = minimal();
  document["train"]["optimizer"] = {{"kind", "sgd"}, {"lrr", 1}};
  EXPECT_EQ(places_of(problems_of(document)), "unknown key 'lrr' @ train.optimizer (variant 'main')\n");
}

TEST(ScenarioError, OverridesAreToldAtOnce) {
  EXPECT_EQ(problems_of(minimal(), {"novalue", "train.steps.x=1", "train.steps=2"}).size(), 2U);
}

/// A regular expression that matches a text of 30,000 characters takes more stack than there is.
TEST(ScenarioError, TextsOfAnyLengthAreRefused) {
  for (const std::size_t length : {std::size_t{81}, std::size_t{321}, std::size_t{30000}, std::size_t{1000000}}) {
    const std::string text(length, 'a');
    EXPECT_PROBLEM(problem_of(with("name", text)), "", ": name", "at most 80", "aaa");
    EXPECT_PROBLEM(problem_of(with("launch.directory", text)), "", ": launch.directory", "at most 80", "aaa");
    EXPECT_PROBLEM(problem_of(with("checks.0.expect", {{"status", "divergence"}, {"reason", "r"}, {"until", text}})),
                   "", ": checks.0.expect.until", "at most 10", "aaa");
    const Json cut = {{{"kind", "checkpoint_cut"}, {"file", text}}};
    EXPECT_PROBLEM(problem_of(with("train.faults", cut)), "", ": train.faults.0.file", "at most 80", "aaa");
    EXPECT_PROBLEM(problem_of(with("train.model.kind", text)), "unknown kind", ": train.model.kind", "lenet", "aaa");
    EXPECT_PROBLEM(problem_of(with(text, 1)), "unknown key", "s.json", "repeats", "aaa");
    EXPECT_PROBLEM(problem_of(with_variants({{text + std::string(200, 'a'), Json::object()}})), "", ": variants", "",
                   "aaa");
    EXPECT_PROBLEM(problem_of(with("matrix", {{"train." + text, {1}}})), "", "", "", "aaa");
    EXPECT_PROBLEM(problem_of(with("checks.0.on", {text})), "", ": checks.0", "weight", "aaa");
    EXPECT_PROBLEM(problem_of(with("checks.0.variants", {text})), "", ": checks.0", "main", "aaa");
  }
}

/// The whole of a message, however long the names in it are.
TEST(ScenarioError, MessagesAreShort) {
  const std::string text(1'000'000, 'a');
  for (const Json& document : {with(text, 1), with("train.model.kind", text), with("checks.0.variants", {text})}) {
    const std::string said = describe(problem_of(document));
    EXPECT_LT(said.size(), 20'000U) << said.substr(0, 1000);
    EXPECT_NE(said.find("aaa"), std::string::npos);
  }
}

TEST(ScenarioError, AHundredAreToldAndThatThereAreMore) {
  const lockstep::test::Scratch scratch;
  std::string many = "{";
  for (int i = 0; i < 20'000; ++i) many += "\"unknown-" + std::to_string(i) + "\": 0,";
  for (const char* where : {"", "\"train\": "}) {
    std::string document = minimal().dump();
    document.insert(1, many.substr(1));
    if (*where != '\0') document = "{\"train\": " + many + "\"steps\": 1}, \"name\": \"x\", \"description\": \"d\"}";
    try {
      load_scenario(scratch.write("s.json", document));
      ADD_FAILURE() << "loaded";
    } catch (const InputError& error) {
      ASSERT_EQ(error.problems().size(), 101U) << where;
      EXPECT_EQ(error.problems().back().what, "there are more errors than these");
      EXPECT_LT(std::string(error.what()).size(), 200'000U);
    }
  }
}

TEST(ScenarioError, ALargeFileIsRefusedBeforeItIsRead) {
  const lockstep::test::Scratch scratch;
  const auto file = scratch.write("s.json", minimal().dump());
  std::filesystem::resize_file(file, (64 << 20) + 1);
  try {
    load_scenario(file);
    ADD_FAILURE() << "loaded";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().what, "a file is too large");
    EXPECT_EQ(error.problem().expected, "at most 67108864 bytes");
    EXPECT_EQ(error.problem().actual, "67108865 bytes");
  }
}

TEST(ScenarioError, ListsOfAnyLengthAreRefused) {
  const Json many(100000, "main");
  EXPECT_PROBLEM(problem_of(with("checks.0.variants", many)), "", ": checks.0.variants", "at most 4096", "main");
  EXPECT_PROBLEM(problem_of(with("checks.0.on", many)), "", ": checks.0.on", "at most 64", "main");
  EXPECT_PROBLEM(problem_of(with("train.record.channels", many)), "", ": train.record.channels", "at most 64", "main");
  EXPECT_PROBLEM(problem_of(with("train.model", {{"kind", "mlp"}, {"hidden", Json(100000, 1)}})), "",
                 ": train.model.hidden", "at most 1000", "1,1");
  const Json thousand(1000, 1);
  EXPECT_PROBLEM(problem_of(with("matrix", {{"train.steps", thousand},
                                            {"train.seed.base", thousand},
                                            {"train.data.seed", thousand},
                                            {"train.data.size", thousand}})),
                 "too many variants", ": matrix.", "at most 10000", "1000 x 1000");
}

TEST(ScenarioError, NestingOfAnyDepthIsRefused) {
  std::string path = "train", nested = "1";
  for (int i = 0; i < 100000; ++i) path += ".a";
  for (int i = 0; i < 100000; ++i) nested = "[" + nested + "]";
  EXPECT_PROBLEM(problem_of(with("matrix", {{path, {1}}})), "too many keys", ": matrix.train.a", "at most 32",
                 "100001");
  EXPECT_EQ(problem_of(minimal(), {path + "=1"}).what, "a path has too many keys");
  EXPECT_EQ(problem_of(minimal(), {"train=" + nested}).what, "JSON is nested too deeply");
  const lockstep::test::Scratch scratch;
  EXPECT_THROW(load_scenario(scratch.write("s.json", "{\"name\": " + nested + "}")), InputError);
}

/// Each variant takes what both of the two before it saved: there are 2^60 ways back to the first.
TEST(ScenarioError, ManyWaysBackAreNoCircle) {
  Json document = with_variants({{"v00", {{"train", {{"checkpoint", {{"save_every", 1}}}}}}}});
  for (int i = 1; i <= 60; ++i) {
    const auto name = [](int n) { return "v" + std::string(n < 10 ? "0" : "") + std::to_string(n); };
    document["variants"][name(i)]["train"]["checkpoint"] = {
        {"save_every", 1}, {"follow", name(i - 1)}, {"load", {{"from", name(i - 1)}, {"restore", {"weights"}}}}};
  }
  EXPECT_NO_THROW(load(document));
  document["variants"]["v00"]["train"]["checkpoint"]["load"] = {{"from", "v60"}, {"restore", {"weights"}}};
  EXPECT_NE(problem_of(document).what.find("in a circle"), std::string::npos);
}

TEST(ScenarioError, DuplicateVariantsInTheFile) {
  const lockstep::test::Scratch scratch;
  const auto file = scratch.write("s.json", R"({"name": "x", "variants": {"a": {}, "a": {}}})");
  try {
    load_scenario(file);
    FAIL() << "accepted";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().what, "the key 'a' appears twice in one object");
  }
}

}  // namespace
}  // namespace lockstep::scenario
