#pragma once

#include <cstdint>
#include <filesystem>
#include <string>
#include <string_view>

namespace lockstep::launch {

/// Phases of a step, in order.
enum class Phase : std::int32_t { kStart, kData, kForward, kBackward, kOptimizer, kRecord, kDone };

std::string_view name_of(Phase phase);

/// Last reported progress of a rank.
struct Progress {
  std::int64_t step = -1;  ///< −1: not in a step yet
  Phase phase = Phase::kStart;
  std::uint64_t collectives = 0;  ///< issued so far; among ranks in one phase, the hanging one has the fewest
  std::string collective;         ///< the last one issued, "allreduce Float[650] SUM"; cut to 47 characters
  std::string previous;           ///< the one before it
  std::uint64_t before_step = 0;  ///< collectives issued before this step
  std::uint64_t beats = 0;        ///< number of reports so far

  bool operator==(const Progress&) const = default;
};

/// Writer, in the rank: a few bytes of a memory-mapped file. Writes need no system call and survive the rank's death.
class ProgressWriter {
 public:
  /// *Throws*: ResourceError.
  explicit ProgressWriter(const std::filesystem::path& path);
  ~ProgressWriter();
  ProgressWriter(const ProgressWriter&) = delete;
  ProgressWriter& operator=(const ProgressWriter&) = delete;

  void report(std::int64_t step, Phase phase);

  /// Reports one more collective. From any thread, but one at a time.
  void count_collective(std::string_view collective);

 private:
  void* memory_ = nullptr;
};

/// Reader, in the supervisor. A missing or short file reads as "not started".
Progress read_progress(const std::filesystem::path& path);

/// File of one rank in the directory of its run: "rank3.progress".
std::filesystem::path progress_path(const std::filesystem::path& run_directory, std::int64_t rank);

}  // namespace lockstep::launch
