#pragma once

namespace lockstep {

/// Version, and commit where it is known: "0.1.0 (commit 0123456789ab with changes)". Only the programs link it, so a
/// commit compiles one file.
const char* version();

}  // namespace lockstep
