#include <filesystem>
#include <string>

#include "harness/trace/line.h"
#include "harness/trace/writer.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

/// Two recorded runs are all that `lockstep diff` has: neither a scenario nor control runs.
class DiffEndToEnd : public EndToEnd {
 protected:
  /// Runs the scenario and keeps its folders.
  void record(const Json& of) {
    result_ = run(of);
    ASSERT_FALSE(result_.json.is_null()) << result_.said();
    folder_ = result_.out / of.at("name").get<std::string>();
  }

  fs::path of(const std::string& variant) const { return folder_ / variant / "0"; }

  Json diff(const std::string& left, const std::string& right, const std::vector<std::string>& more = {}) const {
    std::vector<std::string> words{"diff", of(left), of(right), "--json", "-"};
    words.insert(words.end(), more.begin(), more.end());
    const Outcome outcome = run_lockstep(words);
    EXPECT_NE(outcome.exit_code, 2) << outcome.out << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }

  /// `run` and `diff` say the same of the only check of this kind.
  void expect_same_cause(const std::string& relation, const std::string& left, const std::string& right,
                         const std::string& cause) const {
    const Json check = result_.check(relation), found = diff(left, right);
    EXPECT_EQ(check["cause"], cause) << result_.said();
    EXPECT_EQ(found["cause"], check["cause"]) << found.dump(1);
    EXPECT_EQ(found["class"], check["class"]);
    for (const char* place : {"step", "channel", "tensor", "rank"})
      EXPECT_EQ(found["first_divergence"][place], check["first_divergence"][place]) << place;
  }

  Result result_;
  fs::path folder_;
};

Json pair(const Json& left, const Json& right, const Json& checks) {
  return {{"variants", {{"one", left}, {"other", right}}}, {"checks", checks}};
}

TEST_F(DiffEndToEnd, NamesTheCauseThatRunNames) {
  const Json summed = {{"world_size", 2}, {"train", {{"ddp", {{"average", false}}}}}};
  record(
      scenario(pair({{"world_size", 1}}, summed, Json::array({check("rounding", {{"variants", {"one", "other"}}})}))));
  expect_same_cause("rounding", "one", "other", "grad.reduce_sum");
  fs::create_directory(folder_ / "copy");
  fs::copy(of("one"), of("copy"), fs::copy_options::recursive);
  const Json same = diff("one", "copy");
  EXPECT_EQ(same["status"], "agree");
  EXPECT_TRUE(same["cause"].is_null());
  EXPECT_EQ(diff("one", "other")["decided_by"], "named");
  EXPECT_TRUE(same["decided_by"].is_null());
  EXPECT_GT(same["records_compared"], 0);
}

// Agreement that compares nothing is none.
TEST_F(DiffEndToEnd, SaysThatARunAgreesWithItselfOrThatThereIsNoUpdate) {
  record(scenario());
  fs::create_directory_symlink(of("main"), folder_ / "again");
  for (const fs::path& other : {of("main"), folder_ / "again"}) {
    const Outcome itself = run_lockstep({"diff", of("main"), other});
    EXPECT_EQ(itself.exit_code, 4) << itself.out;
    expect_says(itself.out, {"inconclusive", "both are the same recording", "rank0.jsonl", "shows nothing"});
  }
  const Outcome rank = run_lockstep({"diff", of("main") / "rank1.jsonl", of("main") / "rank1.jsonl"});
  expect_says(rank.out, {"inconclusive", "both are the same recording"});

  for (const char* name : {"first", "second"}) {
    fs::create_directories(scratch_.path() / name);
    trace::Writer writer(scratch_.path() / name / "rank0.jsonl", {{"rank", 0}, {"world_size", 1}});
    writer.write(trace::line_of(trace::Step{
        .step = trace::kInitialStep, .records = {{.channel = trace::Channel::kWeight, .name = "w", .shape = {}}}}));
    writer.finish();
  }
  const Outcome states = run_lockstep({"diff", scratch_.path() / "first", scratch_.path() / "second"});
  EXPECT_EQ(states.exit_code, 4) << states.out << states.err;
  expect_says(states.out, {"inconclusive: 1 records", "neither recording holds an update"});
}

// The world sizes differ by rounding from the first step on; the mistake comes later.
TEST_F(DiffEndToEnd, FindsTheMistakeBehindRounding) {
  const Json wrong = {{"world_size", 2}, {"train", {{"faults", {fault("gradient_factor", 2, -1, {{"factor", 2}})}}}}};
  record(
      scenario(pair({{"world_size", 1}}, wrong, Json::array({check("rounding", {{"variants", {"one", "other"}}})}))));
  const Json found = diff("one", "other");
  EXPECT_EQ(found["class"], "semantic") << found.dump(1);
  EXPECT_EQ(found["first_divergence"]["step"], 2);
  EXPECT_EQ(found["first_divergence"]["channel"], "gradient");
  expect_says(found["why"].get<std::string>(), {"the first difference is at step", "by rounding"});
}

TEST_F(DiffEndToEnd, AsksOfTwoRepeatsWhatRepeatableAsks) {
  record(scenario({{"repeats", 2},
                   {"train", {{"seed", {{"policy", "unseeded"}}}}},
                   {"checks", Json::array({check("repeatable")})}}));
  const Json check = result_.check("repeatable");
  EXPECT_EQ(check["cause"], "rng.unseeded") << result_.said();
  const Outcome outcome = run_lockstep({"diff", folder_ / "main/0", folder_ / "main/1", "--json", "-"});
  const Json found = Json::parse(outcome.out, nullptr, false);
  for (const char* key : {"cause", "class"}) EXPECT_EQ(found[key], check[key]) << outcome.out;
  EXPECT_EQ(found["first_divergence"]["step"], check["first_divergence"]["step"]);
}

TEST_F(DiffEndToEnd, KnowsAResumptionByItsRunSpec) {
  const Json saves = at("train.checkpoint.save_after", 2);
  const Json resumed = {
      {"train",
       {{"checkpoint",
         {{"load",
           {{"from", "straight"}, {"restore", {"weights", "schedule", "sampler", "rng", "buckets", "buffers"}}}}}}}}};
  Json both = {{"variants", {{"straight", saves}, {"resumed", resumed}}},
               {"checks", Json::array({check("resumes", {{"straight", "straight"}, {"interrupted", "resumed"}})})}};
  record(scenario(both));
  expect_same_cause("resumes", "straight", "resumed", "ckpt.opt_not_applied");
}

TEST_F(DiffEndToEnd, WithoutPromisesNoCauseIsNamedAndItSaysWhy) {
  record(scenario(pair({{"world_size", 2}}, {{"world_size", 2}, {"train", {{"ddp", {{"average", false}}}}}},
                       Json::array({check("equal", {{"variants", {"one", "other"}}})}))));
  expect_same_cause("equal", "one", "other", "grad.reduce_sum");
  for (const char* deed : {"missing", "torn", "of another program"}) {
    SCOPED_TRACE(deed);
    const fs::path spec = of("other") / "run.json";
    if (std::string(deed) == "missing") fs::remove(spec);
    if (std::string(deed) == "torn") write_lines(spec, {"{\"format\": "});
    if (std::string(deed) == "of another program") write_lines(spec, {"{\"format\": \"other/1\"}"});
    const Json found = diff("one", "other");
    EXPECT_EQ(found["cause"], "unknown");
    EXPECT_EQ(found["status"], "divergence");
    const Outcome text = run_lockstep({"diff", of("one"), of("other")});
    expect_says(text.out, {"causes are not searched", "run.json"});
  }
}

}  // namespace
}  // namespace lockstep::test
