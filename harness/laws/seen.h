#pragma once

#include <string>

#include "harness/base/json.h"
#include "harness/laws/law.h"
#include "harness/trace/trace.h"

namespace lockstep::laws {

/// A part of what a program's recorder saw, from the header's "seen" (python/lockstep/_facts.py): "ddp". Null where
/// nothing was seen, as of our own worker.
Json seen_of(const trace::RunTrace& run, const char* part);

/// A breach that is the evidence for its own cause: the program was seen to do `actual`.
Breach seen_breach(RecordPlace at, std::string expected, const std::string& actual, std::string cause);

}  // namespace lockstep::laws
