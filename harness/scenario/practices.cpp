#include "harness/scenario/practices.h"

#include <set>

#include "harness/base/error.h"
#include "harness/base/text.h"
#include "harness/scenario/checks.h"

namespace lockstep::scenario {
namespace {

/// The check that a practice knows by this name.
std::size_t check_named(const std::string& name, const std::vector<CheckSpec>& checks, const std::string& where) {
  std::vector<std::size_t> found;
  std::vector<std::string> names;
  for (std::size_t i = 0; i < checks.size(); ++i) {
    if (checks[i].name == name) found.push_back(i);
    names.push_back(checks[i].name);
  }
  if (found.size() == 1) return found.front();
  if (found.empty())
    throw InputError({.what = "a practice names a check that does not exist",
                      .where = where,
                      .expected = "one of: " + some_of(names, 30),
                      .actual = "'" + name + "'",
                      .next = suggest(name, names)});
  throw InputError({.what = "a practice names several checks at once",
                    .where = where,
                    .expected = "a name that one check alone has",
                    .actual = "'" + name + "': checks " + listed(found),
                    .next = "give each of them a \"name\" of its own"});
}

/// A pattern may reach variants that another one reaches, too: their changes are merged in the order of the file's
/// keys, as JSON sorts them, so that '*' comes first.
std::map<std::string, Json> change_from(const Json& change, const std::vector<std::string>& variants,
                                        const std::string& where) {
  std::map<std::string, Json> changes;
  for (const auto& [pattern, patch] : change.items()) {
    for (const std::string& variant : variants_matching(pattern, variants, where, "a mutation")) {
      Json& merged = changes.try_emplace(variant, Json::object()).first->second;
      merge_json(merged, patch);
    }
  }
  return changes;
}

}  // namespace

std::vector<Practice> practices_from(const Json& practices, const Scenario& scenario,
                                     const std::vector<std::string>& variants, Problems& problems) {
  std::vector<Practice> result;
  std::set<std::string> distinct;
  for (std::size_t i = 0; i < practices.size(); ++i) {
    const std::string where = scenario.file.string() + ": practices." + std::to_string(i);
    Practice practice{.name = practices[i].at("name").get<std::string>()};
    if (!distinct.insert(practice.name).second)
      problems.add({.what = "two practices have the same name", .where = where, .actual = "'" + practice.name + "'"});
    for (const Json& name : practices[i].at("proven_by"))
      problems.collect([&] {
        practice.proven_by.push_back(check_named(name.get<std::string>(), scenario.checks, where + ".proven_by"));
      });
    const Json& mutations = practices[i].at("mutations");
    for (std::size_t k = 0; k < mutations.size(); ++k) {
      Mutation mutation{.name = mutations[k].at("name").get<std::string>()};
      const std::string of_change = where + ".mutations." + std::to_string(k) + ".change";
      problems.collect([&] { mutation.change = change_from(mutations[k].at("change"), variants, of_change); });
      practice.mutations.push_back(std::move(mutation));
    }
    result.push_back(std::move(practice));
  }
  return result;
}

}  // namespace lockstep::scenario
