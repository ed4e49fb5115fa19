// `lockstep audit layout`: which layouts compute the same. Trainings in memory stand for a program's.
#include "harness/audit/layout_audit.h"

#include "tests/audit/audited.h"

namespace lockstep::test {
namespace {

using enum audit::Answer;

/// What a layout of the program computes.
struct Training {
  std::string layout;
  int ranks = 2;
  Json train = Json::object();
  bool ends_well = true;
  bool is_sharded = false;  ///< so that no rank has gradients of its own
};

/// Runs of a program of which each layout is another training of the worker.
struct OfLayouts : Audited {
  explicit OfLayouts(const std::vector<Training>& trainings, std::vector<std::string> only = {}) {
    audit::Request request{.kind = audit::Kind::kLayout, .variant = {}, .steps = 4, .only = std::move(only)};
    Json variants = Json::object();
    for (const Training& one : trainings) {
      request.layouts.push_back(
          {.name = one.layout, .ranks = one.ranks, .arguments = {{"--layout", one.layout}}, .promises = kNone});
      variants[one.layout] = {{"world_size", one.ranks}, {"train", one.train}};
    }
    Json trained = recipe();
    trained["variants"] = variants;
    judge(tiny_scenario(trained, scratch));
    const std::vector<judge::Evidence> runs = evidence;
    const plan::Plan made = plan;

    scenario = program();
    examination = audit::examination(scenario, request);
    plan = plan::make_plan({examination->scenario()});
    evidence.assign(plan.runs.size(), {});
    for (std::size_t i = 0; i < plan.runs.size(); ++i) {
      const std::string layout =
          variant_of(plan.runs[i]).program_json.at("arguments").at("--layout").get<std::string>();
      for (std::size_t j = 0; j < runs.size(); ++j) {
        if (made.runs[j].variant == layout) evidence[i] = runs[j];
      }
      for (const Training& one : trainings) {
        if (one.layout == layout) seen(evidence[i], plan.runs[i], one);
      }
    }
    verdict = judge::judge(plan, evidence, "", kToday);
    result = examination->answer(plan, verdict, evidence, "lockstep audit layout x");
  }

 private:
  scenario::Scenario program() const {
    const Json document = {{"name", "tiny"},
                           {"description", "A program."},
                           {"program", {{"command", {"train"}}, {"arguments", {{"--layout", "one"}}}}},
                           {"checks", {check_of("laws")}}};
    return scenario::load_scenario(scratch.write("program.json", document.dump()));
  }

  /// What the recorder of a program would have seen, and how its launcher ended.
  static void seen(judge::Evidence& one, const plan::Run& run, const Training& training) {
    if (!training.ends_well) {
      one = {};
      one.outcome.status = launch::RunOutcome::Status::kFailed;
      one.problem = "it died";
      return;
    }
    one.trace->run = run.name;
    const bool drops = training.train.value(Json::json_pointer("/model/dropout"), 0.0) > 0;
    for (trace::Trace& rank : one.trace->ranks) {
      rank.header["seen"] = {{"model", {{"dropout", drops}}},
                             {"ddp", {{"wrap", true}, {"sharded", training.is_sharded}}}};
      if (training.is_sharded) leave_out_own_gradients(rank);
    }
  }

  static void leave_out_own_gradients(trace::Trace& rank) {
    for (trace::Step& step : rank.steps)
      std::erase_if(step.records, [](const trace::Record& one) { return one.channel == Channel::kGradientLocal; });
  }
};

const Json kDrops = {{"model", {{"dropout", 0.5}}}};

TEST(Layouts, AreEqualInBitsOrUpToRounding) {
  const OfLayouts all({{"ddp"}, {"fsdp"}, {"hsdp", 3}, {"tp", 3}});
  EXPECT_TRUE(answers(all, "same@fsdp", kIdentical));
  for (const char* id : {"same@hsdp", "same@tp"}) EXPECT_TRUE(answers(all, id, kRounding));
  EXPECT_TRUE(answers(all, "laws@ddp", kHolds));
  EXPECT_EQ(all.result.status(), judge::Status::kAgree) << all.result.headline;
  EXPECT_EQ(all.result.headline,
            "4 layouts, against ddp: fsdp is equal in every bit; hsdp, tp are equal up to rounding");
  EXPECT_EQ(all.line("same@tp").reproduce, "lockstep audit layout x --only same@tp");
}

TEST(Layouts, ThatShardHaveNoGradientsOfOneRank) {
  const OfLayouts all({{"ddp"}, {"fsdp", 2, kNone, true, true}});
  EXPECT_TRUE(answers(all, "same@fsdp", kIdentical));
}

TEST(Layouts, NameAMistakeAndItsPlace) {
  const Json sums = {{"faults", {mistake("ddp_wrong", 0, {{"average", false}})}}};
  const OfLayouts wrong({{"ddp"}, {"fsdp", 2, sums}, {"tp", 3}});
  EXPECT_TRUE(answers(wrong, "same@fsdp", kBroken));
  EXPECT_TRUE(answers(wrong, "same@tp", kRounding));
  EXPECT_EQ(wrong.result.status(), judge::Status::kDivergence);
  EXPECT_TRUE(holds(wrong.result.headline, "fsdp is another training: grad.")) << wrong.result.headline;
  EXPECT_TRUE(holds(wrong.result.headline, "(step 0, gradient")) << wrong.result.headline;
}

TEST(Layouts, SayThatAnotherBatchIsAnotherTraining) {
  const OfLayouts other({{"ddp"}, {"fsdp", 3, {{"batch", {{"global", 24}}}}}});
  EXPECT_TRUE(answers(other, "same@fsdp", kChanges));
  EXPECT_EQ(other.result.status(), judge::Status::kDivergence);
  EXPECT_EQ(other.result.headline,
            "2 layouts, against ddp: fsdp is another training: an update takes 24 samples, not 12");
}

/// Masks are an excuse where ranks draw others. As many ranks, with a share each, draw alike from equal generators.
TEST(Layouts, NeedNotBeEqualWhereOtherRanksDraw) {
  const Json decays = {{"faults", {mistake("weights_decayed", 1, {{"factor", 0.9}, {"parameter", "fc1.bias"}})}}};
  const Json other = merged({kDrops, decays});
  const OfLayouts drop({{"ddp", 2, kDrops}, {"same", 2, kDrops}, {"wrong", 2, other}, {"more", 3, other}});
  EXPECT_TRUE(answers(drop, "same@same", kIdentical));
  EXPECT_TRUE(answers(drop, "same@wrong", kBroken));
  EXPECT_TRUE(answers(drop, "same@more", kNoIdentity));
  EXPECT_TRUE(holds(drop.line("same@more").because, "dropout draws"));
  EXPECT_TRUE(holds(drop.result.headline, "more is another training: dropout draws")) << drop.result.headline;
  EXPECT_TRUE(answers(OfLayouts({{"ddp"}, {"more", 3, decays}}), "same@more", kBroken));
}

TEST(Layouts, AreUndecidedWhereARunFails) {
  const OfLayouts fails({{"ddp"}, {"fsdp", 2, kNone, false}, {"tp", 3}});
  for (const char* id : {"laws@fsdp", "same@fsdp"}) EXPECT_TRUE(answers(fails, id, kCannotTell));
  EXPECT_TRUE(answers(fails, "same@tp", kRounding));
  EXPECT_EQ(fails.result.status(), judge::Status::kInconclusive);
  EXPECT_TRUE(holds(fails.result.headline, "fsdp is undecided: ")) << fails.result.headline;
  const OfLayouts reference({{"ddp", 2, kNone, false}, {"fsdp"}, {"tp", 3}});
  EXPECT_EQ(reference.result.status(), judge::Status::kInconclusive);
  EXPECT_TRUE(holds(reference.result.headline, "against ddp: fsdp, tp are undecided: "));
}

TEST(Layouts, AnswerWhatIsAskedAlone) {
  const OfLayouts one({{"ddp"}, {"fsdp"}, {"tp", 3}}, {"same@tp"});
  EXPECT_EQ(one.result.lines.size(), 1U);
  EXPECT_EQ(one.evidence.size(), 2U);
  EXPECT_EQ(one.result.headline, "these lines alone: agree");
}

void expect_refused(const std::vector<Training>& trainings, const std::string& words) {
  try {
    const OfLayouts refused(trainings);
    ADD_FAILURE() << words;
  } catch (const InputError& error) {
    EXPECT_TRUE(holds(error.what(), words)) << error.what();
  }
}

TEST(Layouts, RefuseWhatCannotBeCompared) {
  expect_refused({{"ddp"}}, "there are no layouts to compare");
  expect_refused({{"ddp"}, {"ddp"}}, "two layouts have one name");
  const scenario::Scenario ours = [] {
    const Scratch scratch;
    return tiny_scenario(recipe(), scratch);
  }();
  audit::Request request{.kind = audit::Kind::kLayout, .layouts = {{.name = "a"}, {.name = "b", .ranks = 2}}};
  EXPECT_THROW(audit::examination(ours, request), InputError);
}

}  // namespace
}  // namespace lockstep::test
