#pragma once

#include <vector>

#include "harness/diagnosis/scene.h"

/// Parts of a diagnosis: each knows the causes of one part of a training, and stands in <part>_causes.cpp. Its result
/// is empty where no cause fits. `diagnose` asks the first ones in their order.
namespace lockstep::diagnosis {

/// Two programs whose optimizers have different hyperparameters, or whose models are in different modes, as their
/// ledgers tell. Rates are left to the diagnosis of rates.
std::vector<compare::Suspect> suspects_in_hyperparameters(const Scene& scene);

/// Two programs whose generators differ. One was never seeded, or too late: after something was drawn from it.
std::vector<compare::Suspect> suspects_in_seeds(const Scene& scene);

/// Causes of rounding that lie in the environments of the runs, not in their recipes.
std::vector<compare::Suspect> suspects_in_environment(const Scene& scene);

/// Causes of a resumed training that differs from the straight one, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_resumption(const Scene& scene);

/// Two programs that begin otherwise, of which one read a checkpoint.
std::vector<compare::Suspect> suspects_in_left_overs(const Scene& scene);

/// A program that read a checkpoint before its first update: alone, or beside one that read the same file. Other than
/// our own worker's, it counts its updates from 0 again.
std::vector<compare::Suspect> suspects_in_loaded_programs(const Scene& scene);

/// Causes of different samples, inputs or ledger counts, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_data(const Scene& scene);

/// Causes of different learning rates, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_rates(const Scene& scene);

/// Matrices that hold the same numbers in another memory layout on some ranks.
std::vector<compare::Suspect> suspects_in_layout(const Scene& scene);

/// Differences by design between ranks' shares of the batch. A layer may see a rank's whole share (BatchNorm), or a
/// mask may depend on a sample's place in it (dropout). Empty if the shares are equal, or if the model has no such
/// layer.
std::vector<compare::Suspect> suspects_in_shares(const Scene& scene);

/// Causes of different losses and gradients, before or after the reduction; the likeliest first. Empty if no cause
/// fits.
std::vector<compare::Suspect> suspects_in_gradients(const Scene& scene);

/// Causes of different optimizer state, weights or averages, the likeliest first. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_update(const Scene& scene);

/// Causes of ranks that should hold equal state but do not, the likeliest first. Between two runs: for the run whose
/// ranks disagree. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_ranks(const Scene& scene);

/// Causes of a law that one of two programs breaks by itself. Empty if the other breaks it, too, or if it is broken
/// only after the step where they part.
std::vector<compare::Suspect> suspects_in_broken_laws(const Scene& scene);

/// Causes of a divergence of class "rounding", the likeliest first; `fp.rounding` if none is known. Empty for other
/// classes.
std::vector<compare::Suspect> suspects_in_rounding(const Scene& scene);

/// Corruption of one rank's tensor: one or a few elements differ from the other ranks or the other side, but all inputs
/// agree. Empty if the difference is spread over the tensor.
std::vector<compare::Suspect> suspects_in_corruption(const Scene& scene);

/// Features that one program gathers from all ranks with their gradient, and the other without. Empty if the losses
/// differ, or if the collectives of both are alike.
std::vector<compare::Suspect> suspects_in_gathered(const Scene& scene);

/// Causes of local gradients that differ from the other side's by one factor. The loss was multiplied by ranks, not
/// divided by micro-batches, or divided by a wrong count. Empty if no cause fits.
std::vector<compare::Suspect> suspects_in_loss_scaling(const Scene& scene);

/// Means over unequal parts (ranks or micro-batches with different numbers of samples or targets) that are averaged
/// without weights. Empty if the parts are equal, or if no weighting makes the sides agree.
std::vector<compare::Suspect> suspects_in_loss_weighting(const Scene& scene);

/// Reduced losses and metrics that were divided by a wrong number of ranks. Losses are compared with the ranks' local
/// ones, metrics with the other side's. Empty if no whole number fits.
std::vector<compare::Suspect> suspects_in_metrics(const Scene& scene);

/// Two programs that part in the weights, where nothing but the learning rates differs. Each change of a weight is as
/// many times as large as the rate of its group.
std::vector<compare::Suspect> suspects_in_rates_alone(const Scene& scene);

/// Programs of several ranks whose gradients before the reduction were not recorded, because no backward pass of theirs
/// reduces. With the losses of the other side, the ranks' own gradients are the other side's. Alone, ranks that update
/// with different gradients and exchange nothing reduce nothing.
std::vector<compare::Suspect> suspects_in_unrecorded_reduction(const Scene& scene);

/// Ranks that split tensors, and whose gradients of whole tensors nobody adds; or gradients that one of two programs
/// reduces once more, although its ranks hold them whole.
std::vector<compare::Suspect> suspects_in_sharded(const Scene& scene);

/// Updates with W times the samples of the other side, or of the recipe if there is no other side.
std::vector<compare::Suspect> suspects_in_batch_size(const Scene& scene);

/// A tail of an epoch that one side drops, or pads with repeated samples.
std::vector<compare::Suspect> suspects_in_tail(const Scene& scene);

/// The same order of samples, cut into different global batches.
std::vector<compare::Suspect> suspects_in_dealing(const Scene& scene);

}  // namespace lockstep::diagnosis
