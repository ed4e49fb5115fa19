#include "harness/scenario/checks.h"

#include <algorithm>
#include <chrono>

#include <fnmatch.h>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/schema.h"
#include "harness/trace/channel.h"

namespace lockstep::scenario {
namespace {

using Names = std::vector<std::string>;

Names resolve(const std::string& pattern, const Names& all, const std::string& where) {
  return variants_matching(pattern, all, where, "a check");
}

std::string resolve_one(const std::string& pattern, const Names& all, const std::string& where) {
  const Names found = resolve(pattern, all, where);
  if (found.size() == 1) return found.front();
  throw InputError({.what = "a check needs one variant and names several",
                    .where = where,
                    .expected = "one of: " + join(found, ", "),
                    .actual = "'" + pattern + "'"});
}

Names variants_of(const Json& check, const Names& all, const std::string& where) {
  if (!check.contains("variants")) return all;
  Names result;
  for (const Json& pattern : check["variants"]) {
    for (const std::string& name : resolve(pattern.get<std::string>(), all, where)) {
      if (std::find(result.begin(), result.end(), name) == result.end()) result.push_back(name);
    }
  }
  return result;
}

trace::Channel channel_from(const Json& name, const std::string& where) {
  const auto channel = name.get<std::string>();
  if (const auto known = trace::channel_named(channel)) return *known;
  throw InputError({.what = "a check names an unknown channel",
                    .where = where,
                    .expected = "one of: " + join(trace::channel_names(), ", "),
                    .actual = "'" + channel + "'",
                    .next = suggest(channel, trace::channel_names())});
}

std::vector<trace::Channel> channels_of(const Json& check, const std::string& where) {
  std::vector<trace::Channel> channels;
  for (const Json& name : check.value("on", Json::array())) channels.push_back(channel_from(name, where + ".on"));
  return channels;
}

/// A day of the calendar, as written.
std::string date_from(const std::string& text, const std::string& where) {
  const auto number = [&](std::size_t at, std::size_t digits) { return std::stoi(text.substr(at, digits)); };
  const int year = number(0, 4);  // the schema's pattern has made sure that these are digits
  const auto month = static_cast<unsigned>(number(5, 2)), day = static_cast<unsigned>(number(8, 2));
  const std::chrono::year_month_day date{std::chrono::year(year), std::chrono::month(month), std::chrono::day(day)};
  if (date.ok()) return text;
  throw InputError({.what = "a date does not exist",
                    .where = where + ".expect.until",
                    .expected = "a day of the calendar, year-month-day",
                    .actual = "'" + text + "'"});
}

/// The factor by which first updates must differ.
double factor_from(double factor, const std::string& where) {
  if (factor != 1) return factor;
  throw InputError({.what = "a factor of 1 is no difference",
                    .where = where + ".factor",
                    .expected = "another number",
                    .actual = "1",
                    .next = "to ask for equal updates, use the check 'rounding' or 'equal'"});
}

std::optional<Expectation> expectation_of(const Json& check, const std::string& where, Problems& problems) {
  if (!check.contains("expect")) return std::nullopt;
  const Json& expect = check["expect"];
  Expectation result{.reason = expect.at("reason").get<std::string>()};
  if (expect.contains("until"))
    problems.collect([&] { result.until = date_from(expect["until"].get<std::string>(), where); });
  if (expect.contains("cause")) result.cause = expect["cause"].get<std::string>();
  if (expect.contains("class")) result.class_ = class_named(expect["class"].get<std::string>());
  const Json at = expect.value("at", Json::object());
  if (at.contains("step")) result.step = at["step"].get<std::int64_t>();
  if (at.contains("channel"))
    problems.collect([&] { result.channel = channel_from(at["channel"], where + ".expect.at.channel"); });
  if (at.contains("tensor")) result.tensor = at["tensor"].get<std::string>();
  if (at.contains("rank")) result.rank = at["rank"].get<std::int64_t>();
  return result;
}

/// Refuses checks that would compare nothing.
void require_substance(const CheckSpec& check, const Scenario& scenario, const std::string& where) {
  const auto fail = [&](const std::string& what, const std::string& expected, const std::string& actual) {
    throw InputError({.what = what, .where = where, .expected = expected, .actual = actual});
  };
  const std::string that = "'" + std::string(name_of(check.that)) + "'";
  switch (check.traits().sides) {
    case Sides::kVariants:
      if (check.variants.size() < 2)
        fail(that + " would compare a variant with itself", "two variants or more", join(check.variants, ", "));
      return;
    case Sides::kRepeats:
      if (scenario.repeats < 2)
        fail(that + " would compare a run with itself", "repeats of 2 or more", std::to_string(scenario.repeats));
      return;
    case Sides::kRanks:
      if (std::none_of(check.variants.begin(), check.variants.end(),
                       [&](const std::string& name) { return scenario.variant(name).world_size > 1; }))
        fail(that + " would compare a rank with itself", "a variant with world_size of 2 or more",
             join(check.variants, ", "));
      return;
    case Sides::kResumption:
      if (check.straight == check.interrupted)
        fail(that + " would compare a variant with itself", "two variants", "'" + check.straight + "'");
      if (!scenario.variant(check.interrupted).train.checkpoint.load)
        fail("the variant named 'interrupted' resumes nothing",
             "a variant with train.checkpoint.load, or a program that is given '{folder:VARIANT}'",
             "'" + check.interrupted + "'");
      return;
    case Sides::kGolden:
      if (std::find(check.variants.begin(), check.variants.end(), check.of) != check.variants.end())
        fail("'" + check.of + "' has a golden of its own", "other variants than the one named by 'of'",
             join(check.variants, ", "));
      for (const std::string& variant : check.variants) {
        const std::string& device = scenario.variant(variant).train.device;
        if (device != "cpu")
          fail("goldens exist only for trainings on a CPU", "train.device = cpu in '" + variant + "'", device);
      }
      return;
    case Sides::kLaw:
      return;
  }
}

/// Refuses channels that cannot be compared between the world sizes of a check's variants.
void require_comparable(const CheckSpec& check, const Scenario& scenario, const std::string& where) {
  if (!check.traits().between_runs()) return;
  const Variant& first = scenario.variant(check.variants.front());
  const auto other = std::find_if(check.variants.begin(), check.variants.end(), [&](const std::string& name) {
    return scenario.variant(name).world_size != first.world_size;
  });
  if (other == check.variants.end()) return;
  for (const trace::Channel of_check : check.channels) {
    const auto of_all = [](const trace::ChannelInfo& row) { return row.across == trace::Across::kAllShapes; };
    if (of_all(trace::info(of_check))) continue;
    const std::string channel(trace::name_of(of_check));
    std::vector<std::string> comparable;
    for (const trace::Channel other : trace::channels_that(of_all)) comparable.emplace_back(trace::name_of(other));
    throw InputError({.what = "a check compares a channel that different world sizes do not share",
                      .where = where + ".on",
                      .expected = "one of: " + join(comparable, ", "),
                      .actual = "'" + channel + "' of '" + first.name + "' (world_size " +
                                std::to_string(first.world_size) + ") and '" + *other + "' (world_size " +
                                std::to_string(scenario.variant(*other).world_size) + ")",
                      .next = "leave '" + channel + "' out, or compare variants of one world size"});
  }
}

/// A channel that a check needs must be recorded by the variants that it looks at.
void require_recorded(const CheckSpec& check, const Scenario& scenario, const std::string& where) {
  for (const std::string& name : check.variants) {
    const recipe::RecordSpec& record = scenario.variant(name).train.record;
    for (const trace::Channel channel : check.channels) {
      if (record.holds(channel)) continue;
      throw InputError(
          {.what = "a check looks at a channel that the variant does not record",
           .where = where,
           .expected = "one of: " + join(record.channels, ", ") + " (train.record.channels of '" + name + "')",
           .actual = "'" + std::string(trace::name_of(channel)) + "'"});
    }
  }
}

/// The variants that a check names.
void take_variants(CheckSpec& check, const Json& object, const Names& all, const std::string& where) {
  if (check.traits().sides == Sides::kResumption) {
    check.straight = resolve_one(object.at("straight").get<std::string>(), all, where + ".straight");
    check.interrupted = resolve_one(object.at("interrupted").get<std::string>(), all, where + ".interrupted");
    check.variants = {check.straight, check.interrupted};
  } else {
    check.variants = variants_of(object, all, where + ".variants");
    if (object.contains("of")) check.of = resolve_one(object["of"].get<std::string>(), all, where + ".of");
  }
}

bool are_known(const Names& variants, const Scenario& scenario) {
  return std::all_of(variants.begin(), variants.end(), [&](const std::string& name) {
    return std::any_of(scenario.variants.begin(), scenario.variants.end(),
                       [&](const Variant& variant) { return variant.name == name; });
  });
}

/// A check that the schema accepts; what else is wrong with it is added to `problems`.
CheckSpec check_from(const Json& object, const Scenario& scenario, const Names& variants, const std::string& path,
                     Problems& problems) {
  const auto that = object.at("that").get<std::string>();
  CheckSpec check{.that = check_kind_named(that).value(),
                  .name = object.value("name", that)};  // the schema knows no other
  const std::string where = scenario.file.string() + ": " + path + " (" + that + ")";
  problems.collect([&] { check.channels = channels_of(object, where); });
  check.expect = expectation_of(object, where, problems);
  if (object.contains("factor"))
    problems.collect([&] { check.factor = factor_from(object["factor"].get<double>(), where); });
  check.laws = object.value("laws", Names());
  if (variants.empty()) return check;  // none could be read, and that is told
  const bool named = problems.collect([&] { take_variants(check, object, variants, where); });
  if (!named || !are_known(check.variants, scenario)) return check;  // what is wrong with a variant is told of it
  problems.collect([&] { require_substance(check, scenario, where); });
  problems.collect([&] { require_comparable(check, scenario, where); });
  problems.collect([&] { require_recorded(check, scenario, where); });
  return check;
}

/// The golden that a check borrows must be accepted by another check, of as many ranks.
void require_lender(const CheckSpec& check, const Scenario& scenario, const std::vector<CheckSpec>& all,
                    const std::string& where) {
  if (check.of.empty()) return;
  const bool is_accepted = std::any_of(all.begin(), all.end(), [&](const CheckSpec& other) {
    return other.that == CheckKind::kGolden && other.of.empty() &&
           std::find(other.variants.begin(), other.variants.end(), check.of) != other.variants.end();
  });
  if (!is_accepted)
    throw InputError({.what = "no check accepts the golden that this one compares with",
                      .where = where + ".of",
                      .expected = "a variant of another golden check",
                      .actual = "'" + check.of + "'",
                      .next = R"(add {"that": "golden", "variants": [")" + check.of + "\"]}"});
  const std::int64_t ranks = scenario.variant(check.of).world_size;
  for (const std::string& name : check.variants) {
    const std::int64_t others = scenario.variant(name).world_size;
    if (others != ranks)
      throw InputError({.what = "a golden holds what each rank computed, and is none of another number of ranks",
                        .where = where + ".of",
                        .expected = "a golden of " + std::to_string(others) + " ranks, as '" + name + "' has",
                        .actual = "'" + check.of + "', with " + std::to_string(ranks),
                        .next = "compare variants of other numbers of ranks by the check 'rounding'"});
  }
}

}  // namespace

std::vector<std::string> variants_matching(const std::string& pattern, const Names& all, const std::string& where,
                                           const std::string& who) {
  Names found;
  for (const std::string& name : all) {
    if (name == pattern || fnmatch(pattern.c_str(), name.c_str(), 0) == 0) found.push_back(name);
  }
  if (!found.empty()) return found;
  throw InputError({.what = who + " names a variant that does not exist",
                    .where = where,
                    .expected = "one of: " + some_of(all, 20),
                    .actual = "'" + pattern + "'",
                    .next = suggest(pattern, all)});
}

std::vector<CheckSpec> checks_from(const Json& checks, const Scenario& scenario, const Names& variants,
                                   Problems& problems) {
  std::vector<CheckSpec> result(checks.size());
  for (std::size_t i = 0; i < checks.size(); ++i) {
    problems.collect([&] {
      const std::string path = "checks." + std::to_string(i);
      const Json completed = complete(checks[i], "check", {.file = scenario.file.string(), .within = "", .path = path});
      result[i] = check_from(completed, scenario, variants, path, problems);
    });
  }
  for (std::size_t i = 0; i < checks.size() && problems.all().empty(); ++i) {
    problems.collect([&] {
      require_lender(result[i], scenario, result,
                     scenario.file.string() + ": checks." + std::to_string(i) + " (golden)");
    });
  }
  return result;
}

}  // namespace lockstep::scenario
