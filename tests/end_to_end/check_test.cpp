// Laws find a mistake that all variants and ranks share, in one run alone.
#include <filesystem>
#include <string>

#include "harness/laws/law.h"
#include "harness/trace/reader.h"

#include "tests/end_to_end/fixture.h"

namespace lockstep::test {
namespace {

namespace fs = std::filesystem;

class CheckEndToEnd : public EndToEnd {
 protected:
  /// Trains a scenario of these variants, all of which agree with themselves.
  void record(const Json& variants, bool with_momentum = true) {
    Json of = scenario({{"variants", variants}});
    if (!with_momentum) of["train"]["optimizer"].erase("momentum");
    const Result result = run(of);
    ASSERT_FALSE(result.json.is_null()) << result.said();
    folder_ = result.out / of.at("name").get<std::string>();
  }

  fs::path of(const std::string& variant) const { return folder_ / variant / "0"; }

  /// `lockstep check` of one variant.
  Json checked(const std::string& variant, int exit_code) const {
    const Outcome outcome = run_lockstep({"check", of(variant), "--json", "-"});
    EXPECT_EQ(outcome.exit_code, exit_code) << variant << outcome.out << outcome.err;
    return Json::parse(outcome.out, nullptr, false);
  }

  static Json law(const Json& result, const std::string& name) {
    for (const Json& one : result["runs"][0]["laws"]) {
      if (one["law"] == name) return one;
    }
    return {};
  }

  void expect_holds(const std::string& variant, const std::vector<std::string>& laws) const {
    const Json result = checked(variant, 0);
    for (const std::string& name : laws) EXPECT_EQ(law(result, name)["outcome"], "holds") << variant << result.dump(1);
  }

  void expect_broken(const std::string& variant, const std::string& name, const Place& place,
                     const std::string& cause) const {
    const Json result = checked(variant, 1), one = law(result, name);
    ASSERT_EQ(one["outcome"], "broken") << variant << result.dump(1);
    const Json& at = one["broken_at"];
    EXPECT_EQ(at["step"], place.step) << variant;
    EXPECT_EQ(at["channel"], place.channel) << variant;
    EXPECT_EQ(at["tensor"], place.tensor) << variant;
    EXPECT_EQ(one["cause"], cause) << variant;
  }

  fs::path folder_;
};

Json trained(const Json& train) { return {{"train", train}}; }

Json optimizer(const Json& options) { return trained({{"optimizer", options}}); }

/// Faults on every rank.
Json planted(Json train, const std::string& kind, std::int64_t step = 0, const Json& more = Json::object()) {
  train["faults"] = {fault(kind, step, -1, more)};
  return trained(train);
}

TEST_F(CheckEndToEnd, HoldsOfCleanTrainings) {
  record({{"nesterov", optimizer({{"momentum", 0.9}, {"nesterov", true}, {"weight_decay", 0.01}})},
          {"dampened", optimizer({{"momentum", 0.9}, {"dampening", 0.3}, {"weight_decay", 0.01}})},
          {"plain", optimizer({{"weight_decay", 0.01}})},
          {"adam", optimizer({{"kind", "adam"}, {"lr", 0.01}, {"weight_decay", 0.1}})},
          {"lamb", optimizer({{"kind", "lamb"}, {"lr", 0.01}, {"weight_decay", 0.1}})},
          {"adamw", optimizer({{"kind", "adamw"}, {"lr", 0.01}, {"amsgrad", true}, {"fused", true}})},
          {"adamax", optimizer({{"kind", "adamax"}, {"lr", 0.01}})},
          {"rmsprop", optimizer({{"kind", "rmsprop"}, {"lr", 0.01}, {"centered", true}, {"momentum", 0.9}})},
          {"scaled", trained({{"optimizer", {{"momentum", 0.9}}},
                              {"gradient", {{"clip_norm", 0.1}, {"loss_scale", 1024}}},
                              {"ema", {{"decay", 0.9}}}})},
          {"alone", at("train.ddp.wrap", false)}},
         /*with_momentum=*/false);
  for (const char* variant : {"nesterov", "dampened", "plain"})
    expect_holds(variant, {"reduction", "update", "finite"});
  for (const char* variant : {"nesterov", "dampened", "adam", "lamb", "adamw", "adamax", "rmsprop"})
    expect_holds(variant, {"state", "update"});
  expect_holds("scaled", {"reduction", "unscaling", "clipping", "state", "update", "average", "finite"});
  const Json alone = checked("alone", 0);
  for (const char* name : {"reduction", "unscaling", "clipping", "average"})
    EXPECT_EQ(law(alone, name)["outcome"], "does not apply") << name;
  EXPECT_EQ(law(checked("plain", 0), "state")["outcome"], "does not apply");
}

/// Slopes of the loss tell it, and recording them changes no bit. Dropout draws the same masks again.
TEST_F(CheckEndToEnd, FindsGradientsThatAreNoDerivative) {
  const auto with = [](const Json& changes = Json::object(), std::int64_t step = 2) {
    const Json capture = {{"step", step}, {"channel", "gradient.local"}};
    Json train;
    train["record"]["capture"] = Json::array({capture});
    train.merge_patch(changes);
    return train;
  };
  const Json drops = {{"model", {{"dropout", 0.2}}}};
  const Json telling = {{"record", {{"slopes", true}}}};  // as a check of laws switches it on
  const Json coarse = {{"autocast", "fp16"}, {"gradient", {{"loss_scale", 1024}}}};
  record({{"slopes", trained(with(drops))},
          {"none", trained(drops)},
          {"split", trained(with({{"batch", {{"accumulation", 2}}}}))},
          {"coarse", trained(with(coarse))},
          {"late", trained(with(Json::object(), 3))},
          {"scaled", planted(with(), "gradient_factor", 1, {{"factor", 1.1}, {"place", "backward"}})},
          {"slightly", planted(with(), "gradient_factor", 1, {{"factor", 1.00001}, {"place", "backward"}})},
          {"kept", planted(with(), "gradient_kept", 2)},
          {"telling", trained(telling)},
          {"at-the-end", planted(telling, "gradient_factor", 3, {{"factor", 1.1}, {"place", "backward"}})}});
  for (const char* variant : {"slopes", "split", "coarse", "late", "telling"}) expect_holds(variant, {"backward"});
  EXPECT_EQ(law(checked("none", 0), "backward")["outcome"], "cannot tell");
  EXPECT_EQ(run_lockstep({"diff", of("slopes"), of("none")}).exit_code, 0);
  for (const char* variant : {"scaled", "slightly", "kept"}) {
    const Json one = law(checked(variant, 1), "backward");
    ASSERT_EQ(one["outcome"], "broken") << variant << one.dump(1);
    EXPECT_EQ(one["broken_at"]["step"], 2) << variant;
    EXPECT_EQ(one["broken_at"]["channel"], "gradient.local") << variant;
  }
  EXPECT_EQ(law(checked("at-the-end", 1), "backward")["broken_at"]["step"], 3);
  const Json scaled = law(checked("scaled", 1), "backward")["broken_at"];
  EXPECT_NE(scaled.dump().find("1.1 times the derivative"), std::string::npos) << scaled.dump(1);
}

/// A run held to the recipe of another one, or with one record changed.
TEST_F(CheckEndToEnd, FindsWhatARecipeSaysAndTheWorkerLeftOut) {
  const Json telling = {{"record", {{"slopes", true}}}};
  const auto with = [&](Json train) {
    train.merge_patch(telling);
    return trained(train);
  };
  const Json variants = {{"plain", with({{"model", {{"kind", "lenet"}}}})},
                         {"other-seed", with({{"model", {{"kind", "lenet"}}}, {"seed", {{"base", 4}}}})},
                         {"clipped", with({{"gradient", {{"clip_value", 0.01}}}})},
                         {"less-clipped", with({{"gradient", {{"clip_value", 0.02}}}})},
                         {"cast", with({{"autocast", "bf16"}})},
                         {"averaged", with({{"ema", {{"decay", 0.9}}}})}};
  record(variants);
  expect_holds("plain", {"generators"});
  expect_holds("clipped", {"clipping"});
  expect_holds("cast", {"loss"});
  expect_holds("averaged", {"average"});

  const scenario::Scenario all = scenario::load_scenario(write(scenario({{"variants", variants}})));
  const auto broken = [&](const trace::RunTrace& run, const std::string& law, const std::string& recipe) {
    const laws::Outcome outcome = laws::law_named(law).judge(run, all.variant(recipe));
    EXPECT_TRUE(outcome.broken) << law << " of " << recipe;
    return outcome.broken.value_or(laws::Breach{});
  };
  const auto read = [&](const std::string& variant) { return trace::read_run(of(variant), variant); };
  const laws::Breach drawn = broken(read("plain"), "generators", "other-seed");
  EXPECT_EQ(drawn.at.channel, trace::Channel::kWeight);
  EXPECT_EQ(drawn.relation, "they are what the seed 3 draws");
  trace::RunTrace halved = read("plain");
  for (trace::Trace& rank : halved.ranks) {
    for (trace::Record& weight : rank.steps.front().records) {
      if (weight.channel != trace::Channel::kWeight) continue;
      for (double& element : weight.elements) element /= 2;
    }
  }
  EXPECT_EQ(broken(halved, "generators", "plain").relation, "they are 0.5 times what it draws");
  EXPECT_EQ(broken(read("clipped"), "clipping", "less-clipped").at.step, 0);

  trace::RunTrace uncast = read("cast");
  for (trace::Trace& rank : uncast.ranks) {
    for (trace::Step& step : rank.steps) {
      const trace::Record* const exact = step.find(trace::Channel::kLedger, "seen.loss");
      for (trace::Record& loss : step.records) {
        if (exact != nullptr && loss.channel == trace::Channel::kLoss && loss.name == "local")
          loss.number = exact->number;
      }
    }
  }
  EXPECT_EQ(broken(uncast, "loss", "cast").cause, "fp.precision_mode");

  trace::RunTrace zeroed = read("averaged");
  for (trace::Trace& rank : zeroed.ranks) {
    for (trace::Record& average : rank.steps.at(1).records) {
      if (average.channel == trace::Channel::kEma) average.digest = {};
    }
  }
  EXPECT_EQ(broken(zeroed, "average", "averaged").at.step, 0);
}

TEST_F(CheckEndToEnd, FindsWhatEveryRankDoes) {
  const Json clips = {{"gradient", {{"clip_norm", 0.1}}}};
  const Json scales = {{"gradient", {{"clip_norm", 0.1}, {"loss_scale", 1024}}}};
  record({{"summed", planted({}, "gradient_factor", 2, {{"factor", 2}})},
          {"decayed", planted({}, "weights_decayed", 1, {{"factor", 0.999}})},
          {"skipped", planted({}, "update_skipped", 2)},
          {"unclipped", planted(clips, "clip_skipped", 1)},
          {"scaled", planted(scales, "clip_before_unscale", 1)},
          {"stands", planted({{"ema", {{"decay", 0.9}}}}, "average_skipped", 2)},
          {"diverges", optimizer({{"lr", 1e30}})}});
  expect_broken("summed", "reduction", {.step = 2, .channel = "gradient", .tensor = "fc1.weight"}, "grad.reduce_sum");
  expect_broken("decayed", "update", {.step = 1, .channel = "weight", .tensor = "fc1.bias"}, "opt.decay_scale");
  expect_broken("skipped", "update", {.step = 2, .channel = "weight", .tensor = "fc1.bias"}, "opt.no_effect");
  expect_broken("skipped", "state", {.step = 2, .channel = "optimizer", .tensor = "fc1.bias.momentum_buffer"},
                "opt.no_effect");
  expect_broken("unclipped", "clipping", {.step = 1, .channel = "gradient", .tensor = "clipped fc1.bias"},
                "clip.no_effect");
  expect_broken("scaled", "unscaling", {.step = 1, .channel = "gradient", .tensor = "unscaled fc1.weight"},
                "clip.before_unscale");
  expect_broken("stands", "average", {.step = 2, .channel = "ema", .tensor = "fc1.weight"}, "ema.not_synced");
  expect_broken("diverges", "finite", {.step = 1, .channel = "loss", .tensor = "local"}, "unknown");
}

/// Formulas that are not linear, of sampled elements.
TEST_F(CheckEndToEnd, FindsWhatEveryRankDoesWithOtherOptimizers) {
  const auto with = [](const char* kind, const Json& faults) {
    return trained({{"optimizer", {{"kind", kind}, {"lr", 0.01}}}, {"faults", {faults}}});
  };
  const Json decays = fault("weights_decayed", 1, -1, {{"factor", 0.999}}), skips = fault("update_skipped", 2, -1);
  Json variants;
  for (const char* kind : {"adam", "adamw", "adamax", "rmsprop"}) {
    variants[std::string(kind) + "-decays"] = with(kind, decays);
    variants[std::string(kind) + "-skips"] = with(kind, skips);
  }
  variants["lamb-decays"] = with("lamb", decays);
  record(variants, /*with_momentum=*/false);
  for (const char* kind : {"adam", "adamw", "adamax", "rmsprop"}) {
    expect_broken(std::string(kind) + "-decays", "update", {.step = 1, .channel = "weight", .tensor = "fc1.bias"},
                  "opt.decay_scale");
    expect_broken(std::string(kind) + "-skips", "update", {.step = 2, .channel = "weight", .tensor = "fc1.bias"},
                  "opt.no_effect");
  }
  expect_broken("lamb-decays", "update", {.step = 1, .channel = "weight", .tensor = "fc1.bias"}, "unknown");
}

/// Both variants have the mistake, so that no comparison of them sees it.
TEST_F(CheckEndToEnd, AScenarioAsksForThem) {
  const Json skips = {{"faults", {fault("update_skipped", 2, -1)}}};
  const Result both = run(scenario({{"variants", {{"a", trained(skips)}, {"b", trained(skips)}}},
                                    {"checks", {check("equal", {{"variants", {"a", "b"}}}), check("laws")}}}));
  EXPECT_EQ(both.exit_code(), 1) << both.said();
  EXPECT_EQ(both.check("equal")["status"], "agree");
  expect_divergence(both.check("laws"), {.step = 2, .channel = "optimizer", .tensor = "fc1.bias.momentum_buffer"});
  expect_green(run(scenario({{"checks", {check("laws"), check("laws", {{"laws", {"update"}}})}}})));
}

TEST_F(CheckEndToEnd, NothingJudgedIsNeverAgreement) {
  record({{"input", trained({{"record", {{"channels", {"input"}}}}})}, {"whole", Json::object()}});
  const Json nothing = checked("input", 4);
  EXPECT_EQ(nothing["status"], "inconclusive");
  EXPECT_EQ(run_lockstep({"check", of("whole"), of("input")}).exit_code, 4);
  EXPECT_EQ(run_lockstep({"check", folder_}).exit_code, 2);
  std::vector<std::string> lines = lines_of(of("whole") / "rank1.jsonl");
  lines.pop_back();
  write_lines(of("whole") / "rank1.jsonl", lines);
  for (const std::size_t left : {lines.size(), lines.size() / 2, std::size_t{2}}) {
    lines.resize(left);
    write_lines(of("whole") / "rank1.jsonl", lines);
    const Outcome torn = run_lockstep({"check", of("whole")});
    EXPECT_EQ(torn.exit_code, 4) << left << torn.out;
    expect_says(torn.out, {"torn"});
  }
}

TEST(Laws, EachHasASectionInTheDocumentation) {
  const std::string page = read_text(source_root() / "docs/laws.md");
  for (const laws::Law& law : laws::all_laws())
    EXPECT_NE(page.find("\n## " + std::string(law.name) + "\n"), std::string::npos) << law.name;
}

}  // namespace
}  // namespace lockstep::test
