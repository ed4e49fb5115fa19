#pragma once

#include <map>
#include <string>

#include "harness/scenario/scenario.h"

namespace lockstep::scenario {

/// Fills in the parts of a program's recipe that its author did not promise with those that the recorder saw: kinds and
/// options of sampler and optimizer, batch size, DDP's options. Diagnosis compares recipes with them. No check relies
/// on them, since a mistaken training is seen as it is: `promises.known` stays. `seen`: of a trace's header
/// (python/lockstep/_facts.py); parts that it lacks, or that have no word in the schema, stay as they are.
/// `first`: what the ledger holds of the first update, by name: "micro_batches", "seen.clip_norm".
void take_seen(Promises& promises, const Json& seen, const std::map<std::string, double>& first);

}  // namespace lockstep::scenario
