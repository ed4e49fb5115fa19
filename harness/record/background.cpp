#include "harness/record/background.h"

#include <chrono>
#include <utility>

namespace lockstep::record {
namespace {

/// How long a task may lie before it is begun. The thread looks by itself: to wake it costs the caller more than to
/// copy a small tensor.
constexpr std::chrono::milliseconds kPatience(1);

/// Tasks without room wait in memory of their own: of them there may be so many.
constexpr std::size_t kMostEntries = 4096;

}  // namespace

Background::Background(std::size_t capacity) : memory_(capacity), thread_([this] { work(); }) {}

Background::~Background() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  handed_over_.notify_all();
  thread_.join();
}

std::byte* Background::room(std::size_t size) {
  std::unique_lock lock(mutex_);
  rethrow_failure();
  std::byte* room = memory_.take(size);
  if (room == nullptr) {
    handed_over_.notify_all();
    done_.wait(lock, [&] { return failure_ || (room = memory_.take(size)) != nullptr; });
    rethrow_failure();
  }
  next_has_room_ = true;
  return room;
}

void Background::hand_over(Task task) {
  std::unique_lock lock(mutex_);
  rethrow_failure();
  if (entries_.size() >= kMostEntries) {
    handed_over_.notify_all();
    done_.wait(lock, [&] { return failure_ || entries_.size() < kMostEntries / 2; });
    rethrow_failure();
  }
  entries_.push_back({std::move(task), std::exchange(next_has_room_, false)});
}

void Background::wait() {
  std::unique_lock lock(mutex_);
  if (!entries_.empty()) {
    handed_over_.notify_all();
    done_.wait(lock, [&] { return failure_ || entries_.empty(); });
  }
  rethrow_failure();
}

void Background::rethrow_failure() const {
  if (failure_) std::rethrow_exception(failure_);
}

void Background::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    handed_over_.wait_for(lock, kPatience, [this] { return !entries_.empty() || closing_; });
    if (entries_.empty() && closing_) return;
    if (entries_.empty()) continue;
    Entry& entry = entries_.front();  // stays where it is while others are put behind it
    std::exception_ptr failure;
    lock.unlock();
    try {
      entry.task();
      entry.task = nullptr;  // what it holds is freed without the lock
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (entry.has_room) memory_.give_back();
    entries_.pop_front();
    failure_ = failure;
    done_.notify_all();
    if (failure_) return;
  }
}

}  // namespace lockstep::record
