#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/audit/examination.h"

namespace lockstep::audit {

/// An audit of a recipe's checkpoints: which parts must be restored, who may load them and when, and on how many ranks
/// the training may go on.
class Checkpoint : public Examination {
 public:
  /// *Throws*: InputError for an unknown variant, a program, or fewer than two updates. *Lifetime*: of `scenario`.
  Checkpoint(const scenario::Scenario& scenario, const Request& request);

 protected:
  void add_after(Audit& audit, const Answers& answers) const override;
  std::string headline(const Audit& audit) const override;
};

/// Default numbers of ranks: the recipe's own, which saves, and another, which resumes.
std::vector<std::int64_t> ranks_of_checkpoint(const scenario::Variant& recipe);

}  // namespace lockstep::audit
