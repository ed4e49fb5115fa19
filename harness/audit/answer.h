#pragma once

#include <array>
#include <cstddef>
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
  kNeeded,      ///< without this part a resumed training differs
  kSlip,        ///< a known mistake
  kChanges,     ///< a quantity of the recipe depends on the number of ranks, or on the layout
  kBroken,      ///< an identity, a law or a closed form that must hold does not
  kCannotTell,  ///< not decided, or not possible with this recipe
  kMeasured,    ///< a number, for information
};

/// The reader's first thought at an answer.
enum class Mood {
  kGood,
  kFact,  ///< neither good nor bad
  kBad,
  kOpen,
};

/// One row for each answer, in order.
struct AnswerInfo {
  Answer answer;
  std::string_view name;
  Mood mood;
};

inline constexpr std::array<AnswerInfo, 15> kAnswers = {{
    {Answer::kIdentical, "identical", Mood::kGood},
    {Answer::kRounding, "rounding", Mood::kGood},
    {Answer::kHolds, "holds", Mood::kGood},
    {Answer::kSame, "same", Mood::kGood},
    {Answer::kNoIdentity, "no identity", Mood::kFact},
    {Answer::kHidden, "hidden", Mood::kFact},
    {Answer::kNotSeen, "not seen", Mood::kFact},
    {Answer::kEmpirical, "empirical", Mood::kFact},
    {Answer::kOther, "other", Mood::kFact},
    {Answer::kNeeded, "needed", Mood::kFact},
    {Answer::kSlip, "slip", Mood::kBad},
    {Answer::kChanges, "changes", Mood::kBad},
    {Answer::kBroken, "broken", Mood::kBad},
    {Answer::kCannotTell, "cannot tell", Mood::kOpen},
    {Answer::kMeasured, "measured", Mood::kFact},
}};

constexpr const AnswerInfo& info(Answer answer) { return kAnswers[static_cast<std::size_t>(answer)]; }
constexpr std::string_view name_of(Answer answer) { return info(answer).name; }

constexpr bool is_equality(Answer answer) { return answer == Answer::kIdentical || answer == Answer::kRounding; }

/// "equal in every bit"
std::string in_words(Answer equality);

/// An answer by its name. *Throws*: InputError.
Answer answer_named(const std::string& name, const std::string& where);

/// Group of questions, in the order of the report.
enum class Section {
  kRecipe,      ///< does every run do what its recipe says?
  kQuantities,  ///< which quantities of the recipe depend on the number of ranks?
  kIdentities,  ///< exact statements, tested by runs
  kLayouts,     ///< against the first layout
  kMatrix,      ///< batch x rate x sampler against the baseline
  kResumption,  ///< does a resumed training equal an uninterrupted one?
  kParts,       ///< what must a checkpoint restore?
  kLoading,     ///< who loads, and when
  kElsewhere,   ///< on another number of ranks
  kMeasured,    ///< for information
};

/// One row for each section, in order.
struct SectionInfo {
  Section section;
  std::string_view name;
  std::string_view title;
  bool is_of_others = false;  ///< on other recipes than the one that is audited, whose slips are its own warnings
};

inline constexpr std::array<SectionInfo, 10> kSections = {{
    {Section::kRecipe, "recipe", "Does each run do what the recipe says?"},
    {Section::kQuantities, "quantities", "The recipe along the number of ranks"},
    {Section::kIdentities, "identities", "Exact identities, tested"},
    {Section::kLayouts, "layouts", "Which layouts compute the same?"},
    {Section::kMatrix, "matrix", "Batch, rate and sampler against the baseline", true},
    {Section::kResumption, "resumption", "Does a resumed training equal an uninterrupted one?"},
    {Section::kParts, "parts", "What must be restored?", true},
    {Section::kLoading, "loading", "Who loads, and when", true},
    {Section::kElsewhere, "elsewhere", "On another number of ranks"},
    {Section::kMeasured, "measured", "Measured, for information"},
}};

constexpr const SectionInfo& info(Section section) { return kSections[static_cast<std::size_t>(section)]; }
constexpr std::string_view name_of(Section section) { return info(section).name; }

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
  std::string failed;   ///< of one that a run left undecided: how it ended, "run a/w4/0 failed: ZeroDivisionError: …"
  std::string reproduce;

  bool operator==(const Line&) const = default;
};

/// "data.not_sharded"; empty: no cause is known.
std::string id_of_cause(const Line& line);

/// Whether this answer says that the recipe is not one computation at any number of ranks.
bool is_finding(const Line& line);

}  // namespace lockstep::audit
