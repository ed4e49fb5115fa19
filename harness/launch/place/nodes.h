#pragma once

#include "harness/launch/place/place_reader.h"

namespace lockstep::launch {

/// Reads a place that the platform gives to each node, and LOCAL_RANK of the process: RANK counts nodes, and
/// NPROC_PER_NODE (or PET_NPROC_PER_NODE; PET_N_PROC_PER_NODE of older operators) says how many processes one has.
///
/// - SenseCore (AllReduce), Alibaba DLC, and PyTorchJob before training-operator's #1840: WORLD_SIZE counts nodes.
/// - PyTorchJob since then: WORLD_SIZE counts processes, PET_NNODES nodes; PET_NODE_RANK is RANK.
///
/// LOCAL_RANK is required with more than one process a node. A number of nodes or processes that is a range or "auto"
/// is for torchrun, and refused.
/// *Source*: kubeflow/training-operator, pkg/controller.v1/pytorch/envvar.go, and its pull request 1840.
Place place_of_nodes(Reader& reader);

}  // namespace lockstep::launch
