#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "harness/audit/identities.h"
#include "harness/audit/line.h"
#include "harness/audit/recipe.h"
#include "harness/audit/statement.h"
#include "harness/plan/plan.h"
#include "harness/report/judge.h"

namespace lockstep::audit {

/// Request for an audit of a recipe along the number of ranks.
struct Request {
  std::string variant;  ///< that holds the recipe; empty: 'recipe', else the first by name
  std::vector<std::int64_t> ranks = {1, 2, 4, 8};
  std::int64_t steps = 6;                                 ///< updates of each run
  std::int64_t samples = 0;                               ///< in the data; 0: nobody knows
  std::vector<std::string> only;                          ///< beginnings of ids; empty: all
  ProgramOptions options;                                 ///< of a program
  std::optional<std::map<std::string, Answer>> findings;  ///< expected answers, by id: others are red
};

/// Answers of an audit.
struct Audit {
  std::string scenario, variant, recipe;
  std::vector<std::int64_t> ranks;
  std::vector<Line> lines;
  bool is_whole = true;                     ///< no line was left out
  std::vector<double> batch, rate, update;  ///< by number of ranks; NaN: not known
  /// Answers that the findings do not foresee, in words; nothing where no findings are written down.
  std::optional<std::vector<std::string>> unexpected;

  /// "at 8 ranks this recipe is another computation: ..."
  std::string headline() const;
  report::Status status() const;
};

/// An audit of one recipe: makes the scenario whose runs answer its questions, and reads the answers.
class Scaling {
 public:
  /// *Throws*: InputError for an unknown variant, or a recipe whose batch nobody knows. *Lifetime*: of `scenario`.
  Scaling(const scenario::Scenario& scenario, Request request);

  const scenario::Scenario& scenario() const { return derivation_.scenario(); }

  /// Whether control runs may explain this check's result: theory did not foresee it.
  bool is_open(std::size_t check) const;

  /// `reproduce`: the command line before "--only ID". `verdict`, `evidence`: of the plan of `scenario()`.
  Audit answer(const plan::Plan& plan, const report::Verdict& verdict, const std::vector<report::Evidence>& evidence,
               const std::string& reproduce) const;

 private:
  const scenario::Scenario& original_;
  Request request_;
  std::unique_ptr<Recipe> recipe_;
  Range range_;
  Derivation derivation_;
  std::vector<std::string> written_;   ///< names of the variants of the recipe as written, by number of ranks
  std::vector<std::string> refusals_;  ///< why there is none
};

/// Samples in the data of a recipe, where it says them; 0: a run must tell.
std::int64_t samples_said(const scenario::Scenario& scenario, const Request& request);

/// The recipe as written, for one update, at its first number of ranks: a run that tells how many samples there are.
scenario::Scenario probe(const scenario::Scenario& scenario, const Request& request);

}  // namespace lockstep::audit
