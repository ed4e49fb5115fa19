#pragma once

#include <optional>
#include <string>

#include "harness/audit/examination.h"
#include "harness/audit/program_pair.h"

namespace lockstep::audit {

/// An audit of a program in several layouts: which of them compute what the first one does?
class Layouts : public Examination {
 public:
  /// *Throws*: InputError for a recipe of the worker, or layouts that cannot be compared. *Lifetime*: of `scenario`.
  Layouts(const scenario::Scenario& scenario, const Request& request);

 protected:
  void weigh(Line& line, const Statement& statement, const Answers& answers) const override;
  std::string headline(const Audit& audit) const override;

 private:
  Json patch_of(const Layout& layout) const;

  /// *Throws*: InputError where a layout is no training, or the same as another.
  void require_trainings();

  std::optional<Excuse> excuse_of(const trace::RunTrace& one, const trace::RunTrace& other,
                                  const compare::Divergence& found) const;
};

}  // namespace lockstep::audit
