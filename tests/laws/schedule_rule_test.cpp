#include "harness/recipe/schedule_rule.h"

#include <cmath>

#include <gtest/gtest.h>

// The learning rates that schedules promise, worked out by hand for a base of 0.8.

namespace lockstep::laws {
namespace {

void expect_rates(const std::string& kind, const Json& options, const std::vector<double>& rates,
                  const std::vector<double>& losses = {}) {
  SCOPED_TRACE(kind);
  const recipe::ScheduleChoice schedule{.kind = recipe::named<recipe::ScheduleKind>(kind), .options = options};
  recipe::ScheduleForm form(schedule, 0.8);
  for (std::size_t steps = 0; steps < rates.size(); ++steps) {
    const auto found = form.after(static_cast<std::int64_t>(steps), losses);
    ASSERT_TRUE(found) << steps;
    EXPECT_NEAR(found->rate, rates[steps], 1e-15) << "after " << steps;
    EXPECT_LT(found->rounding, 1e-13) << "room for rounding only";
  }
}

TEST(ScheduleForm, GivesTheClosedFormOfEveryKind) {
  expect_rates("constant", Json::object(), {0.8, 0.8, 0.8});
  expect_rates("step", {{"every", 2}, {"gamma", 0.5}}, {0.8, 0.8, 0.4, 0.4, 0.2});
  expect_rates("multistep", {{"milestones", {3, 1, 3}}, {"gamma", 0.5}}, {0.8, 0.4, 0.4, 0.1, 0.1});
  expect_rates("warmup_multistep", {{"milestones", {1, 3}}, {"gamma", 0.5}, {"warmup", 2}, {"factor", 0.5}},
               {0.4, 0.3, 0.4, 0.2});
  expect_rates("linear_warmup", {{"warmup", 4}, {"factor", 0.5}}, {0.4, 0.5, 0.6, 0.7, 0.8, 0.8});
  expect_rates("inverse_sqrt", {{"warmup", 2}}, {0, 0.4, 0.8, 0.8 * std::sqrt(2.0 / 3), 0.8 * std::sqrt(0.5)});
  expect_rates("warmup_cosine", {{"period", 4}, {"warmup", 2}, {"factor", 0.5}},
               {0.4, 0.6, 0.4, 0.4 - 0.4 * std::sqrt(0.5), 0});
  expect_rates("cosine", {{"period", 2}, {"least", 0.2}}, {0.8, 0.5, 0.2, 0.5, 0.8});
}

Json phase(double steps, double to, const char* curve = "linear", double power = 1) {
  return {{"steps", steps}, {"to", to}, {"curve", curve}, {"power", power}};
}

TEST(ScheduleForm, PhasesAreSharesOfTheRate) {
  Json warmup = phase(2, 1);
  warmup["from"] = 0;
  expect_rates("phases", {{"phases", {warmup, phase(2, 0.5, "cosine")}}}, {0, 0.4, 0.8, 0.6, 0.4, 0.4});
  expect_rates("phases", {{"phases", {phase(4, 0)}}}, {0.8, 0.6, 0.4, 0.2, 0, 0});
  expect_rates("phases", {{"phases", {phase(2, 0, "polynomial", 2)}}}, {0.8, 0.2, 0});
  expect_rates("phases", {{"phases", {phase(1, 1), phase(4, 0, "sqrt")}}},
               {0.8, 0.8, 0.4, 0.8 - 0.8 * std::sqrt(0.5), 0.8 - 0.8 * std::sqrt(0.75), 0});
  expect_rates("phases", {{"phases", {phase(2, 0.25, "exponential")}}}, {0.8, 0.4, 0.2, 0.2});
  expect_rates("phases", {{"phases", {phase(1.5, 0.25), phase(1, 1)}}}, {0.8, 0.4, 0.5, 0.8});
}

TEST(ScheduleForm, ListedRatesAreTheRates) {
  expect_rates("rates", {{"rates", {0.1, 0.3, 0.2}}}, {0.1, 0.3, 0.2, 0.2});
}

TEST(ScheduleForm, ChainedSchedulesMultiply) {
  const Json chained = {{"of",
                         {{{"kind", "linear_warmup"}, {"warmup", 2}, {"factor", 0.5}},
                          {{"kind", "cosine"}, {"period", 4}, {"least", 0}},
                          {{"kind", "step"}, {"every", 2}, {"gamma", 0.5}}}}};
  const double root = std::sqrt(0.5) / 2;
  expect_rates("chained", chained, {0.4, 0.6 * (0.5 + root), 0.2, 0.4 * (0.5 - root), 0});
  EXPECT_FALSE(recipe::ScheduleForm({.kind = recipe::ScheduleKind::kChained, .options = chained}, 0.8).after(5, {}))
      << "a cosine rises again";
}

TEST(ScheduleForm, PlateauFollowsTheLosses) {
  const Json options = {{"factor", 0.5}, {"patience", 1}, {"threshold", 0.1}, {"cooldown", 1}, {"least", 0.15}};
  // 1.0 is the best; 0.95 and 0.92 are not better by a tenth: the second of them is one too many; one step of cooling;
  // then two bad ones again, and the floor.
  expect_rates("plateau", options, {0.8, 0.8, 0.8, 0.4, 0.4, 0.4, 0.2, 0.2, 0.2, 0.15},
               {1.0, 0.95, 0.92, 0.91, 1.0, 2.0, 1.0, 1.0, 1.0});
  expect_rates("plateau", options, {0.8, 0.8, 0.8, 0.8, 0.8}, {1.0, 0.8, 0.8, 0.6});
}

TEST(ScheduleForm, WithoutLossesAPlateauPromisesNothing) {
  const recipe::ScheduleChoice plateau{
      .kind = recipe::ScheduleKind::kPlateau,
      .options = {{"factor", 0.5}, {"patience", 1}, {"threshold", 0.1}, {"cooldown", 1}, {"least", 0}}};
  EXPECT_TRUE(recipe::ScheduleForm(plateau, 0.8).after(1, {1.0}));
  EXPECT_FALSE(recipe::ScheduleForm(plateau, 0.8).after(2, {1.0}));
}

TEST(ScheduleForm, AnUnknownScheduleHasNoClosedForm) {
  const recipe::ScheduleChoice unknown{.options = Json::object()};
  EXPECT_FALSE(recipe::ScheduleForm(unknown, 0.8).after(1, {}));
}

}  // namespace
}  // namespace lockstep::laws
