#pragma once

#include <array>
#include <cstddef>
#include <string_view>

namespace lockstep::audit {

/// Kind of an audit, as the command line and the files of audits name it.
enum class Kind {
  kScaling,     ///< along the number of ranks
  kCheckpoint,  ///< of what a checkpoint restores, and of who loads it
  kLayout,      ///< of a program in other layouts: shards, replicas, split layers
};

inline constexpr std::array<std::string_view, 3> kKindNames = {"scaling", "checkpoint", "layout"};

constexpr std::string_view name_of(Kind kind) { return kKindNames[static_cast<std::size_t>(kind)]; }

}  // namespace lockstep::audit
