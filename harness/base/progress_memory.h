#pragma once

#include <array>
#include <atomic>
#include <cstddef>
#include <cstdint>
#include <filesystem>
#include <string_view>

namespace lockstep {

/// A rank's sign of life: the content of its progress file, mapped into memory. Writes need no system call and survive
/// the rank's death. `launch/progress.h` reads it, and has the phases of a step.
///
/// Two slots, so that the one which `beats` points at is never being written: a writer that dies at any instruction
/// leaves a readable file.
struct ProgressMemory {
  static constexpr std::uint64_t kMagic = 0x327373657267706cU;  // "lpgress2" in memory

  /// Words that hold the name of a collective, zeros behind it.
  static constexpr std::size_t kNameWords = 6;
  static constexpr std::size_t kNameBytes = kNameWords * sizeof(std::uint64_t);

  /// Phases that a recorder knows; `launch::Phase` has all.
  enum RecordedPhase : std::int64_t { kStart = 0, kInStep = 2, kRecorded = 5, kDone = 6 };

  struct Slot {
    std::atomic<std::int64_t> step;
    std::atomic<std::int64_t> phase;
  };
  std::atomic<std::uint64_t> magic;
  std::atomic<std::uint64_t> beats;
  std::array<Slot, 2> slots;
  std::atomic<std::uint64_t> collectives;
  std::array<std::array<std::atomic<std::uint64_t>, kNameWords>, 2> names;  ///< of the last two collectives
  std::atomic<std::uint64_t> before_step;                                   ///< collectives when this step began

  void report(std::int64_t step, std::int64_t phase);
  void count_collective(std::string_view collective);
};
static_assert(sizeof(ProgressMemory) == 160);
static_assert(std::atomic<std::uint64_t>::is_always_lock_free && std::atomic<std::int64_t>::is_always_lock_free);

/// Starts the file. *Throws*: ResourceError.
ProgressMemory* map_progress(const std::filesystem::path& path);
void unmap_progress(ProgressMemory* memory);

}  // namespace lockstep
