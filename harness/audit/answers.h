#pragma once

#include <string>
#include <vector>

#include "harness/audit/answer.h"
#include "harness/audit/statement.h"
#include "harness/judge/judge.h"
#include "harness/plan/plan.h"

namespace lockstep::audit {

/// Reads the answers of statements from judged runs. *Lifetime*: borrows all.
class Answers {
 public:
  Answers(const plan::Plan& plan, const judge::Verdict& verdict, const std::vector<judge::Evidence>& evidence)
      : plan_(plan), verdict_(verdict), evidence_(evidence) {}

  /// Trace of a variant's run; null where it left none.
  const trace::RunTrace* run_of(const std::string& variant) const;

  Line of(const Statement& statement) const;

  /// First difference between a statement's sides; null: there is none.
  const compare::Divergence* divergence_of(const Statement& statement) const;

 private:
  const judge::CheckReport& report(std::size_t check) const { return verdict_.checks.at(check); }

  void not_decided(Line& line, const judge::CheckReport& report) const;
  void must_hold(Line& line, const Statement& statement) const;
  void repeats(Line& line, const Statement& statement) const;

  /// The check whose finding names the cause: a broken law, where the sides' recipes differ on purpose.
  judge::CheckReport named_by(const Statement& statement, const judge::CheckReport& decides) const;

  void differs(Line& line, const Statement& statement) const;
  void order(Line& line, const Statement& statement) const;

  const plan::Plan& plan_;
  const judge::Verdict& verdict_;
  const std::vector<judge::Evidence>& evidence_;
};

}  // namespace lockstep::audit
