#pragma once

#include <string>
#include <vector>

#include "harness/base/error.h"
#include "harness/base/json.h"
#include "harness/scenario/scenario.h"

#include "tests/support/support.h"

namespace lockstep::scenario::test {

/// The smallest scenario: synthetic data, one variant 'main' of one rank, two repeats, one check.
Json minimal();

/// `minimal()` with one dotted path set; an array index counts as a key only where an array stands.
Json with(const std::string& path, const Json& value);
Json with(Json document, const std::string& path, const Json& value);

/// `minimal()` with these variants: name -> changes.
Json with_variants(const Json& variants);

/// `document` with these checks instead of its own.
Json checked(Json document, const Json& checks);

/// Loads a document as the file "s.json" of a folder of its own.
Scenario load(const Json& document, const std::vector<std::string>& overrides = {});

/// What load_scenario says against the document; fails the test if it says nothing, or not by an InputError.
Problem problem_of(const Json& document, const std::vector<std::string>& overrides = {});

/// Names of the variants, in order.
std::vector<std::string> names_of(const Scenario& scenario);

}  // namespace lockstep::scenario::test

/// Every part of a message, found by a part of its text; `place` is looked for in `where`.
#define EXPECT_PROBLEM(problem, what_, place, expected_, actual_)                    \
  {                                                                                  \
    const ::lockstep::Problem found = (problem);                                     \
    EXPECT_NE(found.what.find(what_), std::string::npos) << found.what;              \
    EXPECT_NE(found.where.find(place), std::string::npos) << found.where;            \
    EXPECT_NE(found.where.find("s.json"), std::string::npos) << found.where;         \
    EXPECT_NE(found.expected.find(expected_), std::string::npos) << found.expected;  \
    EXPECT_NE(found.actual.find(actual_), std::string::npos) << found.actual;        \
    EXPECT_FALSE(found.expected.empty() || found.actual.empty()) << describe(found); \
  }
