#pragma once

#include <cstdint>
#include <map>
#include <optional>
#include <string>

#include "harness/base/json.h"
#include "harness/laws/law.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// A part of what a program's recorder saw, from the header's "seen" (python/lockstep/_facts.py): "ddp". Null where
/// nothing was seen, as of our own worker.
Json seen_of(const trace::RunTrace& run, const char* part);

/// The settings of a program's FSDP2: "param_dtype", "reduce_dtype", "divide_factor". Empty where it has none.
Json fsdp_of(const trace::RunTrace& run);

/// How the ranks of a program share its model, and over how many of them: {"replicate": 2, "shard": 4}. Nothing where
/// its recorder does not say.
std::optional<std::map<std::string, std::int64_t>> layout_of(const trace::RunTrace& run);

/// "replicate over 2 ranks and shard over 4"; "one whole model" where nothing is shared.
std::string text_of(const std::map<std::string, std::int64_t>& layout);

/// Whether ranks are known to share the model in different ways: then they exchange other tensors.
bool lie_otherwise(const trace::RunTrace& left, const trace::RunTrace& right);

/// Whether a program read a checkpoint before its first update.
bool has_loaded(const trace::RunTrace& run);

/// The count of a program's recorder in a step, the ledger's entry "seen.NAME"; 0 if there is none.
std::int64_t seen_count(const trace::Step& step, const std::string& name);

/// Whether a program's recorder saw its DDP, or what stands in its place, to have a property: "wrap", "sharded", or
/// "broadcast_buffers", which gives all ranks the buffers of rank 0 before each pass.
bool ddp_has(const trace::RunTrace& run, const char* property);

/// Whether any step of a run has a record of this channel.
bool records(const trace::RunTrace& run, trace::Channel channel);

/// Whether all ranks have weights of the same names; those of a pipeline's stages have others.
bool hold_the_same_names(const trace::RunTrace& run);

/// A breach that is the evidence for its own cause: the program was seen to do `actual`.
Breach seen_breach(RecordPlace at, std::string expected, const std::string& actual, std::string cause);

}  // namespace lockstep::laws
