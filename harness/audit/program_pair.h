#pragma once

#include <cstdint>
#include <functional>
#include <optional>
#include <string>

#include "harness/audit/answers.h"

namespace lockstep::audit {

/// Why two runs of a program differ that seemed to be one training.
struct Excuse {
  Answer answer = Answer::kNoIdentity;
  std::string because, instead;
};

/// The excuse for a first difference between the first run and the second, as far as the runs show one.
using Excuser = std::function<std::optional<Excuse>(const trace::RunTrace& one, const trace::RunTrace& other,
                                                    const compare::Divergence& found)>;

/// A program promises no identity: where its runs show why there is none, none is broken.
void weigh_program(Line& line, const Statement& statement, const Answers& answers, const Excuser& excuse_of);

/// Whether the difference has a cause that is none of the recipe's properties. Ranks may augment in their own way.
bool names_a_mistake(const compare::Divergence& found);

/// Whether a sample has another content in the other run, as where ranks augment, with whatever generator.
bool gives_other_tensors(const trace::RunTrace& one, const trace::RunTrace& other, std::int64_t until);

}  // namespace lockstep::audit
