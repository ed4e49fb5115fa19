#pragma once

#include <string_view>

namespace lockstep::audit {

/// Kind of an audit, as the command line and the files of audits name it.
enum class Kind {
  kScaling,     ///< along the number of ranks
  kCheckpoint,  ///< of what a checkpoint restores, and of who loads it
};

constexpr std::string_view name_of(Kind kind) { return kind == Kind::kScaling ? "scaling" : "checkpoint"; }

}  // namespace lockstep::audit
