#pragma once

namespace lockstep {

/// 16 hexadecimal digits over all sources of this build; `lockstep` and its worker must carry the same.
const char* build_id();

/// Compiler options of this build that may change what it computes, without warnings: "-O2 -ffp-contract=off".
const char* build_flags();

}  // namespace lockstep
