#pragma once

#include <filesystem>

#include "harness/launch/place.h"

namespace lockstep::train {

/// Sums, gathers and sends exact numbers over Gloo, or between GPUs over NCCL, counts wrong elements, and takes times.
/// Writes "rank<r>.collectives.json" into `out`: an array of {operation, bytes, seconds, wrong}.
///
/// The elements are small whole numbers as float32, so every order of additions gives the same sum. Sizes are the whole
/// payload, as in nccl-tests: all ranks' shares of a gather, and the input of a scatter.
///
/// `request`: a file with `over` ("gloo" or "nccl"), `least_bytes`, `most_bytes`, and `wrong_rank`. The last all-reduce
/// of that rank gets one wrong element; −1: none.
/// *Throws*: InputError for a request that cannot be read. Unsupported if NCCL or the GPUs are lacking. The errors of
/// c10d.
void check_collectives(const std::filesystem::path& request, const launch::Place& place,
                       const std::filesystem::path& out);

}  // namespace lockstep::train
