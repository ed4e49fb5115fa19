#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>
#include <vector>

#include "harness/audit/answer.h"
#include "harness/audit/kind.h"
#include "harness/audit/recipe.h"
#include "harness/judge/verdict.h"

namespace lockstep::audit {

/// A layout of a program: what chooses it.
struct Layout {
  std::string name;  ///< "fsdp 4"
  std::int64_t ranks = 1;
  Json arguments = Json::object(), promises = Json::object();  ///< changes of those that the scenario has
};

/// Request for an audit of a recipe.
struct Request {
  Kind kind = Kind::kScaling;
  std::string variant;              ///< that holds the recipe; empty: 'recipe', else the first by name
  std::vector<std::int64_t> ranks;  ///< empty: as the audit chooses
  std::int64_t steps = 6;           ///< updates of each run
  std::int64_t samples = 0;         ///< in the data; 0: unknown
  std::vector<std::string> only;    ///< beginnings of ids; empty: all
  bool is_narrowed = false;         ///< `only` is not that of the findings' file
  ProgramOptions options;           ///< of a program
  std::vector<Layout> layouts;      ///< of a program; the others are compared with the first
  std::optional<std::map<std::string, Answer>> findings;  ///< expected answers, by id: others are red
};

/// Answers of an audit.
struct Audit {
  Kind kind = Kind::kScaling;
  std::string scenario, variant, recipe;
  std::string headline;  ///< "at 8 ranks this recipe is another computation: ..."
  std::vector<std::int64_t> ranks;
  std::vector<Line> lines;
  bool is_whole = true;                     ///< no line was left out
  bool has_all_findings = true;             ///< none was left out that the findings speak of
  std::vector<double> batch, rate, update;  ///< of a scaling audit, by number of ranks; NaN: not known
  /// Answers that the findings do not foresee, in words; nothing where no findings are written down.
  std::optional<std::vector<std::string>> unexpected;

  /// Ids of the lines with this answer.
  std::vector<std::string> with(Answer answer) const;
  judge::Status status() const;
};

/// Answers that are not as the findings have them, in words.
std::vector<std::string> unexpected_in(const Audit& audit, const std::map<std::string, Answer>& findings);

}  // namespace lockstep::audit
