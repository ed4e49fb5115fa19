#include "harness/judge/left_out.h"

#include <algorithm>
#include <set>
#include <string_view>

#include "harness/base/text.h"
#include "harness/laws/seen_facts.h"

namespace lockstep::judge {

std::string steps_left_out(const trace::RunTrace& run, const scenario::Promises& promises) {
  const std::int64_t every = promises.train.record.every;
  if (every <= 1 || run.ranks[0].steps.empty()) return "";
  const std::int64_t last = run.ranks[0].steps.back().step;
  const bool may_go_on = promises.known && (!promises.knows("steps") || last < promises.train.steps - 1);
  return "of every " + std::to_string(every) + " updates one is recorded: the steps between were not compared" +
         (may_go_on ? ", nor those after step " + std::to_string(last) : "");
}

std::int64_t muted_updates(const trace::RunTrace& run) {
  std::int64_t most = 0;
  for (const trace::Trace& rank : run.ranks) {
    std::int64_t updates = 0;
    for (const trace::Step& step : rank.steps) {
      const trace::Record* const muted = step.find(trace::Channel::kLedger, "seen.muted");
      if (muted != nullptr && muted->integers.size() == 1) updates += muted->integers[0];
    }
    most = std::max(most, updates);
  }
  return most;
}

std::string muted_text(const trace::RunTrace& run) {
  const std::int64_t updates = muted_updates(run);
  if (updates == 0) return "";
  return "lockstep.off() left " + std::to_string(updates) + (updates == 1 ? " update" : " updates") +
         " out: nothing of that was recorded or compared";
}

std::string unread_text(const trace::RunTrace& run) {
  constexpr std::string_view kUnread = "seen.unread ";
  std::set<std::string> names;
  for (const trace::Step& step : run.ranks[0].steps) {
    for (const trace::Record& record : step.records) {
      if (record.channel == trace::Channel::kLedger && record.name.starts_with(kUnread))
        names.insert(record.name.substr(kUnread.size()));
    }
  }
  constexpr std::size_t kShown = 3;
  return names.empty() ? ""
                       : "could not be read, and were not compared: " + some_of({names.begin(), names.end()}, kShown);
}

std::string muted_otherwise(const std::vector<const trace::RunTrace*>& runs) {
  for (const trace::RunTrace* run : runs) {
    const std::int64_t first = muted_updates(*runs[0]), other = muted_updates(*run);
    if (first != other)
      return "lockstep.off() left " + std::to_string(first) + " updates out of " + runs[0]->run + ", and " +
             std::to_string(other) + " out of " + run->run + ": only what is recorded was compared";
  }
  return "";
}

namespace {

bool every_training_has(trace::Channel channel) {
  using enum trace::Channel;
  return channel == kSamples || channel == kInput || channel == kRng || channel == kLoss || channel == kGradient ||
         channel == kWeight || channel == kLedger;
}

}  // namespace

std::vector<std::string> channels_left_out(const std::vector<trace::Channel>& compared,
                                           const std::vector<const scenario::Promises*>& sides,
                                           const std::vector<const trace::RunTrace*>& runs) {
  const bool are_programs =
      std::any_of(sides.begin(), sides.end(), [](const scenario::Promises* side) { return side->known.has_value(); });
  std::vector<std::string> names;
  for (const trace::Channel channel : compared) {
    const bool is_asked = std::all_of(sides.begin(), sides.end(), [channel](const scenario::Promises* side) {
      return side->train.record.holds(channel);
    });
    const bool is_held = std::all_of(runs.begin(), runs.end(),
                                     [channel](const trace::RunTrace* run) { return laws::records(*run, channel); });
    if (!is_asked || (are_programs && !is_held && every_training_has(channel)))
      names.emplace_back(trace::name_of(channel));
  }
  return names;
}

}  // namespace lockstep::judge
