#include "harness/trace/writer.h"

#include <chrono>
#include <utility>

#include "harness/trace/line.h"

namespace lockstep::trace {
namespace {

/// How long a line may lie before it is written. The thread looks by itself: to wake it costs the training more than to
/// write the line.
constexpr std::chrono::milliseconds kPatience(1);

}  // namespace

Writer::Writer(const std::filesystem::path& path, Json header) : file_(path) {
  header["format"] = kTraceFormat;
  append(line_of_header(header));
  thread_ = std::thread([this] { work(); });
}

Writer::~Writer() {
  {
    const std::lock_guard lock(mutex_);
    closing_ = true;
  }
  changed_.notify_all();
  thread_.join();
}

void Writer::write(std::string line) {
  flush();
  {
    const std::lock_guard lock(mutex_);
    handed_over_ = std::move(line);
  }
}

void Writer::flush() {
  std::unique_lock lock(mutex_);
  if (handed_over_) append(*std::exchange(handed_over_, std::nullopt));  // not begun: faster than to wake the thread
  changed_.wait(lock, [this] { return !writing_; });
  if (failure_) std::rethrow_exception(failure_);
}

void Writer::finish() {
  flush();
  file_.append(line_of_end(lines_, hash_.hex()));
}

void Writer::append(const std::string& line) {
  file_.append(line);
  hash_.update(line);
  ++lines_;
}

void Writer::work() {
  std::unique_lock lock(mutex_);
  while (true) {
    changed_.wait_for(lock, kPatience, [this] { return handed_over_ || closing_; });
    if (!handed_over_ && closing_) return;
    if (!handed_over_) continue;
    const std::string line = *std::exchange(handed_over_, std::nullopt);
    writing_ = true;
    lock.unlock();  // the file and the hash stay untouched until the line is written
    std::exception_ptr failure;
    try {
      append(line);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    writing_ = false;
    changed_.notify_all();
  }
}

}  // namespace lockstep::trace
