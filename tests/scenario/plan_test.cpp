#include "harness/plan/plan.h"

#include <map>

#include <gtest/gtest.h>

#include "tests/scenario/loading.h"

namespace lockstep::plan {
namespace {

using lockstep::test::Scratch;
using scenario::Scenario;
using scenario::test::minimal;
using scenario::test::with;
using scenario::test::with_variants;

Plan plan_of(const Json& document, const std::vector<std::string>& overrides = {}) {
  return make_plan({scenario::test::load(document, overrides)});
}

const Json& spec_of(const Run& run) { return std::get<WorkerProgram>(run.program).spec; }

/// Digest of the only variant's first run.
std::string digest_of(const Json& document) { return plan_of(document).runs.at(0).train_digest; }

/// `minimal()` on digits of the file `path`.
Json digits(const char* path) { return with("train.data", {{"kind", "digits"}, {"path", path}}); }

std::string digits_digest(const Scratch& scratch, const std::string& file, const char* path) {
  return make_plan({scenario::load_scenario(scratch.write(file, digits(path).dump()))}).runs.at(0).train_digest;
}

TEST(Plan, RunsEveryVariantAsOftenAsItRepeats) {
  Json document = with_variants({{"a", {{"world_size", 1}}}, {"b", {{"world_size", 2}}}});
  document["repeats"] = 3;
  const Plan plan = plan_of(document);
  std::vector<std::string> names;
  for (const auto& run : plan.runs) names.push_back(run.name);
  EXPECT_EQ(names, (std::vector<std::string>{"minimal/a/0", "minimal/a/1", "minimal/a/2", "minimal/b/0", "minimal/b/1",
                                             "minimal/b/2"}));
  EXPECT_EQ(plan.runs[4].scenario, "minimal");
  EXPECT_EQ(plan.runs[4].variant, "b");
  EXPECT_EQ(plan.runs[4].repeat, 1);
  EXPECT_EQ(plan.runs[4].world_size, 2);
  EXPECT_EQ(plan.runs_of("minimal", "b"), (std::vector<std::size_t>{3, 4, 5}));
  EXPECT_TRUE(plan.runs_of("minimal", "c").empty());
  EXPECT_TRUE(plan.runs_of("other", "b").empty());
}

TEST(Plan, RepeatsComputeTheSame) {
  const Plan plan = plan_of(minimal());
  EXPECT_EQ(plan.runs[0].train_digest, plan.runs[1].train_digest);
  Json second = spec_of(plan.runs[1]);
  EXPECT_EQ(second["repeat"], 1);
  second["repeat"] = 0;
  EXPECT_EQ(spec_of(plan.runs[0]), second);
}

TEST(Plan, AnotherDeviceIsAnotherTraining) {
  EXPECT_EQ(digest_of(with("train.device", "cpu")), digest_of(minimal())) << "goldens do not name the default";
  EXPECT_NE(digest_of(with("train.device", "cuda")), digest_of(minimal()));
}

TEST(Plan, SpecHoldsWhatTheWorkerNeeds) {
  const auto run = plan_of(with("world_size", 4)).runs[0];
  EXPECT_EQ(spec_of(run)["format"], "lockstep.run/1");
  EXPECT_EQ(spec_of(run)["scenario"], "minimal");
  EXPECT_EQ(spec_of(run)["variant"], "main");
  EXPECT_EQ(spec_of(run)["world_size"], 4);
  EXPECT_EQ(spec_of(run)["train_digest"], run.train_digest);
  EXPECT_EQ(spec_of(run)["train"]["optimizer"]["momentum"], 0);
  EXPECT_TRUE(spec_of(run)["files"].empty());
  EXPECT_FALSE(spec_of(run).contains("launch"));
  EXPECT_EQ(run.train_digest.size(), 64U);
}

TEST(Plan, ChecksComeWithTheirScenario) {
  Json document = minimal();
  document["checks"].push_back({{"that", "golden"}});
  const Plan plan = plan_of(document);
  ASSERT_EQ(plan.checks.size(), 2U);
  EXPECT_EQ(plan.checks[1].scenario, "minimal");
  EXPECT_EQ(plan.checks[1].index, 1U);
  EXPECT_EQ(plan.checks[1].spec.that, scenario::CheckKind::kGolden);
}

TEST(Plan, LoadingRunComesAfterTheSameRepeatOfItsSource) {
  const Plan plan = plan_of(with_variants({{"a-loader", {{"train", {{"checkpoint", {{"load", {{"from", "saver"}}}}}}}}},
                                           {"plain", Json::object()},
                                           {"saver", {{"train", {{"checkpoint", {{"save_after", 4}}}}}}}}));
  const std::vector<std::size_t> savers = plan.runs_of("minimal", "saver");
  const std::vector<std::size_t> loaders = plan.runs_of("minimal", "a-loader");
  ASSERT_EQ(loaders.size(), 2U);
  for (std::size_t repeat = 0; repeat < 2; ++repeat) {
    EXPECT_EQ(plan.runs[loaders[repeat]].after, std::vector{savers[repeat]});
    EXPECT_EQ(spec_of(plan.runs[loaders[repeat]])["files"]["checkpoint"],
              "../../saver/" + std::to_string(repeat) + "/checkpoint");
    EXPECT_TRUE(plan.runs[savers[repeat]].after.empty());
  }
  for (const std::size_t i : plan.runs_of("minimal", "plain")) EXPECT_TRUE(plan.runs[i].after.empty());
}

TEST(Plan, LoadsStayWithinTheirScenario) {
  const Json document = with_variants({{"loader", {{"train", {{"checkpoint", {{"load", {{"from", "saver"}}}}}}}}},
                                       {"saver", {{"train", {{"checkpoint", {{"save_after", 4}}}}}}}});
  const Plan plan = make_plan({scenario::test::load(document), scenario::test::load(document, {"name=second"})});
  ASSERT_EQ(plan.runs.size(), 8U);
  for (const auto& run : plan.runs) {
    ASSERT_EQ(run.after.size(), run.variant == "loader" ? 1U : 0U) << run.name;
    for (const std::size_t source : run.after)
      EXPECT_EQ(plan.runs[source].name, run.scenario + "/saver/" + std::to_string(run.repeat));
  }
  EXPECT_EQ(plan.scenario("second").name, "second");
}

TEST(Plan, DigestDependsOnEveryValueOfTheTraining) {
  const std::pair<const char*, Json> changes[] = {
      {"world_size", 2},
      {"train.model", {{"kind", "mlp"}}},
      {"train.data.size", 100},
      {"train.data.seed", 1},
      {"train.sampler", {{"kind", "contiguous"}}},
      {"train.sampler", {{"kind", "distributed"}, {"shuffle", false}}},
      {"train.batch", {{"global", 12}}},
      {"train.batch", {{"per_rank", 24}}},
      {"train.batch.accumulation", 2},
      {"train.optimizer.lr", 0.2},
      {"train.optimizer.momentum", 0.9},
      {"train.learning_rate_rule", {{"kind", "linear"}, {"base_batch", 24}}},
      {"train.schedule", {{"kind", "step"}, {"every", 3}}},
      {"train.steps", 9},
      {"train.seed.base", 1},
      {"train.seed.policy", "add_rank"},
      {"train.determinism.cpu", "portable"},
      {"train.determinism.threads", 2},
      {"train.ddp.average", false},
      {"train.ddp.bucket_mb", 25},
      {"train.checkpoint.save_after", 3},
      {"train.faults", {{{"kind", "kill"}, {"step", 1}, {"rank", 0}}}},
  };
  std::map<std::string, std::string> seen = {{digest_of(minimal()), "unchanged"}};
  for (const auto& [path, value] : changes) {
    const auto [other, fresh] = seen.emplace(digest_of(with(path, value)), path);
    EXPECT_TRUE(fresh) << path << " = " << value << " is " << other->second;
  }
}

TEST(Plan, DigestDoesNotDependOnWhereNorOnNames) {
  const std::string digest = digest_of(minimal());
  EXPECT_EQ(digest_of(with("name", "other")), digest);
  EXPECT_EQ(digest_of(with("description", "other")), digest);
  EXPECT_EQ(digest_of(with("repeats", 3)), digest);
  EXPECT_EQ(digest_of(with_variants({{"x", Json::object()}})), digest);
  EXPECT_EQ(
      digest_of(with(
          "launch", {{"arrival_delay_ms", {9}}, {"environment", {{"A", "b"}}}, {"directory", "d"}, {"deadline_s", 5}})),
      digest);
  EXPECT_EQ(digest_of(with("train.record", {{"every", 2}, {"channels", {"loss"}}})), digest);
  EXPECT_EQ(digest_of(with("train.optimizer.momentum", 0)), digest) << "a default that is written changes nothing";
}

TEST(Plan, DigestFollowsTheContentOfTheDataNotItsPlace) {
  const Scratch scratch;
  scratch.write("a/digits.csv.gz", "content");
  scratch.write("b/deeper/other.csv.gz", "content");
  const std::string first = digits_digest(scratch, "a/s.json", "digits.csv.gz");
  EXPECT_EQ(digits_digest(scratch, "b/s.json", "deeper/other.csv.gz"), first);
  EXPECT_EQ(digits_digest(scratch, "b/s.json", "../a/digits.csv.gz"), first);
  scratch.write("a/digits.csv.gz", "Content");
  EXPECT_NE(digits_digest(scratch, "a/s.json", "digits.csv.gz"), first);
}

TEST(Plan, DataIsFoundBesideTheScenario) {
  const Scratch scratch;
  scratch.write("data/d.gz", "x");
  const auto file = scratch.write("gate/s.json", digits("../data/d.gz").dump());
  const Plan plan = make_plan({scenario::load_scenario(file)});
  EXPECT_EQ(spec_of(plan.runs[0])["files"]["data"], (scratch.path() / "data/d.gz").string());
}

TEST(Plan, MissingDataIsAnInputError) {
  const Scratch scratch;
  const Scenario scenario = scenario::load_scenario(scratch.write("s.json", digits("none.gz").dump()));
  try {
    make_plan({scenario});
    FAIL() << "planned";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().where, (scratch.path() / "s.json").string() + ": train.data.path (variant 'main')");
    EXPECT_EQ(error.problem().actual, "'none.gz': nothing in " + (scratch.path() / "none.gz").string());
    EXPECT_EQ(error.problem().next, "correct train.data.path, or put the file there");
  }
}

/// The error of a scenario whose data are this file.
Problem problem_of_data(const Scratch& scratch, const char* path) {
  const Scenario scenario = scenario::load_scenario(scratch.write("s.json", digits(path).dump()));
  try {
    make_plan({scenario});
  } catch (const InputError& error) {
    return error.problem();
  }
  ADD_FAILURE() << "planned";
  return {};
}

// Before anything is read: hashing a home folder would take hours.
TEST(Plan, AFolderAndAFileOfATerabyteAreNoData) {
  const Scratch scratch;
  std::filesystem::create_directories(scratch.path() / "folder");
  const Problem folder = problem_of_data(scratch, "folder");
  EXPECT_EQ(folder.where, (scratch.path() / "s.json").string() + ": train.data.path (variant 'main')");
  EXPECT_EQ(folder.expected, "a file, named from the folder of the scenario, of at most 64 GiB");
  EXPECT_EQ(folder.actual, "'folder': a folder, " + (scratch.path() / "folder").string());
  const auto large = scratch.write("large.gz", "x");
  std::filesystem::resize_file(large, std::uintmax_t{1} << 40);  // sparse
  EXPECT_EQ(problem_of_data(scratch, "large.gz").actual, "'large.gz': 1099511627776 bytes in " + large.string());
  Json images = digits("large.gz");
  images["train"]["data"] = {{"kind", "image_folder"}, {"path", "s.json"}, {"size", 8}};
  try {
    make_plan({scenario::load_scenario(scratch.write("s.json", images.dump()))});
    ADD_FAILURE() << "planned";
  } catch (const InputError& error) {
    EXPECT_EQ(error.problem().actual, "'s.json': no folder, " + (scratch.path() / "s.json").string());
  }
}

TEST(Plan, TwoScenariosOfOneNameAreRefused) {
  const Scratch scratch;
  const auto first = scratch.write("first.json", minimal().dump()),
             second = scratch.write("second.json", minimal().dump());
  try {
    make_plan({scenario::load_scenario(first), scenario::load_scenario(second)});
    FAIL() << "planned";
  } catch (const InputError& error) {
    EXPECT_NE(error.problem().what.find("'minimal'"), std::string::npos);
    EXPECT_NE(error.problem().where.find(first.string()), std::string::npos);
    EXPECT_NE(error.problem().where.find(second.string()), std::string::npos);
    EXPECT_FALSE(error.problem().next.empty());
  }
}

TEST(Plan, NothingMakesAnEmptyPlan) { EXPECT_TRUE(make_plan({}).runs.empty()); }

/// `minimal()` on a folder of images.
std::string folder_digest(const Scratch& scratch, const char* path) {
  const Json data = {{"kind", "image_folder"}, {"path", path}, {"size", 8}};
  return make_plan({scenario::load_scenario(scratch.write("folder.json", with("train.data", data).dump()))})
      .runs.at(0)
      .train_digest;
}

TEST(Plan, DigestDependsOnNameAndContentOfEveryFileOfAFolder) {
  const Scratch scratch;
  scratch.write("images/a/1.png", "one");
  scratch.write("images/b/2.png", "two");
  scratch.write("moved/a/1.png", "one");
  scratch.write("moved/b/2.png", "two");
  const std::string before = folder_digest(scratch, "images");
  EXPECT_EQ(folder_digest(scratch, "images"), before);
  EXPECT_EQ(folder_digest(scratch, "moved/../moved/"), before);
  scratch.write("images/b/2.png", "2");
  EXPECT_NE(folder_digest(scratch, "images"), before);
  std::filesystem::rename(scratch.path() / "moved/b/2.png", scratch.path() / "moved/a/2.png");
  EXPECT_NE(folder_digest(scratch, "moved"), before);
  EXPECT_THROW(folder_digest(scratch, "none"), InputError);
}

TEST(Plan, EveryFileOfTheDataIsHashedAndTold) {
  const Scratch scratch;
  const auto images = scratch.write("images", "pixels"), labels = scratch.write("labels", "digits");
  const Json document = with("train.data", {{"kind", "idx"}, {"images", "images"}, {"labels", "./labels"}});
  const auto run = [&] {
    return make_plan({scenario::load_scenario(scratch.write("idx.json", document.dump()))}).runs.at(0);
  };
  const auto before = run();
  EXPECT_EQ(spec_of(before)["files"], Json({{"data.images", images}, {"data.labels", labels}}));
  scratch.write("labels", "others");
  const auto after = run();
  EXPECT_NE(after.train_digest, before.train_digest);
  scratch.write("images", "others");
  scratch.write("labels", "pixels");
  EXPECT_NE(run().train_digest, after.train_digest);
}

}  // namespace
}  // namespace lockstep::plan
