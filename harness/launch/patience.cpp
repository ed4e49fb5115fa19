#include "harness/launch/patience.h"

#include <algorithm>

namespace lockstep::launch {
namespace {

using Seconds = Patience::Seconds;

/// Between two questions, of one process or several.
struct Use {
  Seconds ran{0};
  Seconds queued{0};
};

Use use_between(const Scheduling& before, const Scheduling& after) {
  Use use;
  for (const auto& [thread, now] : after.threads) {
    const auto known = before.threads.find(thread);
    const ThreadTime then = known == before.threads.end() ? ThreadTime{} : known->second;
    use.ran += now.ran - then.ran;
    use.queued += now.queued - then.queued;
  }
  return use;
}

/// A processor that runs one thread is there for all: they are queued for each other then.
Seconds without_processor(const Use& use, Seconds elapsed) {
  return std::min(use.queued, std::max(Seconds(0), elapsed - use.ran));
}

}  // namespace

void Patience::renew() {
  time_ = counted_ = excused_ = asked_time_ = asked_counted_ = Seconds(0);
  asked_.clear();
}

void Patience::pass(Time now) {
  const Seconds elapsed = now - last_look_;
  last_look_ = now;
  time_ += elapsed;
  counted_ += std::min<Seconds>(elapsed, kMostPerLook);
}

bool Patience::is_over(Seconds limit, const std::vector<Awaited>& processes) {
  const Seconds since_asked = counted_ - asked_counted_;
  const bool is_due = since_asked >= std::max<Seconds>(kAskEvery, counted_ * kAskPart);
  if (is_due || (waited() >= limit && since_asked > Seconds(0))) ask(processes);
  return waited() >= limit;
}

Patience::Seconds Patience::waited() const { return std::max(counted_ - excused_, counted_ / kMostStretch); }

void Patience::ask(const std::vector<Awaited>& processes) {
  const Seconds elapsed = time_ - asked_time_;
  Seconds longest{0};
  Use all;
  std::map<pid_t, Scheduling> now;
  for (const Awaited& process : processes) {
    const Scheduling& after = now[process.pid] = scheduling_of(process.pid);
    const auto before = asked_.find(process.pid);
    if (before == asked_.end()) continue;
    const Use use = use_between(before->second, after);
    const bool loads = process.loads && after.page_faults >= before->second.page_faults + kFaultsOfLoading;
    const bool child_ended = after.ended_children != before->second.ended_children;
    longest = std::max(longest, loads || child_ended ? elapsed : without_processor(use, elapsed));
    all.ran += use.ran;
    all.queued += use.queued;
  }
  longest = std::max(longest, without_processor(all, elapsed));
  if (elapsed > Seconds(0)) excused_ += (counted_ - asked_counted_) * std::min(1.0, longest / elapsed);
  asked_ = std::move(now);
  asked_time_ = time_;
  asked_counted_ = counted_;
}

}  // namespace lockstep::launch
