#pragma once

#include <cstddef>
#include <string>
#include <vector>

#include "harness/plan/part.h"
#include "harness/scenario/scenario.h"

namespace lockstep::plan {

/// A mutation of a practice, made: variants and checks beside those of its scenario.
struct Trial {
  std::size_t practice = 0;           ///< index in the scenario
  std::size_t mutation = 0;           ///< index in the practice
  std::vector<std::string> variants;  ///< changed ones: those that the mutation names, and all that load from them
  std::vector<std::size_t> checks;    ///< of the practice, between the changed variants; indices in `Mutated::scenario`
};

/// A scenario with its mutations. They share the runs of variants that none of them changes.
struct Mutated {
  scenario::Scenario scenario;
  std::size_t own_checks = 0;            ///< of the scenario itself: they come first
  std::vector<std::string> check_names;  ///< of all checks of the scenario, chosen or not
  std::vector<Trial> trials;
};

/// The mutations of one of `of` equal parts, counted through all scenarios, made. All mutations leave the scenarios'
/// own checks as they are; a part leaves those of its practices. *Throws*: InputError for a change that makes no
/// training, or changes nothing that a check of its practice sees; where no mutation is left.
std::vector<Mutated> mutate(const std::vector<scenario::Scenario>& scenarios, const Part& part);

}  // namespace lockstep::plan
