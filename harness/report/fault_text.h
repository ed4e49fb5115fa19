#pragma once

#include <string>

#include "harness/judge/fault_table.h"

namespace lockstep::report {

/// The figures with their denominators, and what is not as it should be.
std::string to_text(const judge::FaultTable& table);

/// docs/faults.md.
std::string to_markdown(const judge::FaultTable& table);

}  // namespace lockstep::report
