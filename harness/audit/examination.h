#pragma once

#include <cstddef>
#include <memory>
#include <set>
#include <string>
#include <vector>

#include "harness/audit/answers.h"
#include "harness/audit/audit.h"
#include "harness/audit/statement.h"

namespace lockstep::audit {

/// An audit of one recipe: makes the scenario whose runs answer its questions, and reads the answers.
class Examination {
 public:
  virtual ~Examination() = default;

  const scenario::Scenario& scenario() const { return derivation_.scenario(); }

  /// The statements that checks of these variants alone answer, by their places.
  std::vector<std::size_t> answered_by(const std::set<std::string>& variants) const;

  /// Line of one statement; as `answer`, before control runs.
  Line line_of(std::size_t statement, const plan::Plan& plan, const judge::Verdict& verdict,
               const std::vector<judge::Evidence>& evidence) const;

  /// Variants whose runs a statement needs.
  std::set<std::string> needs_of(std::size_t statement) const;

  /// Whether control runs may explain this check's result: neither theory nor what the runs show foresaw it.
  bool is_open(std::size_t check, const plan::Plan& plan, const judge::Verdict& verdict,
               const std::vector<judge::Evidence>& evidence) const;

  /// `reproduce`: the command line before "--only ID". `verdict`, `evidence`: of the plan of `scenario()`.
  Audit answer(const plan::Plan& plan, const judge::Verdict& verdict, const std::vector<judge::Evidence>& evidence,
               const std::string& reproduce) const;

 protected:
  Examination(const scenario::Scenario& scenario, const Request& request);

  /// Lines that no statement gives, before and after those that one gives.
  virtual void add_before(Audit& /*audit*/, const Answers& /*answers*/) const {}
  virtual void add_after(Audit& /*audit*/, const Answers& /*answers*/) const {}

  /// Takes into a broken line what the runs themselves show of the recipe.
  virtual void weigh(Line& /*line*/, const Statement& /*statement*/, const Answers& /*answers*/) const {}

  /// The answer in one line.
  virtual std::string headline(const Audit& audit) const = 0;

  const scenario::Scenario& original_;
  Request request_;
  std::unique_ptr<Recipe> recipe_;
  Derivation derivation_;
};

/// An audit as asked. *Throws*: InputError for an unknown variant, or a recipe that this audit cannot take.
/// *Lifetime*: of `scenario`.
std::unique_ptr<Examination> examination(const scenario::Scenario& scenario, const Request& request);

/// Samples in the data of a recipe, where it says them; 0: a run must show them.
std::int64_t samples_said(const scenario::Scenario& scenario, const Request& request);

/// The recipe as written, for one update, at its first number of ranks: a run that shows how many samples there are.
scenario::Scenario probe(const scenario::Scenario& scenario, const Request& request);

}  // namespace lockstep::audit
