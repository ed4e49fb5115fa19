#pragma once

#include <string>
#include <vector>

#include "harness/base/json.h"

namespace lockstep::scenario {

/// A patch by name: what a variant changes.
struct Patch {
  std::string name;
  Json changes;
};

/// The parts of a scenario's document that its variants change.
Json shared_by_variants(const Json& document);

/// The patch of each variant, with every combination of the matrix. *Throws*: InputError.
std::vector<Patch> patches_of(const Json& variants, const Json& matrix, const std::string& file);

/// Another kind brings keys of its own: those of the kind that it replaces must not linger. `merged`: `before` with
/// these changes.
void take_other_kinds(Json& merged, const Json& before, const Json& changes);

/// A document with changes merged in, and other kinds taken.
Json with_changes(const Json& base, const Json& changes);

}  // namespace lockstep::scenario
