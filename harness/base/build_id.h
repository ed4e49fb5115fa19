#pragma once

namespace lockstep {

/// 16 hexadecimal digits over all sources of this build; `lockstep` and its worker must carry the same.
const char* build_id();

}  // namespace lockstep
