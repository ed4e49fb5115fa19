#pragma once

#include <cstdint>
#include <map>
#include <string>

#include "harness/trace/trace.h"

namespace lockstep::trace {

/// The part of each batch that a rank computes. Ranks that split tensors (tensor parallel) compute one together.
struct BatchShare {
  std::int64_t number = 0;
  std::int64_t count = 1;
};

/// As the header's "data_parallel" says; without it each rank has a share of its own.
BatchShare batch_share_of(const Trace& trace);

/// How many shares the batches of a run have.
std::int64_t batch_shares_of(const RunTrace& run);

/// Names and sizes of the dimensions of the meshes on which a run's tensors lie; empty where all are whole.
std::map<std::string, std::int64_t> mesh_of(const RunTrace& run);

/// Whether no rank before this one computes the same share.
bool is_first_of_share(const RunTrace& run, std::size_t rank);

/// The run as one rank for each share, in their order: what rules about samples are about. Ranks keep their numbers.
RunTrace one_rank_for_each_share(const RunTrace& run);

}  // namespace lockstep::trace
