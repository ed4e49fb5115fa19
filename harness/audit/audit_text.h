#pragma once

#include <string>

#include "harness/audit/audit.h"

namespace lockstep::audit {

/// For a terminal: the answer in one line, the quantities as a table, then the statements.
std::string to_text(const Audit& audit, bool color);

/// Tables for a pull request.
std::string to_markdown(const Audit& audit);

/// "lockstep.audit/1".
Json to_json(const Audit& audit);

/// Samples in an update, rate, and norm of the first update along the number of ranks, each relative to the first
/// number's: an SVG of two logarithmic axes.
std::string to_svg(const Audit& audit);

}  // namespace lockstep::audit
