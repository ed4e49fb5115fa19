#pragma once

#include <optional>

#include "harness/laws/law.h"

namespace lockstep::laws {

/// First sampled element that the recipe's seed does not draw, of models whose layers are all torch.nn.Linear or
/// torch.nn.Conv2d, as torch initialises them. Nothing of other models, and of weights that are loaded.
///
/// *Source*: torch.nn.init.kaiming_uniform_ with a = √5 and the bias' uniform_, PyTorch 2.11: all are uniform within
/// 1/√(inputs of the layer), drawn in the order of the parameters by the generator of the CPU. Counts what it judged.
std::optional<Breach> first_weights_broken(const trace::RunTrace& run, const scenario::Promises& promises,
                                           std::size_t& judged);

}  // namespace lockstep::laws
