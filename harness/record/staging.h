#pragma once

#include <cstddef>
#include <deque>

namespace lockstep::record {

/// Memory for copies that wait for their digest: the first that was taken is the first to be given back.
///
/// It begins at its start again whenever nothing waits. So a step touches the pages of the step before, and no more
/// than it needs. A forked child does not have it, which saves the parent a copy of each page.
class StagingMemory {
 public:
  /// *Throws*: std::bad_alloc.
  explicit StagingMemory(std::size_t capacity);
  ~StagingMemory();
  StagingMemory(const StagingMemory&) = delete;
  StagingMemory& operator=(const StagingMemory&) = delete;

  std::size_t capacity() const { return capacity_; }

  /// Room for `size` bytes, aligned for any element. nullptr: none before more is given back.
  std::byte* take(std::size_t size);

  /// Gives the oldest room back.
  void give_back() { taken_.pop_front(); }

 private:
  std::byte* put(std::size_t begin, std::size_t size);

  std::size_t capacity_;
  std::byte* memory_;
  std::size_t next_ = 0;           ///< behind the youngest
  std::deque<std::size_t> taken_;  ///< where each begins
};

}  // namespace lockstep::record
