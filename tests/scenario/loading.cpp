#include "tests/scenario/loading.h"

#include <gtest/gtest.h>

namespace lockstep::scenario::test {

Json minimal() {
  return Json::parse(R"({
    "name": "minimal", "description": "Nothing that has a default.",
    "train": {"model": {"kind": "lenet"}, "data": {"kind": "synthetic"}, "batch": {"global": 24},
              "optimizer": {"kind": "sgd", "lr": 0.1}, "steps": 8},
    "repeats": 2,
    "checks": [{"that": "repeatable"}]
  })");
}

Json with(Json document, const std::string& path, const Json& value) {
  Json* at = &document;
  std::size_t begin = 0;
  while (begin <= path.size()) {
    const std::size_t dot = std::min(path.find('.', begin), path.size());
    const std::string key = path.substr(begin, dot - begin);
    at = at->is_array() ? &(*at)[std::stoul(key)] : &(*at)[key];
    begin = dot + 1;
  }
  *at = value;
  return document;
}

Json with(const std::string& path, const Json& value) { return with(minimal(), path, value); }
Json with_variants(const Json& variants) { return with("variants", variants); }

Json checked(Json document, const Json& checks) {
  document["checks"] = checks;
  return document;
}

Scenario load(const Json& document, const std::vector<std::string>& overrides) {
  const lockstep::test::Scratch scratch;
  return load_scenario(scratch.write("s.json", document.dump(1)), overrides);
}

Problem problem_of(const Json& document, const std::vector<std::string>& overrides) {
  try {
    load(document, overrides);
  } catch (const InputError& error) {
    return error.problem();
  } catch (const std::exception& error) {
    ADD_FAILURE() << "not an InputError: " << error.what() << "\n" << document.dump();
    return {};
  }
  ADD_FAILURE() << "accepted: " << document.dump() << " " << ::testing::PrintToString(overrides);
  return {};
}

std::vector<std::string> names_of(const Scenario& scenario) {
  std::vector<std::string> names;
  for (const Variant& variant : scenario.variants) names.push_back(variant.name);
  return names;
}

}  // namespace lockstep::scenario::test
