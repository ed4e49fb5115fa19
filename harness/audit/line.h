#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include "harness/base/json.h"

namespace lockstep::audit {

/// Answer of an audit to one of its questions.
enum class Answer {
  kIdentical,   ///< both sides are equal in every bit
  kRounding,    ///< both sides are equal in exact arithmetic
  kHolds,       ///< a law or a closed form is kept
  kSame,        ///< a quantity of the recipe does not depend on the number of ranks
  kNoIdentity,  ///< no statement makes both sides equal, and they differ
  kHidden,      ///< the optimizer hides a difference of the gradients
  kNotSeen,     ///< both sides should differ, and did not in these steps
  kEmpirical,   ///< experience recommends it; it is another computation
  kOther,       ///< another computation, and no rule recommends it
  kSlip,        ///< a known mistake
  kChanges,     ///< a quantity of the recipe depends on the number of ranks
  kBroken,      ///< an identity, a law or a closed form that must hold does not
  kCannotTell,  ///< not decided, or not possible with this recipe
  kMeasured,    ///< a number, for information
};

std::string_view name_of(Answer answer);

/// Group of questions, in the order of the report.
enum class Section {
  kRecipe,      ///< does every run do what its recipe says?
  kQuantities,  ///< which quantities of the recipe depend on the number of ranks?
  kIdentities,  ///< exact statements, tested by runs
  kMatrix,      ///< batch x rate x sampler against the baseline
  kMeasured,    ///< for information
};

std::string_view name_of(Section section);

/// One question of an audit, answered.
struct Line {
  std::string id;  ///< "one-batch@4"; unique in an audit
  Section section = Section::kIdentities;
  std::string text;                 ///< the statement, or the name of the quantity
  std::vector<std::string> values;  ///< of a quantity, by number of ranks
  Answer answer = Answer::kCannotTell;
  std::string because;  ///< why
  std::string instead;  ///< change that makes it consistent, or the thing to compare instead
  std::string at;       ///< "step 3, gradient conv1.weight", of a broken one
  std::string cause;    ///< id and sentence of the likeliest cause, of a broken one
  std::string reproduce;

  bool operator==(const Line&) const = default;
};

/// Whether this answer says that the recipe is not one computation at any number of ranks.
bool is_finding(const Line& line);

}  // namespace lockstep::audit
