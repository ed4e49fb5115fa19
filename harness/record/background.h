#pragma once

#include <condition_variable>
#include <cstddef>
#include <deque>
#include <exception>
#include <functional>
#include <mutex>
#include <thread>

#include "harness/record/staging.h"

namespace lockstep::record {

/// A thread that does what it is handed, in order, and the memory for what it is handed. One thread at a time hands
/// over.
///
/// After a task that failed no other is done, and every call throws what that one threw.
class Background {
 public:
  using Task = std::function<void()>;

  /// *Throws*: std::bad_alloc, std::system_error.
  explicit Background(std::size_t capacity);

  /// Does what was handed over.
  ~Background();

  Background(const Background&) = delete;
  Background& operator=(const Background&) = delete;

  std::size_t capacity() const { return memory_.capacity(); }

  /// Room for at most `capacity()` bytes; waits until tasks have given up enough. It belongs to the next task.
  std::byte* room(std::size_t size);

  void hand_over(Task task);

  /// Waits until all is done.
  void wait();

 private:
  struct Entry {
    Task task;
    bool has_room;
  };

  void rethrow_failure() const;
  void work();

  StagingMemory memory_;
  mutable std::mutex mutex_;
  std::condition_variable handed_over_;  ///< somebody waits for the thread, or it shall end
  std::condition_variable done_;
  std::deque<Entry> entries_;  ///< the first may be in work
  bool next_has_room_ = false;
  bool closing_ = false;
  std::exception_ptr failure_;
  std::thread thread_;  ///< last: it uses all the others
};

}  // namespace lockstep::record
