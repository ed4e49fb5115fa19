#pragma once

#include "harness/base/json.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// A part of what a program's recorder saw, from the header's "seen" (python/lockstep/_facts.py): "ddp". Null where
/// nothing was seen, as of our own worker.
Json seen_of(const trace::RunTrace& run, const char* part);

}  // namespace lockstep::laws
