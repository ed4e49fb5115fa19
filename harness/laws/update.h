#pragma once

#include <cstdint>
#include <optional>
#include <vector>

#include "harness/laws/own_gradients.h"
#include "harness/scenario/scenario.h"

namespace lockstep::laws {

/// One coefficient of an update: what the recipe promises, and what the trace shows.
struct Coefficient {
  double promised = 0;
  double found = 0;
  double rounding = 0;  ///< that it may be off by

  bool holds() const;
  bool is(double value) const;
};

/// How one rank changed the parameters of one group in one step, told from what it recorded before and after.
struct GroupUpdate {
  double rate = 0;         ///< of the ledger
  double rate_before = 0;  ///< of the step before; 0: none recorded
  /// momentum = keep · momentum before + take · gradient + decay · weights before. Nothing where there is none, or the
  /// terms do not determine it. SGD's momentum_buffer or Adam's exp_avg.
  struct Momentum {
    Coefficient keep, take, decay;
    double residual = 0;
  };
  std::optional<Momentum> momentum;
  /// weights before − weights after = step · (gradient, momentum, as the recipe mixes them) + decay · weights before.
  /// SGD alone.
  struct Change {
    Coefficient step, decay;
    double residual = 0;
    double rounding = 0;  ///< of the weights, as a part of the change
  };
  std::optional<Change> change;
};

/// The updates of all groups of a rank. Empty where a step or a channel is missing.
/// *Source*: torch.optim.SGD and Adam, PyTorch 2.11.
std::vector<GroupUpdate> updates_of(const trace::RunTrace& run, const scenario::Promises& promises, std::size_t rank,
                                    std::int64_t step);

}  // namespace lockstep::laws
