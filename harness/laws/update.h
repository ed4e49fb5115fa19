#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/laws/own_gradients.h"
#include "harness/scenario/scenario.h"

namespace lockstep::laws {

/// One coefficient of an update: as the recipe promises it, and as the trace shows it.
struct Coefficient {
  double promised = 0;
  double found = 0;
  double rounding = 0;  ///< largest difference that rounding can explain

  bool holds() const;
  bool is(double value) const;
};

/// How one rank updated the parameters of one group in one step, from the records before and after it.
struct GroupUpdate {
  double rate = 0;         ///< learning rate in the ledger
  double rate_before = 0;  ///< of the previous step; 0: not recorded
  /// momentum = keep · momentum before + take · gradient + decay · weights before. Nothing if there is no momentum, or
  /// the fit is not unique. SGD's momentum_buffer or Adam's exp_avg.
  struct Momentum {
    Coefficient keep, take, decay;
    double residual = 0;
  };
  std::optional<Momentum> momentum;
  /// weights before − weights after = step · (gradient, momentum, as the recipe mixes them) + decay · weights before.
  /// Only for SGD.
  struct Change {
    Coefficient step, decay;
    double residual = 0;
    double rounding = 0;  ///< of the weights, relative to the change
  };
  std::optional<Change> change;
};

/// Updates of all groups of a rank. Empty if a step or channel is missing.
/// *Source*: torch.optim.SGD and Adam, PyTorch 2.11.
std::vector<GroupUpdate> updates_of(const trace::RunTrace& run, const scenario::Promises& promises, std::size_t rank,
                                    std::int64_t step);

}  // namespace lockstep::laws
