#include "harness/scenario/checks.h"

#include <gtest/gtest.h>

#include "harness/scenario/schema.h"
#include "harness/trace/channel.h"

#include "tests/scenario/loading.h"

namespace lockstep::scenario {
namespace {

using test::checked;
using test::load;
using test::minimal;
using test::problem_of;
using test::with;
using test::with_variants;
using Names = std::vector<std::string>;

/// Variants w1, w2 and w4 of so many ranks, and w4-again.
Json worlds() {
  return with_variants({{"w1", {{"world_size", 1}}},
                        {"w2", {{"world_size", 2}}},
                        {"w4", {{"world_size", 4}}},
                        {"w4-again", {{"world_size", 4}}}});
}

/// A training that saves after 4 updates, and one that goes on from there.
Json resuming() {
  return with_variants({{"straight", Json::object()},
                        {"saver", {{"train", {{"steps", 4}, {"checkpoint", {{"save_after", 4}}}}}}},
                        {"resumed", {{"train", {{"checkpoint", {{"load", {{"from", "saver"}}}}}}}}}});
}

Problem refused(const Json& document, const Json& check) { return problem_of(checked(document, Json::array({check}))); }

CheckSpec accepted(const Json& document, const Json& check) {
  return load(checked(document, Json::array({check}))).checks.at(0);
}

TEST(Checks, MissingVariantsAreAll) {
  EXPECT_EQ(accepted(worlds(), {{"that", "repeatable"}}).variants, (Names{"w1", "w2", "w4", "w4-again"}));
}

TEST(Checks, GlobsAreResolvedInTheirOrderWithoutRepetition) {
  const auto variants = [](const Json& patterns) {
    return accepted(worlds(), {{"that", "repeatable"}, {"variants", patterns}}).variants;
  };
  EXPECT_EQ(variants({"w4*"}), (Names{"w4", "w4-again"}));
  EXPECT_EQ(variants({"w2", "w*"}), (Names{"w2", "w1", "w4", "w4-again"}));
  EXPECT_EQ(variants({"*again", "w1"}), (Names{"w4-again", "w1"}));
  EXPECT_EQ(variants({"w4"}), (Names{"w4"}));
}

TEST(Checks, GlobsReachExpandedVariants) {
  Json document = worlds();
  document["matrix"] = {{"train.optimizer.lr", {0.1, 0.2}}};
  EXPECT_EQ(accepted(document, {{"that", "repeatable"}, {"variants", {"w*-lr=0.2"}}}).variants,
            (Names{"w1-lr=0.2", "w2-lr=0.2", "w4-lr=0.2", "w4-again-lr=0.2"}));
}

TEST(Checks, UnknownVariantNamesTheNearest) {
  const Problem problem = refused(worlds(), {{"that", "equal"}, {"variants", {"w1", "w4-agian"}}});
  EXPECT_PROBLEM(problem, "a variant that does not exist", ": checks.0 (equal).variants", "w1, w2, w4, w4-again",
                 "'w4-agian'");
  EXPECT_EQ(problem.next, "did you mean 'w4-again'?");
  EXPECT_PROBLEM(refused(worlds(), {{"that", "golden"}, {"variants", {"x*"}}}), "a variant that does not exist",
                 "checks.0 (golden)", "w1", "'x*'");
}

TEST(Checks, AGoldenThatIsBorrowedIsAcceptedElsewhereAndOfAsManyRanks) {
  const auto checks = [](const Json& borrowed) {
    return checked(worlds(), {{{"that", "golden"}, {"variants", {"w2", "w4"}}}, borrowed});
  };
  const auto borrowed = [](const char* by, const char* of) {
    return Json{{"that", "golden"}, {"variants", {by}}, {"of", of}};
  };
  EXPECT_EQ(load(checks(borrowed("w4-again", "w4"))).checks.at(1).of, "w4");
  EXPECT_PROBLEM(problem_of(checks(borrowed("w4-again", "w2"))), "none of another number of ranks",
                 ": checks.1 (golden).of", "a golden of 4 ranks", "'w2', with 2");
  EXPECT_PROBLEM(problem_of(checks(borrowed("w4-again", "w1"))), "no check accepts the golden",
                 ": checks.1 (golden).of", "a variant of another golden check", "'w1'");
  EXPECT_PROBLEM(problem_of(checks(borrowed("w4", "w4"))), "has a golden of its own", ": checks.1 (golden)",
                 "other variants", "w4");
  EXPECT_PROBLEM(problem_of(checks(borrowed("w4-again", "w5"))), "a variant that does not exist",
                 ": checks.1 (golden).of", "w4-again", "'w5'");
}

TEST(Checks, UnknownChannelNamesTheNearest) {
  const Problem problem = refused(worlds(), {{"that", "golden"}, {"on", {"loss", "weights"}}});
  EXPECT_PROBLEM(problem, "an unknown channel", ": checks.0 (golden).on", "gradient.local, gradient", "'weights'");
  EXPECT_EQ(problem.next, "did you mean 'weight'?");
}

TEST(Checks, ChannelsOfTheSchemaAreThoseOfTheTrace) {
  const Json& names = schema()["definitions"]["recorded_channels"]["default"];
  EXPECT_EQ(names, Json(trace::channel_names()));
}

TEST(Checks, ComparisonNeedsTwoVariants) {
  for (const char* that : {"equal", "rounding", "differs"}) {
    for (const Json& variants : {Json({"w1"}), Json({"w1", "w1*"})}) {
      EXPECT_PROBLEM(refused(worlds(), {{"that", that}, {"variants", variants}}), "would compare a variant with itself",
                     std::string("checks.0 (") + that + ")", "two variants", "w1");
    }
    EXPECT_PROBLEM(refused(worlds(), {{"that", that}}), "", ": checks.0", "variants", that);
  }
}

TEST(Checks, RepeatableNeedsRepeats) {
  EXPECT_PROBLEM(problem_of(with("repeats", 1)), "would compare a run with itself", "checks.0 (repeatable)",
                 "2 or more", "1");
}

TEST(Checks, RanksNeedSeveral) {
  for (const char* that : {"ranks_agree", "ranks_differ"}) {
    const Json check = {{"that", that}, {"on", {"weight"}}, {"variants", {"w1"}}};
    EXPECT_PROBLEM(refused(worlds(), check), "would compare a rank with itself", std::string("checks.0 (") + that + ")",
                   "world_size of 2", "w1");
    EXPECT_NO_THROW(accepted(worlds(), {{"that", that}, {"on", {"weight"}}, {"variants", {"w1", "w2"}}}));
  }
  EXPECT_PROBLEM(refused(minimal(), {{"that", "ranks_agree"}}), "would compare a rank with itself", "checks.0", "",
                 "main");
}

TEST(Checks, ChannelMustBeRecorded) {
  Json document = worlds();
  document["variants"]["w2"]["train"]["record"]["channels"] = {"loss", "weight"};
  EXPECT_PROBLEM(refused(document, {{"that", "repeatable"}, {"on", {"samples"}}}), "does not record",
                 "checks.0 (repeatable)", "loss, weight (train.record.channels of 'w2')", "'samples'");
  EXPECT_NO_THROW(accepted(document, {{"that", "repeatable"}, {"on", {"weight"}}}));
  EXPECT_NO_THROW(accepted(document, {{"that", "repeatable"}, {"on", {"samples"}}, {"variants", {"w1", "w4"}}}));
}

TEST(Checks, ChannelsOfOneRankAreNotComparedBetweenWorldSizes) {
  for (const trace::ChannelInfo& row : trace::kChannels) {
    const bool of_one_rank = row.sharing == trace::Sharing::kPerRank && row.name != "samples" && row.name != "loss";
    const bool comparable = !of_one_rank && row.name != "collective";
    for (const char* that : {"equal", "rounding", "differs"}) {
      const Json check = {{"that", that}, {"variants", {"w4", "w4-again", "w2"}}, {"on", {"weight", row.name}}};
      Json once = check;
      if (row.name == "weight") once["on"] = {"weight"};
      if (comparable) {
        EXPECT_NO_THROW(accepted(worlds(), once)) << row.name;
      } else {
        const Problem problem = refused(worlds(), once);
        EXPECT_PROBLEM(problem, "different world sizes do not share", std::string(": checks.0 (") + that + ").on",
                       "samples, loss, gradient, optimizer, weight, buffer, ema, metric, ledger",
                       std::string("'") + std::string(row.name) + "' of 'w4' (world_size 4) and 'w2' (world_size 2)");
        EXPECT_NE(problem.next.find("leave '" + std::string(row.name) + "' out"), std::string::npos);
      }
    }
  }
}

TEST(Checks, EveryChannelIsComparedWithinOneWorldSize) {
  const Json check = {{"that", "equal"}, {"variants", {"w4", "w4-again"}}, {"on", trace::channel_names()}};
  EXPECT_EQ(accepted(worlds(), check).channels, trace::all_channels());
}

TEST(Checks, ResumesNamesTwoVariants) {
  const CheckSpec check = accepted(resuming(), {{"that", "resumes"}, {"straight", "str*"}, {"interrupted", "resumed"}});
  EXPECT_EQ(check.straight, "straight");
  EXPECT_EQ(check.interrupted, "resumed");
  EXPECT_EQ(check.variants, (Names{"straight", "resumed"}));
}

TEST(Checks, ResumesRefusesWhatProvesNothing) {
  const auto resumes = [](const char* straight, const char* interrupted) {
    return refused(resuming(), {{"that", "resumes"}, {"straight", straight}, {"interrupted", interrupted}});
  };
  EXPECT_PROBLEM(resumes("straight", "saver"), "resumes nothing", "checks.0 (resumes)", "train.checkpoint.load",
                 "'saver'");
  EXPECT_PROBLEM(resumes("resumed", "resumed"), "would compare a variant with itself", "checks.0 (resumes)",
                 "two variants", "'resumed'");
  EXPECT_PROBLEM(resumes("s*", "resumed"), "names several", "checks.0 (resumes).straight", "saver, straight", "'s*'");
  EXPECT_PROBLEM(resumes("straight", "resume"), "does not exist", "checks.0 (resumes).interrupted", "resumed",
                 "'resume'");
  EXPECT_EQ(resumes("straight", "resume").next, "did you mean 'resumed'?");
  Json other = resuming();
  other["variants"]["resumed"]["world_size"] = 2;
  const Json check = {{"that", "resumes"}, {"straight", "straight"}, {"interrupted", "resumed"}, {"on", {"rng"}}};
  EXPECT_PROBLEM(refused(other, check), "different world sizes do not share", "checks.0 (resumes).on", "weight",
                 "'rng'");
}

TEST(Checks, ExpectationIsRead) {
  const Json at = {{"step", 3}, {"channel", "weight"}, {"tensor", "fc.weight"}, {"rank", 1}};
  const CheckSpec check = accepted(
      worlds(), {{"that", "golden"},
                 {"expect", {{"status", "divergence"}, {"reason", "known"}, {"until", "2027-01-31"}, {"at", at}}}});
  ASSERT_TRUE(check.expect.has_value());
  EXPECT_EQ(check.expect->reason, "known");
  EXPECT_EQ(check.expect->until, "2027-01-31");
  EXPECT_EQ(check.expect->step, 3);
  EXPECT_EQ(check.expect->channel, trace::Channel::kWeight);
  EXPECT_EQ(check.expect->tensor, "fc.weight");
  EXPECT_EQ(check.expect->rank, 1);
  EXPECT_FALSE(accepted(worlds(), {{"that", "golden"}}).expect.has_value());
}

TEST(Checks, ExpectationMustBeMeetable) {
  const auto expecting = [](const Json& expect) { return refused(worlds(), {{"that", "golden"}, {"expect", expect}}); };
  EXPECT_PROBLEM(expecting({{"status", "divergence"}}), "", ": checks.0.expect", "reason", "divergence");
  EXPECT_PROBLEM(expecting({{"status", "agree"}, {"reason", "r"}}), "", ": checks.0.expect.status", "divergence",
                 "agree");
  EXPECT_PROBLEM(expecting({{"status", "divergence"}, {"reason", "r"}, {"until", "tomorrow"}}), "", ".expect.until",
                 "matching", "tomorrow");
  EXPECT_PROBLEM(expecting({{"status", "divergence"}, {"reason", "r"}, {"at", Json::object()}}), "", ".expect.at",
                 "at least 1", "{}");
  const Problem problem = expecting({{"status", "divergence"}, {"reason", "r"}, {"at", {{"channel", "weights"}}}});
  EXPECT_PROBLEM(problem, "unknown channel", "checks.0 (golden).expect.at.channel", "weight", "'weights'");
  EXPECT_EQ(problem.next, "did you mean 'weight'?");
}

TEST(Checks, FactorIsRead) {
  EXPECT_EQ(accepted(worlds(), {{"that", "differs"}, {"variants", {"w1", "w2"}}, {"factor", 0.5}}).factor, 0.5);
}

}  // namespace
}  // namespace lockstep::scenario
