// lockstep faults: how many planted faults are met rightly, and what says so can say otherwise.
#include <set>

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

class FaultsEndToEnd : public EndToEnd {
 protected:
  /// A clean check, and a sum where a mean was meant, with what the author expects to be found.
  static Json planted(const Json& expect) {
    Json expected = {{"status", "divergence"}, {"reason", "summed"}};
    expected.update(expect);
    return scenario(
        {{"variants",
          {{"clean", Json::object()}, {"other", Json::object()}, {"summed", at("train.ddp.average", false)}}},
         {"checks",
          {check("equal", {{"variants", {"clean", "other"}}}),
           check("equal", {{"variants", {"clean", "summed"}}, {"expect", expected}})}}});
  }

  Outcome faults(const Json& scenario, const std::vector<std::string>& more = {}) {
    std::vector<std::string> arguments{"faults", write(scenario).string()};
    arguments.insert(arguments.end(), more.begin(), more.end());
    return run_lockstep(arguments);
  }
};

TEST_F(FaultsEndToEnd, RightlyMetFaultsAreCounted) {
  const Json right = {
      {"cause", "grad.reduce_sum"}, {"class", "semantic"}, {"at", {{"step", 0}, {"channel", "gradient"}}}};
  const Outcome outcome = faults(planted(right));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  for (const char* line :
       {"detected                        1 of 1", "cause right                     1 of 1",
        "located right                   1 of 1", "false alarms                    0 in 1 clean pairs"})
    expect_says(outcome.out, {line});
  expect_says(faults(planted(right), {"--markdown"}).out,
              {"| summed | `grad.reduce_sum` |", "| yes | `grad.reduce_sum` | 1 |"});
}

/// The faulty run is asked the laws by itself, and so is each clean one.
TEST_F(FaultsEndToEnd, FaultsAreAlsoSoughtWithoutATwin) {
  Json alone = planted({{"class", "semantic"}});
  alone["variants"]["summed"] = at("train.faults", {fault("gradient_factor", 1, -1, {{"factor", 2}})});
  const Outcome outcome = faults(alone, {"--markdown"});
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  expect_says(outcome.out, {"| found without a twin | 1 of 1 |", "| cause right without a twin | 0 of 0 |",
                            "| laws broken by clean runs | 0 in 2 runs |", "| without a twin |", "| reduction, `"});
  // A sum that the recipe asks for keeps every law.
  expect_says(faults(planted({{"cause", "grad.reduce_sum"}}), {"--markdown"}).out,
              {"| found without a twin | 0 of 1 |", " | - |"});
}

TEST_F(FaultsEndToEnd, AnOpenFaultThatIsFoundByNowFails) {
  const Outcome found = faults(planted({{"cause", "grad.reduce_sum"}}), {"--open"});
  EXPECT_EQ(found.exit_code, 1);
  expect_says(found.out, {"FOUND   equal (clean, summed) (summed): judged as it expects"});
  const Outcome open = faults(planted({{"cause", "grad.double_average"}}), {"--open"});
  EXPECT_EQ(open.exit_code, 0) << open.out << open.err;
}

TEST_F(FaultsEndToEnd, APartSaysThatItIsOne) {
  const Json right = planted({{"cause", "grad.reduce_sum"}});
  const Outcome clean = faults(right, {"--part", "1/2"});
  EXPECT_EQ(clean.exit_code, 0) << clean.out << clean.err;
  expect_says(clean.out, {"part 1/2 of the checks", "detected                        0 of 0", "0 in 1 clean pairs"});
  const Outcome planted_one = faults(right, {"--part", "2/2", "--markdown"});
  EXPECT_EQ(planted_one.exit_code, 0) << planted_one.out << planted_one.err;
  expect_says(planted_one.out, {"Only part 2/2 of the checks", "| detected | 1 of 1 |"});
  EXPECT_EQ(faults(right).out.find("part"), std::string::npos);
  for (const char* part : {"3/3", "0/2", "half"}) EXPECT_EQ(faults(right, {"--part", part}).exit_code, 2) << part;
}

TEST_F(FaultsEndToEnd, AnyCauseWillDoWhereNoneIsAskedFor) {
  const Outcome outcome = faults(planted({{"class", "semantic"}}));
  EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  expect_says(outcome.out, {"detected                        1 of 1"});
  expect_says(outcome.out, {"cause right                     0 of 0"});
}

TEST_F(FaultsEndToEnd, FaultsThatChangeNothingProveNothing) {
  Json inert = planted({{"cause", "grad.reduce_sum"}});
  inert["variants"]["summed"] = Json::object();
  const Outcome outcome = faults(inert);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out << outcome.err;
  expect_says(outcome.out, {"inert, and left out of these    1 of 1"});
}

/// Causes that look alike: faults of both are planted, so that `ci/faults` shows which is named for which.
TEST_F(FaultsEndToEnd, BothOfEachConfusablePairArePlanted) {
  std::set<std::string> planted;
  for (const char* folder : {"scenarios/faults", "scenarios/traps"}) {
    for (const auto& file : std::filesystem::directory_iterator(source_root() / folder)) {
      const Json scenario = read_json(file.path());
      for (const Json& check : scenario.at("checks")) {
        if (check.contains("/expect/cause"_json_pointer)) planted.insert(check["expect"]["cause"].get<std::string>());
      }
    }
  }
  for (const auto& [one, other] :
       std::initializer_list<std::pair<const char*, const char*>>{{"grad.reduce_sum", "loss.world_scale"},
                                                                  {"grad.double_average", "loss.denominator_global"},
                                                                  {"grad.accum_scale", "grad.not_zeroed"},
                                                                  {"lr.scaled_wrongly", "grad.reduce_sum"},
                                                                  {"grad.not_reduced", "init.rank_divergent"},
                                                                  {"grad.not_reduced", "ckpt.load_rank0_only"},
                                                                  {"grad.param_unregistered", "grad.bucket_missing"},
                                                                  {"data.not_sharded", "rng.augment_rank_clone"},
                                                                  {"data.epoch_not_advanced", "data.seed_ignored"},
                                                                  {"data.resume_restart", "ckpt.off_by_one"},
                                                                  {"ckpt.opt_not_applied", "ckpt.opt_missing"},
                                                                  {"hw.sdc_rank", "fp.rank_order"},
                                                                  {"fp.lowprec_accumulate", "fp.thread_count"},
                                                                  {"loss.token_weighting", "loss.token_weighting_rank"},
                                                                  {"comm.race", "fp.unordered_threads"},
                                                                  {"comm.race", "fp.atomic_op"},
                                                                  {"grad.not_reduced", "grad.view_detached"},
                                                                  {"grad.bucket_missing", "grad.view_detached"},
                                                                  {"comm.race", "mem.uninitialised"},
                                                                  {"comm.noncontiguous", "hw.sdc_rank"},
                                                                  {"env.flag_mismatch", "env.variable_mismatch"},
                                                                  {"env.variable_mismatch", "fp.isa"},
                                                                  {"proc.rank_stuck", "control.rank_branch"},
                                                                  {"data.uneven_inputs", "control.rank_branch"},
                                                                  {"ckpt.truncated", "ckpt.race"},
                                                                  {"ckpt.position_unit", "data.resume_restart"}}) {
    EXPECT_TRUE(planted.contains(one)) << one;
    EXPECT_TRUE(planted.contains(other)) << other;
  }
}

TEST_F(FaultsEndToEnd, AWrongCauseAndAWrongPlaceAreNotRight) {
  const Outcome cause = faults(planted({{"cause", "grad.double_average"}}));
  EXPECT_EQ(cause.exit_code, 1) << cause.out;
  expect_says(cause.out, {"WRONG", "planted   grad.double_average", "found     grad.reduce_sum",
                          "cause right                     0 of 1"});
  const Outcome place = faults(planted({{"cause", "grad.reduce_sum"}, {"at", {{"step", 3}}}}));
  EXPECT_EQ(place.exit_code, 1) << place.out;
  expect_says(place.out, {"located right                   0 of 1"});
}

TEST_F(FaultsEndToEnd, AMissedFaultAndAFalseAlarmAreTold) {
  Json missed = planted({{"cause", "grad.reduce_sum"}});
  missed["variants"]["summed"] = at("train.faults", {fault("learning_rate_factor", 0, -1, {{"factor", 2}})});
  missed["checks"][1]["on"] = {"samples"};
  const Outcome outcome = faults(missed);
  EXPECT_EQ(outcome.exit_code, 1) << outcome.out;
  expect_says(outcome.out, {"MISSED", "detected                        0 of 1"});
  Json alarm = planted({{"cause", "grad.reduce_sum"}});
  alarm["variants"]["other"] = at("train.optimizer.lr", 0.2);
  const Outcome alarmed = faults(alarm);
  EXPECT_EQ(alarmed.exit_code, 1) << alarmed.out;
  expect_says(alarmed.out, {"ALARM", "1 in 1 clean pairs"});
}

TEST_F(FaultsEndToEnd, AnInertInjectionIsCountedApart) {
  Json inert = planted({{"cause", "grad.reduce_sum"}});
  inert["variants"]["summed"] = at("train.faults", {fault("gradient_factor", 0, -1, {{"factor", 1}})});
  const Outcome outcome = faults(inert);
  expect_says(outcome.out, {"inert, and left out of these    1 of 1", "detected                        0 of 0"});
}

TEST_F(FaultsEndToEnd, ARunThatDiesIsNoFigure) {
  Json dead = planted({{"cause", "grad.reduce_sum"}});
  dead["variants"]["other"] = at("train.faults", {fault("kill", 1, 0)});
  EXPECT_EQ(faults(dead).exit_code, 4);
}

}  // namespace
}  // namespace lockstep::test
