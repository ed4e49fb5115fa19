#include "harness/trace/writer.h"

#include <utility>

#include "harness/trace/line.h"

namespace lockstep::trace {

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
  changed_.notify_all();
}

void Writer::flush() {
  std::unique_lock lock(mutex_);
  changed_.wait(lock, [this] { return !handed_over_; });
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
    changed_.wait(lock, [this] { return handed_over_ || closing_; });
    if (!handed_over_) return;
    lock.unlock();  // nobody touches the line, the file or the hash before it is written
    std::exception_ptr failure;
    try {
      append(*handed_over_);
    } catch (...) {
      failure = std::current_exception();
    }
    lock.lock();
    if (failure) failure_ = failure;
    handed_over_.reset();
    changed_.notify_all();
  }
}

}  // namespace lockstep::trace
