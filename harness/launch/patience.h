#pragma once

#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <vector>

#include <sys/types.h>

namespace lockstep::launch {

/// Longest time counted between two looks. If this process was paused for longer, so were those that it waits for.
constexpr std::chrono::milliseconds kMostPerLook{100};

/// Time after which we first ask how long the processes that we wait for were queued.
constexpr std::chrono::milliseconds kFirstQuestion{100};

/// Each question comes after this multiple of the time before the one before it.
constexpr double kNextQuestion = 1.25;

/// Page faults between two questions that show that a program is being loaded. A loop that waits causes none.
constexpr std::uint64_t kFaultsOfLoading = 16;

/// A process that we wait for, with its descendants.
struct Awaited {
  pid_t pid = -1;
  bool loads = false;  ///< it has shown no progress yet: its program may still be loading
};

/// Counts how long we have waited for processes that could have run.
///
/// On a busy machine a process waits for a processor. That time does not count, so a limit is no sooner reached than on
/// an idle machine. The thread that waited longest for a processor stands for all. Time in which all threads sleep,
/// run or are stopped counts; so does all time on another host.
class Patience {
 public:
  using Time = std::chrono::steady_clock::time_point;
  using Seconds = std::chrono::duration<double>;

  explicit Patience(Time now) : last_look_(now) {}

  /// Begins anew: there was progress.
  void renew();

  /// Notes the time that went by since the last call.
  void pass(Time now);

  /// Whether the time that counts has reached the limit, asking the processes if need be. Begins anew if one of them is
  /// being loaded.
  bool is_over(Seconds limit, const std::vector<Awaited>& processes);

 private:
  Seconds waited() const;
  void ask(const std::vector<Awaited>& processes);

  /// The first question since the beginning.
  struct Question {
    Seconds time;     ///< `time_` then
    Seconds counted;  ///< `counted_` then
    std::map<pid_t, std::chrono::nanoseconds> queued;
  };

  Time last_look_;
  Seconds time_{0};     ///< since the beginning
  Seconds counted_{0};  ///< the part of it that was between looks of kMostPerLook
  std::optional<Question> first_;
  Seconds last_question_{0};                    ///< `counted_` at the last question
  double share_without_processor_ = 0;          ///< of the time between the first question and the last one
  std::map<pid_t, std::uint64_t> page_faults_;  ///< by process, at the last question
};

}  // namespace lockstep::launch
