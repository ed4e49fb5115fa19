#include "harness/launch/patience.h"

#include <algorithm>

#include "harness/launch/scheduling.h"

namespace lockstep::launch {

void Patience::renew() {
  time_ = counted_ = last_question_ = Seconds(0);
  first_.reset();
  share_without_processor_ = 0;
}

void Patience::pass(Time now) {
  const Seconds elapsed = now - last_look_;
  last_look_ = now;
  time_ += elapsed;
  counted_ += std::min<Seconds>(elapsed, kMostPerLook);
}

bool Patience::is_over(Seconds limit, const std::vector<Awaited>& processes) {
  const bool is_due = counted_ >= std::max<Seconds>(kFirstQuestion, last_question_ * kNextQuestion);
  if (is_due || waited() >= limit) ask(processes);
  return waited() >= limit;
}

/// What was counted before the first question, and after the last one, counts in full.
Patience::Seconds Patience::waited() const {
  if (!first_) return counted_;
  const Seconds between = last_question_ - first_->counted;
  return counted_ - share_without_processor_ * between;
}

void Patience::ask(const std::vector<Awaited>& processes) {
  std::map<pid_t, std::chrono::nanoseconds> queued;
  std::map<pid_t, std::uint64_t> page_faults;
  bool loads = false;
  for (const Awaited& process : processes) {
    Scheduling now = scheduling_of(process.pid);
    const auto before = page_faults_.find(process.pid);
    const bool is_known = before != page_faults_.end();
    loads |= process.loads && is_known && now.page_faults >= before->second + kFaultsOfLoading;
    page_faults[process.pid] = now.page_faults;
    queued.merge(now.queued);
  }
  page_faults_ = std::move(page_faults);
  if (loads) return renew();
  last_question_ = counted_;
  if (!first_) {
    first_ = {.time = time_, .counted = counted_, .queued = std::move(queued)};
    return;
  }
  Seconds longest{0};
  for (const auto& [thread, time] : queued) {
    const auto before = first_->queued.find(thread);
    longest = std::max<Seconds>(longest, before == first_->queued.end() ? time : time - before->second);
  }
  const Seconds since_first = time_ - first_->time;
  if (since_first > Seconds(0)) share_without_processor_ = std::min(1.0, longest / since_first);
}

}  // namespace lockstep::launch
