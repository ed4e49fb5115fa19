#pragma once

#include <optional>
#include <string>

#include "harness/base/json.h"
#include "harness/diagnosis/scene.h"
#include "harness/laws/seen_facts.h"

/// Facts of a program that its recorder tells beside the tensors. python/lockstep/_facts.py writes the header's "seen".
namespace lockstep::diagnosis {

using laws::seen_of;

/// Whether the divergence is one of two programs.
bool is_between_programs(const Scene& scene);

/// A number or a count that a side's ledger holds in a step.
std::optional<double> told_in(const Side& side, std::int64_t step, const std::string& name);

}  // namespace lockstep::diagnosis
