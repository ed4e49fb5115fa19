// `lockstep audit scaling`: the answers on recipes that scale, and each identity broken on purpose at 2, 3, 4 and 8
// ranks.
#include <algorithm>
#include <set>

#include "harness/base/files.h"
#include "harness/base/text.h"

#include "tests/end_to_end/fixture.h"
#include "tests/support/part.h"

namespace lockstep::test {
namespace {

class AuditEndToEnd : public EndToEnd {
 protected:
  struct Audited {
    Outcome process;
    Json json;

    /// The line with this id; a failure where there is none.
    Json line(const std::string& id) const {
      for (const Json& line : json.value("lines", Json::array())) {
        if (line.at("id") == id) return line;
      }
      ADD_FAILURE() << "no line " << id << "\n" << process.out << process.err;
      return {{"answer", ""}, {"cause", ""}, {"because", ""}, {"values", Json::array()}};
    }

    std::string answer(const std::string& id) const { return line(id).at("answer").get<std::string>(); }
  };

  /// One variant, `main`, of 48 digits in batches of 48 that 2, 3, 4 and 8 ranks divide.
  static Json recipe(const Json& train = Json::object()) {
    Json whole =
        scenario({{"train", {{"data", {{"size", 480}}}, {"batch", {{"global", 48}}}}}, {"checks", {check("laws")}}});
    for (const char* key : {"variants", "world_size", "repeats"}) whole.erase(key);
    merge_json(whole["train"], train);
    if (train.contains("batch")) whole["train"]["batch"] = train["batch"];
    for (const char* key : {"model", "optimizer"}) {
      if (train.contains(key) && train[key].contains("kind")) whole["train"][key] = train[key];
    }
    return whole;
  }

  Audited audited(const std::filesystem::path& file, std::vector<std::string> more,
                  const std::string& kind = "scaling") {
    const auto json = scratch_.path() / "audit.json";
    std::filesystem::remove(json);
    std::vector<std::string> arguments = {"audit", kind, file, "--json", json};
    arguments.insert(arguments.end(), more.begin(), more.end());
    Audited result{.process = run_lockstep(arguments)};
    if (std::filesystem::exists(json)) result.json = read_json(json);
    return result;
  }

  Audited audited(const Json& recipe, const std::vector<std::string>& more) { return audited(write(recipe), more); }
};

const std::vector<std::int64_t> kWorlds = {2, 3, 4, 8};

std::vector<std::string> only(const std::string& line) { return {"--ranks", "1,2,3,4,8", "--only", line + "@"}; }

TEST_F(AuditEndToEnd, ARecipeThatScalesHoldsEveryIdentity) {
  const Audited result = audited(recipe(), {"--ranks", "1,2,3,4,8"});
  EXPECT_EQ(result.process.exit_code, 0) << result.process.out << result.process.err;
  EXPECT_EQ(result.json.at("answer"), "the same computation on 1, 2, 3, 4, 8 ranks");
  for (const std::int64_t ranks : kWorlds) {
    const std::string w = "@" + std::to_string(ranks);
    EXPECT_EQ(result.answer("one-batch" + w), "rounding");
    EXPECT_EQ(result.answer("sum" + w), ranks == 3 ? "rounding" : "identical");  // a power of two scales every bit
    EXPECT_EQ(result.answer("accumulation" + w), "rounding");
    EXPECT_EQ(result.answer("order" + w), "holds") << result.line("order" + w);
    EXPECT_EQ(result.answer("global-batch.kept.sampler" + w), "rounding");
    EXPECT_EQ(result.answer("global-batch.linear.sampler" + w), "slip");
    EXPECT_EQ(result.answer("per-rank-batch.kept.sampler" + w), "other");
    EXPECT_EQ(result.answer("per-rank-batch.linear.sampler" + w), "empirical");
    EXPECT_EQ(result.answer("per-rank-batch.kept.no-sampler" + w), "slip");
    for (const char* id : {"ledger", "reduction", "laws"}) EXPECT_EQ(result.answer(id + w), "holds");
  }
  EXPECT_EQ(result.answer("momentum@8"), "holds");
  EXPECT_EQ(result.line("global-batch").at("values"), Json({"48", "48", "48", "48", "48"}));
}

TEST_F(AuditEndToEnd, DecayAndThresholdMustGrowWithTheSum) {
  const Json decays = {{"optimizer", {{"weight_decay", 0.1}}}}, clips = {{"gradient", {{"clip_norm", 0.1}}}};
  for (const Json& train : {decays, clips}) {
    const Audited result = audited(recipe(train), {"--ranks", "1,2,3,4,8", "--only", "sum"});
    EXPECT_EQ(result.process.exit_code, 0) << result.process.out << result.process.err;
    for (const std::int64_t ranks : kWorlds) {
      const std::string w = "@" + std::to_string(ranks);
      EXPECT_EQ(result.answer("sum-rate-only" + w), "no identity") << train;
      // clip_grad_norm_ adds 1e-6 to the norm, which then is no multiple of W.
      const bool is_exact = ranks != 3 && train == decays;
      EXPECT_EQ(result.answer("sum" + w), is_exact ? "identical" : "rounding") << result.line("sum" + w);
    }
  }
}

TEST_F(AuditEndToEnd, AdamHidesAFactorOfTheGradientsAndIsScaleFreeWithoutEps) {
  const Audited result = audited(recipe({{"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}}), {"--ranks", "1,2,3,4,8"});
  EXPECT_EQ(result.process.exit_code, 0) << result.process.out << result.process.err;
  for (const std::int64_t ranks : kWorlds) {
    const std::string w = "@" + std::to_string(ranks);
    EXPECT_EQ(result.answer("hidden-factor" + w), "hidden");
    if (ranks != 3) {
      EXPECT_EQ(result.answer("scale-free" + w), "identical");
    }
    EXPECT_NE(
        result.line("per-rank-batch.linear.sampler" + w).at("because").get<std::string>().find("for adam nothing"),
        std::string::npos);
  }
}

TEST_F(AuditEndToEnd, AnEpochsEndIsAnIdentityWhereTheSharesAreEqual) {
  const auto of = [&](std::int64_t samples, const Json& train = Json::object()) {
    Json whole = recipe(train);
    whole["train"]["data"]["size"] = samples;
    return audited(whole, {"--ranks", "1,2,3,4,8", "--only", "epoch-end"});
  };
  const Audited equal = of(72), unequal = of(71);  // 48 in a batch: 24 or 23 are left over
  EXPECT_EQ(equal.process.exit_code, 0) << equal.process.out << equal.process.err;
  EXPECT_EQ(unequal.process.exit_code, 0) << unequal.process.out << unequal.process.err;
  const Json keeps = {{"faults", Json::array({fault("drop_last_wrong", 0, -1)})}};
  const Json sums = {{"faults", Json::array({fault("ddp_wrong", 0, -1, {{"average", false}})})}};
  const Audited kept = of(71, keeps), summed = of(72, sums);
  for (const std::int64_t ranks : kWorlds) {
    const std::string w = "@" + std::to_string(ranks);
    EXPECT_EQ(equal.answer("epoch-end" + w), "rounding") << equal.line("epoch-end" + w);
    EXPECT_EQ(unequal.answer("epoch-end" + w), "no identity") << unequal.line("epoch-end" + w);
    EXPECT_EQ(unequal.answer("epoch-end-mended" + w), "rounding") << unequal.line("epoch-end-mended" + w);
    EXPECT_EQ(summed.answer("epoch-end" + w), "broken") << summed.line("epoch-end" + w);
    EXPECT_EQ(kept.answer("epoch-end-mended" + w), "broken") << kept.line("epoch-end-mended" + w);
  }
}

/// A mistake in a recipe, the line that it breaks, and the cause that is named.
struct Broken {
  const char* line;
  Json train;
  const char* cause;
  const char* answer = "broken";
  bool at_all_worlds = true;
};

TEST_F(AuditEndToEnd, EveryIdentityIsBrokenByAPlantedMistakeAtEveryWorldSize) {
  const auto planted = [](const char* kind, const Json& options = Json::object()) {
    return Json{{"faults", Json::array({fault(kind, 0, -1, options)})}};
  };
  const auto with = [](Json a, const Json& b) {
    merge_json(a, b);
    return a;
  };
  const Json adam = {{"optimizer", {{"kind", "adam"}, {"lr", 0.001}}}};
  const Json decays = {{"optimizer", {{"weight_decay", 0.1}}}};
  const Json halves = {{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}};
  const std::vector<Broken> all = {
      {"one-batch", {{"ddp", {{"average", false}}}}, "grad.reduce_sum"},
      {"one-batch", planted("ddp_wrong", {{"average", false}}), "grad.reduce_sum"},
      {"reduction", planted("ddp_wrong", {{"average", false}}), "grad.reduce_sum"},
      {"ledger", with(planted("schedule_wrong", {{"steps", "by_rank"}}), halves), "lr.schedule_rate"},
      {"sum", with(planted("decay_wrong", {{"mistake", "without_rate"}}), decays), "opt.decay_scale"},
      {"sum", planted("hyperparameter_wrong", {{"option", "weight_decay"}, {"value", 0.1}}), ""},
      {"accumulation", planted("accumulation_divisor", {{"divisor", 1}}), "grad.accum_scale"},
      {"accumulation", planted("accumulation_lost"), ""},
      {"momentum", planted("hyperparameter_wrong", {{"option", "momentum"}, {"value", 0.5}}), "opt.hyperparameter",
       "broken", false},
      {"momentum", with(planted("update_rate_wrong", {{"factor", 0.5}, {"step", 2}}), halves), "opt.other_rate",
       "broken", false},
      {"order", {{"ddp", {{"average", false}}}}, ""},
      {"order", planted("ddp_wrong", {{"average", false}}), ""},
      {"scale-free", with(planted("state_rounded", {{"dtype", "fp16"}}), adam), ""},
      {"scale-free", with(planted("formula_wrong", {{"formula", "no_root"}}), adam), ""},
      {"reduction", with(planted("ddp_wrong", {{"average", false}}), adam), "grad.reduce_sum"},
  };
  for (std::size_t i = 0; i < all.size(); ++i) {
    if (!in_part(i, 2)) continue;
    const Broken& one = all[i];
    const Audited result = audited(recipe(one.train), only(one.line));
    EXPECT_EQ(result.process.exit_code, 1) << one.line << one.train << "\n" << result.process.out << result.process.err;
    for (const std::int64_t ranks : kWorlds) {
      if (!one.at_all_worlds && ranks != kWorlds.back()) continue;
      if (std::string(one.line) == "scale-free" && ranks == 3) continue;  // no power of two
      const Json line = result.line(std::string(one.line) + "@" + std::to_string(ranks));
      EXPECT_EQ(line.at("answer"), one.answer) << one.line << one.train << line;
      EXPECT_EQ(line.at("cause").get<std::string>().rfind(one.cause, 0), 0U) << one.line << one.train << line;
    }
  }
}

TEST_F(AuditEndToEnd, AFirstOrderErrorIsMeasuredAsSuch) {
  const Audited result = audited(recipe({{"ddp", {{"average", false}}}}), only("order"));
  EXPECT_EQ(result.answer("order@4"), "broken");
  EXPECT_EQ(result.line("order@4").at("because").get<std::string>().rfind("measured order 1", 0), 0U)
      << result.line("order@4");
}

TEST_F(AuditEndToEnd, TheBatchOfEachRankIsAnotherComputation) {
  const Audited result =
      audited(recipe({{"batch", {{"per_rank", 12}}}, {"schedule", {{"kind", "linear_warmup"}, {"warmup", 2}}}}),
              {"--ranks", "1,4", "--steps", "3"});
  EXPECT_EQ(result.process.exit_code, 1);
  EXPECT_EQ(result.line("global-batch").at("values"), Json({"12", "48"}));
  for (const char* id : {"global-batch", "updates-per-epoch", "warmup", "rate-per-sample"})
    EXPECT_EQ(result.answer(id), "changes") << id;
  EXPECT_EQ(result.answer("rate"), "same");
  EXPECT_EQ(result.line("warmup").at("values"), Json({"24", "96"}));
  expect_says(result.process.out, {"another computation on another number of ranks", "samples in an update 12 to 48"});
}

TEST_F(AuditEndToEnd, ASchedulerThatStepsOnceForEachRankIsASlip) {
  const Audited result =
      audited(recipe({{"schedule", {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}, {"schedule_every", "rank"}}),
              {"--ranks", "1,2", "--only", "rate", "--only", "first-drop"});
  EXPECT_EQ(result.process.exit_code, 1);
  EXPECT_EQ(result.answer("first-drop"), "slip");
}

TEST_F(AuditEndToEnd, AnObstacleIsNamedAndItsRemedyTried) {
  const Audited result =
      audited(recipe({{"model", {{"kind", "resnet"}, {"widths", {4}}}}}), {"--ranks", "1,2", "--only", "one-batch"});
  EXPECT_EQ(result.process.exit_code, 0) << result.process.out << result.process.err;
  EXPECT_EQ(result.answer("one-batch@2"), "no identity");
  EXPECT_EQ(result.answer("one-batch-mended@2"), "rounding");
  expect_says(result.process.out, {"batch normalization takes the statistics", "convert to SyncBatchNorm"});
}

TEST_F(AuditEndToEnd, FindingsThatAreWrittenDownAreHeldAgainstTheAnswers) {
  const auto scenario = write(recipe({{"batch", {{"per_rank", 12}}}}));
  const auto file = [&](const Json& findings) {
    return scratch_.write("audit.jsonc", Json{{"audit", "scaling"},
                                              {"description", "a batch for each rank"},
                                              {"scenario", scenario.filename().string()},
                                              {"ranks", {1, 2}},
                                              {"only", {"global-batch", "rate-per-sample", "one-batch"}},
                                              {"findings", findings}}
                                             .dump());
  };
  const Json both = {{"global-batch", "changes"}, {"rate-per-sample", "changes"}};
  EXPECT_EQ(audited(file(both), {}).process.exit_code, 0);
  const Audited lacking = audited(file({{"global-batch", "changes"}}), {});
  EXPECT_EQ(lacking.process.exit_code, 1);
  expect_says(lacking.process.out, {"UNEXPECTED  rate-per-sample: changes, which the findings lack"});
  Json wrong = both;
  wrong["one-batch@2"] = "broken";
  const Audited other = audited(file(wrong), {});
  EXPECT_EQ(other.process.exit_code, 1);
  expect_says(other.process.out, {"UNEXPECTED  one-batch@2: expected broken, not rounding"});
  Json unknown = both;
  unknown["one-batch@2"] = "rounded";
  const Audited misspelt = audited(file(unknown), {});
  EXPECT_EQ(misspelt.process.exit_code, 2);
  expect_says(misspelt.process.err, {"unknown answer 'rounded'", "findings.one-batch@2", "did you mean 'rounding'?"});
}

TEST_F(AuditEndToEnd, BadInputIsRefused) {
  const auto file = write(recipe());
  const auto refused = [&](const std::vector<std::string>& more, const std::vector<std::string>& parts) {
    const Audited result = audited(file, more);
    EXPECT_EQ(result.process.exit_code, 2) << result.process.out;
    expect_says(result.process.err, parts);
  };
  refused({"--variant", "mian"}, {"unknown variant 'mian'", "did you mean 'main'?"});
  refused({"--only", "one-bach"}, {"no line of the audit begins with 'one-bach'", "did you mean"});
  refused({"--ranks", "0"}, {"--ranks"});
  refused({"--set", "train.optimizer.lrr=1"}, {"lrr"});
  refused({"--markdown", "/no/such/folder/x.md"}, {"cannot be written"});
}

TEST_F(AuditEndToEnd, ARunThatDiesIsNeverAnAgreement) {
  const Json dies = recipe({{"faults", Json::array({fault("kill", 1, 0)})}});
  const Audited result = audited(dies, {"--ranks", "1,2", "--only", "one-batch"});
  EXPECT_EQ(result.process.exit_code, 1) << result.process.out << result.process.err;
  EXPECT_EQ(result.answer("one-batch@2"), "broken");
}

TEST_F(AuditEndToEnd, TheTablesForAPullRequestAndTheChartAreWritten) {
  const auto markdown = scratch_.path() / "audit.md", chart = scratch_.path() / "audit.svg";
  const Audited result =
      audited(recipe({{"batch", {{"per_rank", 12}}}}), {"--ranks", "1,2", "--markdown", markdown, "--chart", chart});
  expect_says(read_file(markdown),
              {"| samples in an update | 12 | 24 | changes |", "| `one-batch@2` |", "lockstep audit scaling"});
  const std::string svg = read_file(chart);
  expect_says(svg, {"<svg xmlns", "samples in an update", "learning rate", "norm of the first update", "</svg>"});
  EXPECT_EQ(std::count(svg.begin(), svg.end(), '\0'), 0);
  for (const Json& line : result.json.at("lines"))
    expect_says(line.at("reproduce").get<std::string>(), {"lockstep audit scaling ", " --only "});
}

/// The recipes of real systems: what their scenario of an audit says, and nothing else. The commit chooses some of
/// them.
/// The audits of a folder that this part of the tests runs.
std::vector<std::string> audits_in(const std::filesystem::path& folder, std::size_t at_least) {
  std::set<std::string> files;
  for (const auto& file : std::filesystem::directory_iterator(folder)) {
    if (file.path().extension() == ".jsonc") files.insert(file.path().string());
  }
  EXPECT_GE(files.size(), at_least);
  std::size_t index = 0;
  std::vector<std::string> chosen;
  for (const std::string& file : files) {
    if (in_part(index++)) chosen.push_back(file);
  }
  return chosen;
}

TEST_F(AuditEndToEnd, EveryAuditOfARecipeHasTheFindingsThatItWritesDown) {
  const std::filesystem::path folder = source_root() / "scenarios/audit";
  for (const auto& [kind, files] :
       {std::pair("scaling", audits_in(folder, 15)), std::pair("checkpoint", audits_in(folder / "checkpoint", 8))}) {
    std::vector<std::string> arguments = {"audit", kind};
    arguments.insert(arguments.end(), files.begin(), files.end());
    const Outcome outcome = run_lockstep(arguments);
    EXPECT_EQ(outcome.exit_code, 0) << outcome.out << outcome.err;
  }
}

/// Momentum, running means and an average of the weights: all that a checkpoint can hold matters, but for generators.
const Json kHoldsAll = {{"model", {{"kind", "resnet"}, {"widths", {4, 8}}, {"norm", "batch"}}},
                        {"ema", {{"decay", 0.9}}}};

TEST_F(AuditEndToEnd, ACheckpointAuditTellsThePartsThatMatterFromThoseThatDoNot) {
  Json all = recipe(kHoldsAll);
  all["world_size"] = 3;
  const Audited rich = audited(write(all), {"--ranks", "3"}, "checkpoint");
  EXPECT_EQ(rich.process.exit_code, 0) << rich.process.out << rich.process.err;
  for (const char* id : {"saving", "everything"}) EXPECT_EQ(rich.answer(id), "identical") << rich.line(id);
  for (const char* part : {"weights", "optimizer", "ema", "schedule", "sampler", "buffers"})
    EXPECT_EQ(rich.answer(std::string("without-") + part), "needed") << rich.line(std::string("without-") + part);
  EXPECT_EQ(rich.answer("without-buckets"), "rounding");
  EXPECT_EQ(rich.answer("without-rng"), "identical");
  EXPECT_EQ(rich.answer("weights-only"), "needed");
  EXPECT_EQ(rich.answer("rank0.before_wrap.weights"), "identical");
  for (const char* id :
       {"rank0.after_wrap.weights", "rank0.before_wrap.weights+optimizer", "rank0.after_wrap.weights+optimizer"})
    EXPECT_EQ(rich.answer(id), "slip") << rich.line(id);

  const Json drops = recipe({{"model", {{"kind", "mlp"}, {"dropout", 0.5}}}});
  EXPECT_EQ(audited(write(drops), {"--only", "without-rng"}, "checkpoint").answer("without-rng"), "needed");

  Json plain = recipe({{"optimizer", {{"kind", "sgd"}, {"lr", 0.1}}}});
  plain["world_size"] = 2;
  const Audited poor = audited(write(plain), {"--ranks", "2,1,3"}, "checkpoint");
  EXPECT_EQ(poor.process.exit_code, 0) << poor.process.out << poor.process.err;
  for (const char* part : {"optimizer", "rng", "buckets", "buffers"})
    EXPECT_EQ(poor.answer(std::string("without-") + part), "identical") << poor.line(std::string("without-") + part);
  for (const char* id : {"everything@1", "everything@3"}) EXPECT_EQ(poor.answer(id), "rounding") << poor.line(id);
}

TEST_F(AuditEndToEnd, AMistakeOfTheRestartBreaksACheckpointAuditAndIsNamed) {
  const std::vector<std::pair<Json, std::string>> all = {
      {{{"kind", "state_cast"}}, "ckpt.dtype_cast"},
      {{{"kind", "counter_off"}}, "ckpt.off_by_one"},
      {{{"kind", "draw_after_restore"}}, "ckpt.rng_order"},
  };
  for (const auto& [planted, cause] : all) {
    Json whole = recipe(kHoldsAll);
    whole["world_size"] = 2;
    whole["variants"] = {
        {"whole", Json::object()},
        {"saved", {{"train", {{"checkpoint", {{"save_after", 1}}}}}}},
        {"recipe", {{"train", {{"checkpoint", {{"load", {{"from", "saved"}}}}}, {"faults", {planted}}}}}}};
    const Audited result = audited(write(whole), {"--only", "everything", "--ranks", "2"}, "checkpoint");
    EXPECT_EQ(result.process.exit_code, 1) << result.process.out << result.process.err;
    EXPECT_EQ(result.answer("everything"), "broken");
    EXPECT_EQ(result.line("everything").at("cause").get<std::string>().rfind(cause, 0), 0U)
        << result.line("everything");
  }
}

TEST_F(AuditEndToEnd, TheRecipesOwnWayToGoOnIsToldWhatItLacks) {
  Json whole = recipe();
  whole["world_size"] = 2;
  const Json load = {{"from", "saved"}, {"restore", {"weights", "schedule", "sampler"}}};
  whole["variants"] = {{"saved", {{"train", {{"checkpoint", {{"save_after", 1}}}}}}},
                       {"recipe", {{"train", {{"checkpoint", {{"load", load}}}}}}}};
  const Audited result = audited(write(whole), {"--ranks", "2"}, "checkpoint");
  EXPECT_EQ(result.process.exit_code, 1) << result.process.out << result.process.err;
  EXPECT_EQ(result.answer("as-written"), "broken");
  EXPECT_EQ(result.line("as-written").at("instead"), "restore these, too: optimizer");
}

/// Two updates are left of an epoch; the next one's order is drawn from the generator.
TEST_F(AuditEndToEnd, WhatOnlyALaterEpochNeedsIsNotCalledIdentical) {
  const Audited drawn =
      audited(write(recipe({{"sampler", {{"kind", "none"}}}})), {"--ranks", "1", "--steps", "6"}, "checkpoint");
  EXPECT_EQ(drawn.answer("without-rng"), "not seen") << drawn.line("without-rng");
  EXPECT_NE(drawn.json.at("answer").get<std::string>().find("beyond these updates, rng"), std::string::npos)
      << drawn.json.at("answer");
}

/// Three updates in an epoch. After four of them the next epoch is the wrong place to go on, after three the right one.
TEST_F(AuditEndToEnd, TheRecipesOwnWayToGoOnIsTriedAfterItsOwnUpdate) {
  for (const auto& [after, answer] : {std::pair(4, "broken"), std::pair(3, "identical")}) {
    Json whole = recipe({{"data", {{"size", 72}}}, {"batch", {{"global", 24}}}});
    whole["variants"] = {{"saved", {{"train", {{"checkpoint", {{"save_after", after}}}}}}},
                         {"recipe", {{"train", {{"checkpoint", {{"load", {{"from", "saved"}, {"epoch", "next"}}}}}}}}}};
    const Audited result = audited(write(whole), {"--ranks", "1", "--only", "as-written"}, "checkpoint");
    EXPECT_EQ(result.answer("as-written"), answer) << result.line("as-written");
  }
}

TEST_F(AuditEndToEnd, TheMatrixOfARecipeInSixteenBitsIsThatOfFloat32) {
  const Audited result = audited(recipe({{"autocast", "bf16"}}),
                                 {"--ranks", "1,4", "--only", "global-batch.", "--only", "per-rank-batch."});
  EXPECT_EQ(result.answer("global-batch.kept.sampler@4"), "rounding");
  EXPECT_EQ(result.answer("global-batch.linear.sampler@4"), "slip");
  EXPECT_EQ(result.answer("per-rank-batch.linear.sampler@4"), "empirical");
  EXPECT_EQ(result.answer("per-rank-batch.kept.no-sampler@4"), "slip");
}

TEST_F(AuditEndToEnd, ARateIsThatAfterAWarmUpThatIsLongerThanTheRuns) {
  const Audited result =
      audited(recipe({{"batch", {{"per_rank", 24}}},
                      {"learning_rate_rule", {{"kind", "linear"}, {"base_batch", 24}, {"warmup", 20}}}}),
              {"--ranks", "1,2,4", "--only", "rate"});
  EXPECT_EQ(result.answer("rate-per-sample"), "same") << result.line("rate-per-sample");
}

TEST_F(AuditEndToEnd, TheOrderOfARecipeThatHoldsIsNotBroken) {
  const auto order_of = [&](const Json& train) {
    return audited(recipe(train), {"--ranks", "1,2", "--only", "order"}).answer("order@2");
  };
  EXPECT_EQ(order_of({{"ddp", {{"compression", "fp16"}}}}), "holds");
  EXPECT_EQ(order_of({{"model", {{"kind", "branch"}}}, {"ddp", {{"find_unused_parameters", true}}}}), "no identity");
}

/// Lines of one length have equally many targets, so that a planted sum has no excuse.
TEST_F(AuditEndToEnd, EquallyManyTargetsExcuseNoFirstOrderError) {
  std::string equal, unequal;
  for (int i = 0; i < 96; ++i) {
    equal += std::to_string(100000000 + i * 7919 % 100000) + "\n";
    unequal += std::string(static_cast<std::size_t>(2 + i % 7), static_cast<char>('a' + i % 5)) + "\n";
  }
  replace_file(scratch_.path() / "equal.txt", equal);
  replace_file(scratch_.path() / "unequal.txt", unequal);
  const auto audited_lines = [&](const char* file, bool average) {
    Json whole = recipe({{"model", {{"kind", "transformer"}, {"width", 8}, {"heads", 2}, {"layers", 1}}},
                         {"batch", {{"global", 24}}},
                         {"ddp", {{"average", average}}}});
    whole["train"]["data"] = {{"kind", "text"}, {"path", file}, {"length", 8}, {"by", "line"}};
    return audited(whole, {"--ranks", "1,2", "--only", "order", "--only", "denominator"});
  };
  const Audited holds = audited_lines("equal.txt", true), summed = audited_lines("equal.txt", false),
                theory = audited_lines("unequal.txt", true);
  EXPECT_EQ(holds.answer("order@2"), "holds") << holds.line("order@2");
  EXPECT_EQ(holds.answer("denominator"), "same") << holds.line("denominator");
  EXPECT_EQ(summed.answer("order@2"), "broken") << summed.line("order@2");
  EXPECT_EQ(theory.answer("order@2"), "no identity") << theory.line("order@2");
  EXPECT_EQ(theory.answer("denominator"), "slip") << theory.line("denominator");
}

TEST_F(AuditEndToEnd, BlocksOfTheOrderAreAnotherComputation) {
  Json whole = recipe();
  whole["train"]["sampler"] = {{"kind", "contiguous"}};
  const Audited result = audited(whole, {"--ranks", "1,2"});
  EXPECT_EQ(result.answer("one-batch@2"), "no identity");
  EXPECT_NE(
      result.process.out.find("answer      another computation on another number of ranks: each rank takes a block"),
      std::string::npos)
      << result.process.out;
}

TEST_F(AuditEndToEnd, ASumNeedsNoSeedOfItsRecipe) {
  for (const char* policy : {"unseeded", "after_model"}) {
    const Audited result =
        audited(recipe({{"seed", {{"policy", policy}}}}), {"--ranks", "1,2", "--only", "sum", "--only", "one-batch"});
    EXPECT_EQ(result.process.exit_code, 0) << result.process.out;
    EXPECT_EQ(result.answer("sum@2"), "identical") << result.line("sum@2");
    EXPECT_EQ(result.answer("one-batch@2"), "no identity");
  }
}

TEST_F(AuditEndToEnd, DataThatAreSmallerThanABatchMakeItSmaller) {
  const auto audited_of = [&](std::int64_t samples) {
    return audited(recipe({{"data", {{"size", samples}}}}), {"--ranks", "1,2", "--only", "accumulation"});
  };
  const Audited small = audited_of(13), too_small = audited_of(3);
  EXPECT_EQ(small.process.exit_code, 0) << small.process.out;
  EXPECT_EQ(small.answer("accumulation@2"), "rounding") << small.line("accumulation@2");
  EXPECT_EQ(too_small.process.exit_code, 2);
  EXPECT_NE(too_small.process.err.find("at least 4 samples"), std::string::npos) << too_small.process.err;
}

TEST_F(AuditEndToEnd, AnEpochsEndIsThatOfItsSampler) {
  const auto end_of = [&](std::int64_t samples, const Json& sampler) {
    Json whole = recipe({{"sampler", sampler}});
    whole["train"]["data"]["size"] = samples;
    whole["train"]["sampler"] = sampler;
    return audited(whole, {"--ranks", "1,2,3", "--only", "epoch-end"});
  };
  const Audited elastic = end_of(79, {{"kind", "elastic"}, {"start", 7}}), stream = end_of(73, {{"kind", "stream"}});
  for (const Audited* one : {&elastic, &stream}) EXPECT_EQ(one->process.exit_code, 0) << one->process.out;
  for (const char* line : {"epoch-end@2", "epoch-end@3"}) EXPECT_EQ(elastic.answer(line), "rounding") << line;
  EXPECT_EQ(stream.answer("epoch-end@2"), "no identity");
  EXPECT_NE(stream.line("epoch-end@2").at("because").get<std::string>().find("leaves out 1"), std::string::npos);
}

TEST_F(AuditEndToEnd, AcceleratesOrderWithoutASeedIsAnObstacleWithARemedy) {
  Json whole = recipe();
  whole["train"]["sampler"] = {{"kind", "accelerate"}};
  const Audited result = audited(whole, {"--ranks", "1,2", "--only", "one-batch", "--only", "order"});
  EXPECT_EQ(result.process.exit_code, 0) << result.process.out;
  EXPECT_EQ(result.answer("one-batch@2"), "no identity");
  EXPECT_EQ(result.answer("one-batch-mended@2"), "rounding");
  EXPECT_EQ(result.answer("order@2"), "holds");
}

TEST_F(AuditEndToEnd, ACheckpointAuditRefusesProgramsOneUpdateAndFilesOfAnotherAudit) {
  const auto refused = [&](const std::vector<std::string>& arguments, const std::string& words) {
    const Outcome outcome = run_lockstep(arguments);
    EXPECT_EQ(outcome.exit_code, 2) << outcome.out;
    EXPECT_NE(outcome.err.find(words), std::string::npos) << outcome.err;
  };
  const std::filesystem::path scenarios = source_root() / "scenarios";
  refused({"audit", "checkpoint", scenarios / "gate/resume.jsonc", "--steps", "1"}, "no update between");
  refused({"audit", "checkpoint", scenarios / "audit/detr.jsonc"}, "the file is of another audit");
  const Json program = {{"name", "own"},
                        {"description", "A program."},
                        {"program", {{"command", {"true", "{world_size}"}}}},
                        {"checks", {check("reduction")}}};
  refused({"audit", "checkpoint", write(program)}, "a program's checkpoints cannot be audited");
  refused({"audit", "scaling", scenarios / "audit/checkpoint/detr.jsonc"}, "the file is of another audit");
}

}  // namespace
}  // namespace lockstep::test
