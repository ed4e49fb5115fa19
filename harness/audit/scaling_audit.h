#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "harness/audit/examination.h"
#include "harness/audit/identities.h"
#include "harness/audit/quantities.h"

namespace lockstep::audit {

/// An audit of one recipe along the number of ranks.
class Scaling : public Examination {
 public:
  /// *Throws*: InputError for an unknown variant, or a recipe with an unknown batch. *Lifetime*: of `scenario`.
  Scaling(const scenario::Scenario& scenario, const Request& request);

 protected:
  void add_before(Audit& audit, const Answers& answers) const override;
  void add_after(Audit& audit, const Answers& answers) const override;
  void weigh(Line& line, const Statement& statement, const Answers& answers) const override;
  std::string headline(const Audit& audit) const override;

 private:
  std::vector<Seen> seen(const Answers& answers) const;
  /// The batch that keeps the training, where a run has shown it; else empty.
  std::string remedy(const Audit& audit) const;

  Range range_;
  std::vector<std::string> written_;   ///< names of the variants of the recipe as written, by number of ranks
  std::vector<std::string> refusals_;  ///< why there is none
};

/// Default numbers of ranks of a scaling audit.
std::vector<std::int64_t> ranks_of_scaling();

}  // namespace lockstep::audit
