#include "harness/plan/part.h"

#include <charconv>
#include <set>

#include "harness/base/error.h"

namespace lockstep::plan {
namespace {

std::size_t number_from(const std::string& text) {
  std::size_t number = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
  return error == std::errc() && end == text.data() + text.size() ? number : 0;
}

}  // namespace

void keep_what_is_needed(scenario::Scenario& scenario) {
  std::set<std::string> needed;
  std::vector<std::string> open;
  for (const scenario::CheckSpec& check : scenario.checks)
    open.insert(open.end(), check.variants.begin(), check.variants.end());
  while (!open.empty()) {
    const std::string name = open.back();
    open.pop_back();
    if (!needed.insert(name).second) continue;
    for (const std::string& source : scenario::sources_of(scenario.variant(name))) open.push_back(source);
  }
  std::erase_if(scenario.variants, [&](const scenario::Variant& variant) { return !needed.contains(variant.name); });
}

Part parse_part(const std::string& text) {
  const std::size_t slash = text.find('/');
  const Part part{.number = number_from(text.substr(0, slash)),
                  .of = slash == std::string::npos ? 0 : number_from(text.substr(slash + 1))};
  if (part.number < 1 || part.number > part.of) {
    throw InputError({.what = "no part of the checks",
                      .where = "--part",
                      .expected = "K/N with K from 1 to N, such as 2/4",
                      .actual = text});
  }
  return part;
}

std::vector<scenario::Scenario> part_of(std::vector<scenario::Scenario> scenarios, const Part& part) {
  std::size_t next = 0;
  for (scenario::Scenario& scenario : scenarios) {
    std::erase_if(scenario.checks, [&](const scenario::CheckSpec&) { return next++ % part.of != part.number - 1; });
    keep_what_is_needed(scenario);
  }
  std::erase_if(scenarios, [](const scenario::Scenario& scenario) { return scenario.checks.empty(); });
  if (scenarios.empty()) {
    throw InputError({.what = "this part has no checks",
                      .where = "--part",
                      .expected = "at most as many parts as checks: " + std::to_string(next),
                      .actual = std::to_string(part.number) + "/" + std::to_string(part.of)});
  }
  return scenarios;
}

}  // namespace lockstep::plan
