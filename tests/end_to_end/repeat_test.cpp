// The same training twice is the same, wherever it is started from; where it is not, that is nondeterminism.
#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class RepeatEndToEnd : public EndToEnd {
 protected:
  static Json repeated(const Json& changes = Json::object()) {
    return scenario(merged({{{"repeats", 2}, {"checks", Json::array({check("repeatable")})}}, changes}));
  }

  /// A worker that changes its RunSpec, in the second repeat only, by a sed script: nothing else differs between
  /// repeats.
  fs::path unsteady_worker(const std::string& sed, const std::string& ranks = "*") const {
    return script_worker("case $spec:$RANK in */1/run.json:" + ranks + ") sed -z '" + sed +
                         "' $spec > $spec.$RANK; spec=$spec.$RANK;; esac\nexec $worker --spec $spec --out $out");
  }
};

TEST_F(RepeatEndToEnd, ASecondRepeatThatDiffersIsNondeterminism) {
  const std::tuple<const char*, const char*, Place> cases[] = {
      {"s/\"lr\": 0.1,/\"lr\": 0.10001,/", "*", {0, "weight", "fc1.weight", 0}},
      {"s/\"seed\": {[^}]*\"base\": 3/\"seed\": {\"base\": 4/", "*", {-1, "rng", "cpu", 0}},
      {"s/\"faults\": \\[\\]/\"faults\": [{\"kind\": \"flip_weight_bit\", \"step\": 2, \"rank\": 1}]/",
       "1",
       {2, "weight", "fc1.weight", 1}}};
  for (const auto& [sed, ranks, place] : cases) {
    SCOPED_TRACE(sed);
    const Result red = run(repeated(), {"--worker", unsteady_worker(sed, ranks)});
    EXPECT_EQ(red.exit_code(), 1) << red.said();
    expect_divergence(red.check("repeatable"), place, "nondeterminism");
    EXPECT_EQ(red.check("repeatable").at("first_divergence").at("right"), "main/1");
  }
  expect_green(run(repeated(), {"--worker", unsteady_worker("s/nothing/at all/")}));
}

TEST_F(RepeatEndToEnd, NoGoldenIsAcceptedOfATrainingThatDoesNotRepeatItself) {
  const Json training = scenario({{"checks", Json::array({check("golden")})}});
  const Outcome outcome = run_lockstep({"golden", "accept", write(training), "--golden", golden_root(), "--reason", "x",
                                        "--worker", unsteady_worker("s/\"lr\": 0.1,/\"lr\": 0.2,/")});
  EXPECT_TRUE(outcome.exit_code == 1 || outcome.exit_code == 2) << outcome.out << outcome.err;
  expect_says(outcome.err, {"the repeats differ", "step 0, weight fc1.weight, rank 0"});
  EXPECT_FALSE(fs::exists(golden_root()));
}

TEST_F(RepeatEndToEnd, DiffOfTwoRepeatsAndOfTwoRuns) {
  const Result first = run(repeated());
  expect_green(first);
  const fs::path json = scratch_.path() / "diff.json";
  const auto diff = [&](const fs::path& left, const fs::path& right) {
    const Outcome outcome = run_lockstep({"diff", left, right, "--json", json});
    EXPECT_EQ(read_json(json).at("exit_code"), outcome.exit_code);
    return std::pair{outcome.exit_code, read_json(json)};
  };
  const auto [equal, nothing] = diff(first.out / "tiny/main/0", first.out / "tiny/main/1");
  EXPECT_EQ(equal, 0);
  EXPECT_TRUE(nothing.at("first_divergence").is_null());
  EXPECT_GT(nothing.at("records_compared"), 100);

  Json swapped = scenario();
  swapped["train"]["faults"] = {fault("swap_samples", 2, 1)};
  const Result other = run(swapped);
  const auto [differs, found] = diff(first.out / "tiny/main/0", other.out / "tiny/main/0");
  EXPECT_EQ(differs, 1);
  const Json& at = found.at("first_divergence");
  EXPECT_EQ(Json({at.at("step"), at.at("channel"), at.at("tensor"), at.at("rank")}), Json({2, "samples", "ids", 1}));
  EXPECT_EQ(found.at("class"), "semantic");
  EXPECT_EQ(run_lockstep({"diff", first.out / "tiny/main/0", other.out / "tiny/main/0", "--channel", "rng"}).exit_code,
            0);
  const Result alone = run(scenario({{"world_size", 1}, {"checks", {check("finishes")}}}));
  expect_green(alone);
  const auto [rounds, rounding] = diff(first.out / "tiny/main/0", alone.out / "tiny/main/0");
  EXPECT_EQ(rounds, 1);
  EXPECT_EQ(rounding.at("class"), "rounding");
}

TEST_F(RepeatEndToEnd, GoldenVerdictDoesNotDependOnTheFolder) {
  const Json training = scenario({{"checks", Json::array({check("golden")})}});
  accept(training);
  const fs::path file = write(training), elsewhere = scratch_.path() / "else where";
  fs::create_directories(elsewhere);
  expect_green(run_file(file, {}, elsewhere));
  expect_green(run_file(file, {}, "/"));
  const Outcome relative = run_lockstep(
      {"run", "../tiny.json", "--golden", "../golden", "--out", "runs", "--json", "result.json"}, elsewhere);
  EXPECT_EQ(relative.exit_code, 0) << relative.out << relative.err;
  EXPECT_TRUE(fs::exists(elsewhere / "result.json"));
}

TEST_F(RepeatEndToEnd, GoldenVerdictDoesNotDependOnWhereScenarioAndDataLie) {
  Json training = scenario({{"checks", Json::array({check("golden")})}});
  accept(training);
  const fs::path moved = scratch_.path() / "moved";
  fs::create_directories(moved / "data");
  fs::copy_file(source_root() / "scenarios/data/digits.csv.gz", moved / "data/renamed.gz");
  training["train"]["data"]["path"] = "data/renamed.gz";
  const fs::path file = scratch_.write("moved/tiny.json", training.dump());
  expect_green(run_file(file));
  const Result red = run_file(file, {"--set", "train.optimizer.lr=0.2"}, moved);
  EXPECT_EQ(red.exit_code(), 1) << red.said();
}

/// What a run prints as the command that reproduces it does so, with the goldens that were named.
TEST_F(RepeatEndToEnd, ReproduceCommandReproduces) {
  const Json training = scenario({{"checks", Json::array({check("golden")})}});
  accept(training);
  const Result red = run(training, {"--set", "train.optimizer.lr=0.2"});
  ASSERT_EQ(red.exit_code(), 1) << red.said();
  const std::string command = red.check("golden").at("reproduce");
  ASSERT_EQ(command.rfind("lockstep ", 0), 0U);
  const fs::path elsewhere = scratch_.path() / "elsewhere";
  fs::create_directories(elsewhere);
  const std::string shell = "TMPDIR=$PWD " + lockstep_program().string() + command.substr(8);
  const Outcome again = run_program({"/bin/sh", "-c", shell}, 60, elsewhere);
  EXPECT_EQ(again.exit_code, 1) << command << "\n" << again.out << again.err;
}

}  // namespace
}  // namespace lockstep::test
